"""The MCP servers that the operator adds to the chat, and which of their tools it may call."""

import re
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from accounts.infra.foreign_text import parse_url

MOST_SERVERS = 10
MOST_TOOLS = 40
NAME_CHARACTERS = 40  # of the log of requests and of actions; models take 64
NAME = re.compile(r"[a-z][a-z0-9-]{0,19}")
TOOL = re.compile(r"[A-Za-z0-9_.-]{1,100}")
SECRET = re.compile(r"[\x21-\x7e]{1,8000}")


class McpServer(BaseModel):
    """One server. The chat calls its `read` tools itself; its `write` tools wait for a person.

    The host is the operator's own choice, so it may be in a private network.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    url: str
    secret: str = Field("", repr=False)
    secret_file: str = ""
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()

    @field_validator("name")
    @classmethod
    def _is_short(cls, name: str) -> str:
        if not NAME.fullmatch(name):
            raise ValueError("must be at most 20 of a-z, 0-9 and -, and begin with a letter")
        return name

    @field_validator("url")
    @classmethod
    def _is_address(cls, url: str) -> str:
        address = parse_url(url)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise ValueError("must be an address such as https://host/mcp")
        if address.username is not None or address.query or address.fragment:
            raise ValueError("must be without user name, ? and #; a secret belongs in secret")
        return url

    @model_validator(mode="after")
    def _is_whole(self) -> "McpServer":
        names = (*self.read, *self.write)
        if not names:
            raise ValueError("needs the names of tools in read or write")
        if len(names) > MOST_TOOLS or len({*map(self.call_name, names)}) < len(names):
            raise ValueError(f"may name at most {MOST_TOOLS} tools, each once, in read or write")
        for name in names:
            if not TOOL.fullmatch(name) or len(self.call_name(name)) > NAME_CHARACTERS:
                raise ValueError(
                    f"{name[:100]!r} cannot be offered: with the name of the server a tool has at most"
                    f" {NAME_CHARACTERS} of A-Z, a-z, 0-9, _, - and the dot"
                )
        if self.secret and self.secret_file:
            raise ValueError("takes secret or secret_file, not both")
        _ = self.headers  # a file that is missing stops the start, not a call
        return self

    @property
    def headers(self) -> dict[str, str]:
        """Return the header with the secret; raise ValueError if its file cannot be used."""
        secret = self.secret
        if self.secret_file:
            try:
                secret = Path(self.secret_file).read_text().strip()
            except (OSError, UnicodeDecodeError):
                raise ValueError("secret_file cannot be read") from None
        if (secret or self.secret_file) and not SECRET.fullmatch(secret):
            raise ValueError("secret must be one word of ASCII characters")
        return {"Authorization": f"Bearer {secret}"} if secret else {}

    def call_name(self, tool: str) -> str:
        """Return the name under which the chat calls a tool. No tool of mailhub has two underscores."""
        return f"{self.name}__{tool}".replace(".", "_")


def check_servers(servers: Sequence[McpServer]) -> None:
    """Raise ValueError if the servers cannot be used together."""
    if len(servers) > MOST_SERVERS or len({each.name for each in servers}) < len(servers):
        raise ValueError(f"may list at most {MOST_SERVERS} servers, each with a name of its own")
