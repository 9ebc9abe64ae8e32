"""How each program is connected: the steps, and the exact lines to paste. Pure.

`{url}` is the address of this server, `{token}` a token. Lines without `{token}` let the program
sign in by OAuth. The tests run every line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.utils.translation import gettext_lazy as _

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

REMOTE = _(
    "The program runs on its vendor's servers, so this address must be reachable from the internet by HTTPS."
)
SIGN_IN = _("The program opens this site in your browser. Sign in, and choose what it may do.")
CONNECTOR = _("Open Settings, Connectors, Add custom connector, and paste this address:")
RUN = _("Run in a terminal:")
CLIENT = _("Install the client once, in a clone of mailhub: pip install ./clients/python")


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way to connect a program. `form` is the language of the lines; `file` takes them.

    `before` and `after` are the steps before and after them.
    """

    before: tuple[StrOrPromise, ...] = ()
    after: tuple[StrOrPromise, ...] = ()
    file: str = ""
    lines: str
    form: str

    @property
    def needs_token(self) -> bool:
        return "{token}" in self.lines

    def fill(self, url: str, token: str) -> str:
        """Return the lines for this server and token."""
        return self.lines.replace("{url}", url).replace("{token}", token)


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program that can be connected."""

    key: str
    name: StrOrPromise
    ways: tuple[Way, ...]

    @property
    def from_internet(self) -> bool:
        """Return True if the first way works only with an address that the internet reaches."""
        return REMOTE in self.ways[0].before


BRIDGE = """{
  "mcpServers": {
    "mailhub": {
      "command": "mailhub-mcp",
      "env": {"MAILHUB_URL": "{url}", "MAILHUB_TOKEN": "{token}"}
    }
  }
}"""
ADDRESS = "{url}/mcp"
MCP_CLIENT = """import anyio
import httpx2
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client


async def main() -> None:
    http = httpx2.AsyncClient(headers={"Authorization": "Bearer {token}"}, timeout=90)
    async with http, Client(streamable_http_client("{url}/mcp", http_client=http)) as client:
        for tool in (await client.list_tools()).tools:
            print(tool.name)


anyio.run(main)"""

PROGRAMS = (
    Program(
        key="claude-ai",
        name="Claude.ai",
        ways=(Way(before=(REMOTE, CONNECTOR), after=(SIGN_IN,), lines=ADDRESS, form="address"),),
    ),
    Program(
        key="claude-desktop",
        name="Claude Desktop",
        ways=(
            Way(before=(REMOTE, CONNECTOR), after=(SIGN_IN,), lines=ADDRESS, form="address"),
            Way(file="claude_desktop_config.json", before=(CLIENT,), lines=BRIDGE, form="json"),
        ),
    ),
    Program(
        key="claude-code",
        name="Claude Code",
        ways=(
            Way(
                before=(RUN,),
                after=(_("Then type /mcp in Claude Code, choose mailhub and sign in."),),
                lines="claude mcp add --transport http mailhub {url}/mcp",
                form="sh",
            ),
        ),
    ),
    Program(
        key="chatgpt",
        name="ChatGPT",
        ways=(
            Way(
                before=(
                    REMOTE,
                    _(
                        "Open Settings, Apps and connectors, Advanced settings, and turn on the developer mode. Create"
                        " a connector with this address, and choose OAuth:"
                    ),
                ),
                after=(SIGN_IN,),
                lines=ADDRESS,
                form="address",
            ),
        ),
    ),
    Program(
        key="cursor",
        name="Cursor",
        ways=(
            Way(
                file="~/.cursor/mcp.json",
                after=(SIGN_IN,),
                lines='{"mcpServers": {"mailhub": {"url": "{url}/mcp"}}}',
                form="json",
            ),
        ),
    ),
    Program(
        key="vs-code",
        name="VS Code",
        ways=(
            Way(
                file=".vscode/mcp.json",
                after=(SIGN_IN,),
                lines='{"servers": {"mailhub": {"type": "http", "url": "{url}/mcp"}}}',
                form="json",
            ),
        ),
    ),
    Program(
        key="zed",
        name="Zed",
        ways=(
            Way(
                file="settings.json",
                lines="""{
  "context_servers": {
    "mailhub": {
      "url": "{url}/mcp",
      "headers": {"Authorization": "Bearer {token}"}
    }
  }
}""",
                form="json",
            ),
        ),
    ),
    Program(
        key="windsurf",
        name="Windsurf",
        ways=(
            Way(
                file="~/.codeium/windsurf/mcp_config.json",
                after=(SIGN_IN,),
                lines='{"mcpServers": {"mailhub": {"serverUrl": "{url}/mcp"}}}',
                form="json",
            ),
        ),
    ),
    Program(
        key="gemini-cli",
        name="Gemini CLI",
        ways=(
            Way(
                before=(RUN,),
                after=(_("Then type /mcp auth mailhub in Gemini CLI."),),
                lines="gemini mcp add --transport http --scope user mailhub {url}/mcp",
                form="sh",
            ),
        ),
    ),
    Program(
        key="codex",
        name="Codex",
        ways=(
            Way(
                before=(RUN,),
                after=(_("Then run: codex mcp login mailhub"),),
                lines="codex mcp add mailhub --url {url}/mcp",
                form="sh",
            ),
        ),
    ),
    Program(
        key="n8n",
        name="n8n",
        ways=(
            Way(
                before=(
                    _(
                        "Add the node HTTP Request, choose Import cURL, and paste this. Add the fields of your mail."
                    ),
                ),
                lines="""curl -X POST {url}/api/v1/tools/send_email \\
  -H 'Authorization: Bearer {token}' \\
  -H 'Content-Type: application/json' \\
  -d '{"to": ["mira@northwind.example"], "subject": "Hello", "body": "Until Thursday.", "confirm": true}'""",
                form="sh",
            ),
        ),
    ),
    Program(
        key="langchain",
        name="LangChain",
        ways=(
            Way(
                before=(CLIENT, _("Give the agent this tool:")),
                lines="""from langchain_core.tools import tool
from mailhub_client import Mailhub

hub = Mailhub("{url}", token="{token}")


@tool
def propose_mail(to: str, subject: str, body: str) -> str:
    \"\"\"Propose a mail. A person decides whether it is sent.\"\"\"
    action = hub.propose("send_email", to=[to], subject=subject, body=body)
    return f"It waits for a decision: {action.review_url}\"""",
                form="python",
            ),
        ),
    ),
    Program(
        key="python",
        name="Python",
        ways=(
            Way(
                before=(CLIENT,),
                lines="""from mailhub_client import Mailhub

with Mailhub("{url}", token="{token}") as hub:
    action = hub.propose(
        "send_email", to="mira@northwind.example", subject="Hello", body="Until Thursday."
    )
    print("It waits for a decision:", action.review_url)""",
                form="python",
            ),
        ),
    ),
    Program(
        key="mcp-client",
        name=_("Another MCP client"),
        ways=(
            Way(before=(_("Python, with the package mcp 2:"),), lines=MCP_CLIENT, form="python"),
            Way(
                before=(_("The MCP Inspector, with Node 22.19 or newer:"),),
                lines="""npx @modelcontextprotocol/inspector --cli {url}/mcp --transport http \\
  --header 'Authorization: Bearer {token}' --method tools/list""",
                form="sh",
            ),
            Way(
                before=(
                    _("Any other: the transport Streamable HTTP, this address, and this header:"),
                ),
                lines="{url}/mcp\nAuthorization: Bearer {token}",
                form="address",
            ),
        ),
    ),
    Program(
        key="curl",
        name="curl",
        ways=(
            Way(
                before=(RUN,),
                lines="curl -s {url}/api/v1/tools -H 'Authorization: Bearer {token}'",
                form="sh",
            ),
        ),
    ),
)
