"""The tools of the catalogue as tests use them: the example of each, and further calls."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.conftest import HELLO, Api
from tools.catalog.entries import TOOLS

DRAFT = {"to": ["mira@northwind.example"], "subject": "Draft", "body": "Not yet."}


@dataclass(frozen=True, kw_only=True)
class World:
    """Objects for arguments: a mail in the inbox, an action of one's own."""

    api: Api
    mail: str
    attachment: str

    def action(self) -> str:
        return self.api.propose(subject="about an action")

    def kept(self) -> dict[str, Any]:
        """Propose an action with a key, and return its arguments."""
        arguments = {**HELLO, "subject": "Kept", "confirm": True, "idempotency_key": "one"}
        self.api.post("/tools/send_email", arguments)
        return arguments

    def draft(self) -> str:
        return str(self.api.post("/tools/create_draft", DRAFT).json()["id"])

    def example(self, tool: str) -> dict[str, Any]:
        """Return the example of the catalogue, with ids that exist here; drafts are made for it."""
        made = {
            "mailbox": lambda: self.api.tool("list_mailboxes").json()["mailboxes"][0]["id"],
            "message_id": lambda: self.mail,
            "attachment_id": lambda: self.attachment,
            "action_id": self.action,
            "draft_id": self.draft,
        }
        return fill(tool, made)


Arguments = Callable[[World], dict[str, Any]]


def fill(tool: str, made: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
    """Return the example of a tool, with these values in place of its own."""
    example = TOOLS[tool].example
    return {name: made[name]() if name in made else value for name, value in example.items()}


# Further calls of a tool, to compare; if its example needs something else, also one that succeeds.
# Each set is built twice, once for REST and once for MCP, so it may create objects that the tool uses up.
MORE: dict[str, list[Arguments]] = {
    "list_emails": [
        lambda world: {},
        lambda world: {"folder": "sent", "max_results": 1},
        lambda world: {"folder": "no such folder"},
        lambda world: {"max_results": 51},
    ],
    "search_emails": [
        lambda world: {"text": "tak"},
        lambda world: {"from": "nobody@nowhere.example", "folder": "sent"},
        lambda world: {"since": "no date"},
    ],
    "read_thread": [lambda world: {"message_id": world.mail}, lambda world: {}],
    "list_attachments": [lambda world: {"message_id": "nonsense"}],
    "download_attachment": [
        lambda world: {
            "message_id": world.mail,
            "attachment_id": world.attachment,
            "as": "base64",
        },
        lambda world: {"message_id": world.mail, "attachment_id": "nonsense"},
    ],
    "create_draft": [lambda world: {"to": []}],
    "draft_reply": [
        lambda world: {"uid": 999, "body": "Yes."},
        lambda world: {"body": "Yes."},
    ],
    "update_draft": [lambda world: {**DRAFT, "draft_id": world.mail}],
    "delete_draft": [lambda world: {"draft_id": "nonsense"}],
    "reply_email": [
        lambda world: {"message_id": world.mail, "comment": "Yes."},
        lambda world: {"message_id": "nonsense", "comment": "Yes."},
    ],
    "forward_email": [lambda world: {"message_id": world.mail, "to": ["a@b.example"]}],
    "send_draft": [
        lambda world: {"draft_id": world.draft()},
        lambda world: {"draft_id": "nonsense"},
    ],
    "read_email": [lambda world: {"message_id": "nonsense"}],
    "send_email": [
        lambda world: HELLO,
        lambda world: world.kept(),
        lambda world: {**world.kept(), "subject": "Another"},
        lambda world: {**HELLO, "to": ["no address"]},
        lambda world: {**HELLO, "idempotency_key": ""},
    ],
    "get_action": [lambda world: {"action_id": "7d444840-9dc0-11d1-b245-5ffdce74fad2"}],
    "cancel_action": [lambda world: {"action_id": "nonsense"}],
    "gmail_search_messages": [lambda world: {"query": ""}],
    "list_actions": [
        lambda world: {"state": "rejected"},
        lambda world: {"state": "no such state"},
    ],
    "m365_run_command": [
        lambda world: {"command": "m365 teams team remove --id 1"},
        lambda world: {"command": "m365 teams team remove --id 2", "confirm": True},
        lambda world: {"command": "m365 login"},
    ],
}
