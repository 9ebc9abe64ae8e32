"""The tools of the catalogue as tests use them: one row for each, and nothing else to add."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from accounts.models import Role
from tests.conftest import HELLO, Api

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


Arguments = Callable[[World], dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Use:
    """The use of one tool in the tests of all tools.

    `examples`: arguments with which it succeeds come first, and others to compare follow. Each set
    is built twice, once for REST and once for MCP, so it may create objects that the tool uses up.
    `least`: the least role that may call it; None if it takes no mailbox.
    `for_roles`: its arguments in the test of roles. An id in them begins with `no-such`.
    `by_mail_id`: its arguments for a mail that programs must not see, if it takes the id of a mail.
    The id itself is empty here.
    """

    examples: list[Arguments]
    least: Role | None = None
    for_roles: dict[str, Any] = field(default_factory=dict)
    by_mail_id: dict[str, Any] | None = None


NO_ROW = "USES in tests/support/tools.py needs one row for each tool of the catalogue"
USES: dict[str, Use] = {
    "list_mailboxes": Use(
        examples=[lambda world: {}],
    ),
    "list_emails": Use(
        examples=[
            lambda world: {},
            lambda world: {"folder": "sent", "max_results": 1},
            lambda world: {"folder": "no such folder"},
            lambda world: {"max_results": 51},
        ],
        least=Role.VIEWER,
    ),
    "list_folders": Use(
        examples=[lambda world: {}],
        least=Role.VIEWER,
    ),
    "search_emails": Use(
        examples=[
            lambda world: {"text": "tak"},
            lambda world: {"from": "nobody@nowhere.example", "folder": "sent"},
            lambda world: {"since": "no date"},
        ],
        least=Role.VIEWER,
        for_roles={"subject": "x"},
    ),
    "read_thread": Use(
        examples=[lambda world: {"message_id": world.mail}, lambda world: {}],
        least=Role.VIEWER,
        for_roles={"message_id": "no-such-message"},
        by_mail_id={"message_id": ""},
    ),
    "list_attachments": Use(
        examples=[
            lambda world: {"message_id": world.mail},
            lambda world: {"message_id": "nonsense"},
        ],
        least=Role.VIEWER,
        for_roles={"message_id": "no-such-message"},
        by_mail_id={"message_id": ""},
    ),
    "download_attachment": Use(
        examples=[
            lambda world: {"message_id": world.mail, "attachment_id": world.attachment},
            lambda world: {
                "message_id": world.mail,
                "attachment_id": world.attachment,
                "as": "base64",
            },
            lambda world: {"message_id": world.mail, "attachment_id": "nonsense"},
        ],
        least=Role.VIEWER,
        for_roles={"message_id": "no-such-message", "attachment_id": "1"},
        by_mail_id={"message_id": "", "attachment_id": "1", "as": "text"},
    ),
    "create_draft": Use(
        examples=[lambda world: DRAFT, lambda world: {"to": []}],
        least=Role.PROPOSER,
        for_roles={"to": ["a@b.example"], "subject": "s", "body": "b"},
        by_mail_id={
            "in_reply_to": "",
            "to": ["mira@northwind.example"],
            "subject": "Re: x",
            "body": "Hello.",
        },
    ),
    "draft_reply": Use(
        examples=[
            lambda world: {"message_id": world.mail, "body": "Yes."},
            lambda world: {"uid": 999, "body": "Yes."},
            lambda world: {"body": "Yes."},
        ],
        least=Role.PROPOSER,
        for_roles={"message_id": "no-such-message", "body": "b"},
        by_mail_id={"message_id": "", "body": "Hello."},
    ),
    "update_draft": Use(
        examples=[
            lambda world: {**DRAFT, "draft_id": world.draft(), "subject": "Newer"},
            lambda world: {**DRAFT, "draft_id": world.mail},
        ],
        least=Role.PROPOSER,
        for_roles={"draft_id": "no-such-draft", "subject": "s", "to": ["a@b.example"], "body": "b"},
    ),
    "list_drafts": Use(
        examples=[lambda world: {}],
        least=Role.VIEWER,
    ),
    "delete_draft": Use(
        examples=[
            lambda world: {"draft_id": world.draft()},
            lambda world: {"draft_id": "nonsense"},
        ],
        least=Role.PROPOSER,
        for_roles={"draft_id": "no-such-draft"},
    ),
    "reply_email": Use(
        examples=[
            lambda world: {"message_id": world.mail, "comment": "Yes."},
            lambda world: {"message_id": world.mail, "comment": "Yes.", "confirm": True},
            lambda world: {"message_id": "nonsense", "comment": "Yes."},
        ],
        least=Role.PROPOSER,
        for_roles={"message_id": "no-such-message", "comment": "c"},
        by_mail_id={"message_id": "", "comment": "Hello."},
    ),
    "forward_email": Use(
        examples=[
            lambda world: {"message_id": world.mail, "to": ["a@b.example"]},
            lambda world: {"message_id": world.mail, "to": ["a@b.example"], "confirm": True},
        ],
        least=Role.PROPOSER,
        for_roles={"message_id": "no-such-message", "to": ["a@b.example"]},
        by_mail_id={"message_id": "", "to": ["mira@northwind.example"]},
    ),
    "send_draft": Use(
        examples=[
            lambda world: {"draft_id": world.draft()},
            lambda world: {"draft_id": world.draft(), "confirm": True},
            lambda world: {"draft_id": "nonsense"},
        ],
        least=Role.PROPOSER,
        for_roles={"draft_id": "no-such-draft"},
    ),
    "read_email": Use(
        examples=[
            lambda world: {"message_id": world.mail},
            lambda world: {"message_id": "nonsense"},
        ],
        least=Role.VIEWER,
        for_roles={"message_id": "no-such-message"},
        by_mail_id={"message_id": ""},
    ),
    "send_email": Use(
        examples=[
            lambda world: HELLO,
            lambda world: {**HELLO, "subject": "Proposed", "confirm": True},
            lambda world: world.kept(),
            lambda world: {**world.kept(), "subject": "Another"},
            lambda world: {**HELLO, "to": ["no address"]},
            lambda world: {**HELLO, "idempotency_key": ""},
        ],
        least=Role.PROPOSER,
        for_roles={**HELLO, "confirm": False},
    ),
    "get_action": Use(
        examples=[
            lambda world: {"action_id": world.action()},
            lambda world: {"action_id": "7d444840-9dc0-11d1-b245-5ffdce74fad2"},
        ],
    ),
    "cancel_action": Use(
        examples=[
            lambda world: {"action_id": world.action()},
            lambda world: {"action_id": "nonsense"},
        ],
    ),
    "gmail_search_messages": Use(
        examples=[lambda world: {"query": "from:mira"}, lambda world: {"query": ""}],
        least=Role.VIEWER,
        for_roles={"query": "x"},
    ),
    "gmail_get_message": Use(
        examples=[lambda world: {"message_id": world.mail}],
        least=Role.VIEWER,
        for_roles={"message_id": "no-such-message"},
    ),
    "list_actions": Use(
        examples=[lambda world: {"state": "rejected"}, lambda world: {"state": "no such state"}],
    ),
    "m365_run_command": Use(
        examples=[
            lambda world: {"command": "m365 teams team remove --id 1"},
            lambda world: {"command": "m365 teams team remove --id 2", "confirm": True},
            lambda world: {"command": "m365 login"},
        ],
        least=Role.PROPOSER,
        for_roles={"command": "m365 status"},
    ),
}
