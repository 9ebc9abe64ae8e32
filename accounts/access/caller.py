"""The caller of a request, and the surface that the request came through."""

import time
from dataclasses import dataclass, field
from typing import Literal, Self

from accounts.access.quotas import Usage
from accounts.models import CHAT_NAME, SCOPES, ApiToken, User, allowed_scopes

Surface = Literal["rest", "mcp", "agent", "web", "command"]


@dataclass(frozen=True, kw_only=True)
class Caller:
    """A person on their own page, or a program in a person's name: a token, or the chat.

    `scopes` limits a program; a person has no such limit. `name` is the name of the program.
    Together with the user it is the proposer, so a rotated token keeps its idempotency keys.
    A caller without `may_propose` cannot store anything for a person to decide. `usage` holds, by
    name, the rest of each quota that this request has counted for. `found_at` says when its rights
    were looked up, in seconds of the monotonic clock. `session` is the stored key of the session in which
    a person asked the chat.
    """

    user: User
    surface: Surface
    token: ApiToken | None = None
    scopes: frozenset[str] = field(default_factory=frozenset)
    may_propose: bool = True
    usage: dict[str, Usage] = field(default_factory=dict, compare=False)
    found_at: float = field(default_factory=time.monotonic, compare=False)
    session: str = field(default="", compare=False)

    @classmethod
    def chat_of(cls, person: User, *, session: str = "") -> Self:
        """Return the chat of a person. Its model reads what others wrote, so it is a program."""
        return cls(
            user=person,
            surface="agent",
            scopes=allowed_scopes(person, SCOPES),
            session=session,
        )

    @property
    def name(self) -> str:
        if self.token:
            return self.token.name
        return "" if self.is_person else CHAT_NAME

    @property
    def actor(self) -> str:
        """Return the word for the caller in the audit."""
        if self.token:
            return f"token:{self.token.pk}"
        return f"user:{self.user.pk}" if self.is_person else f"chat:{self.user.pk}"

    @property
    def is_person(self) -> bool:
        """Return True on a signed-in person's own page; tokens, chat and commands are programs."""
        return self.surface == "web" and not self.token

    def may(self, scope: str) -> bool:
        return self.is_person or scope in self.scopes
