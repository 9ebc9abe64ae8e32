"""A Gmail mailbox: its messages and drafts by id, and its labels, which serve as folders."""

import re
from typing import Any

from accounts.infra.texts import translatable
from tools.providers.base import role_of
from tools.providers.errors import NotFound
from tools.providers.gmail.answers import NO_MESSAGE, BadRequest
from tools.providers.gmail.client import Build, GmailClient

LABEL_OF_ROLE = {
    "inbox": "INBOX",
    "sent": "SENT",
    "drafts": "DRAFT",
    "junk": "SPAM",
    "trash": "TRASH",
}
ROLE_OF_LABEL = {label: role for role, label in LABEL_OF_ROLE.items()}
NO_FOLDER = translatable("There is no such folder; list_folders names them.")
DRAFT_GONE = translatable(
    "The draft is gone, or a change gave it another id. Call list_drafts to see what is there."
)
ID = re.compile(r"[A-Za-z0-9_-]{1,200}")
# A draft has an id that stays and a message that changes with every edit. Both together name the
# version that was seen.
DRAFT_ID = re.compile(r"([A-Za-z0-9_-]{1,200})\.([A-Za-z0-9_-]{1,200})")


class GmailMailbox:
    """One mailbox at Gmail: its client, its messages and drafts by id, and its labels."""

    def __init__(self, client: GmailClient) -> None:
        self.client = client

    def find_label(self, folder: str) -> str:
        """Return the label of a folder, given its role, id or name. Raises NotFound."""
        role = role_of(folder)
        if role in LABEL_OF_ROLE:
            return LABEL_OF_ROLE[role]
        for label in self.list_labels():
            if folder in (label["id"], label.get("name")):
                return str(label["id"])
        raise NotFound(NO_FOLDER)

    def list_labels(self) -> list[dict[str, Any]]:
        answer = self.client.read("labels.list", lambda users: users.labels().list(userId="me"))
        return list(answer.get("labels", ()))

    def get_message(
        self, message_id: str, *, fmt: str = "full", fields: str | None = None, patient: bool = True
    ) -> dict[str, Any]:
        return self.read_known(
            "messages.get",
            lambda users: users.messages().get(
                userId="me", id=message_id, format=fmt, fields=fields
            ),
            patient=patient,
        )

    def get_draft(self, draft_id: str, *, fmt: str, patient: bool = True) -> dict[str, Any]:
        """Return a draft by its own id, without its message's. Raises NotFound."""
        try:
            return self.read_known(
                "drafts.get",
                lambda users: users.drafts().get(userId="me", id=draft_id, format=fmt),
                patient=patient,
            )
        except NotFound:
            raise NotFound(DRAFT_GONE) from None

    def read_known(self, name: str, build: Build, *, patient: bool = True) -> dict[str, Any]:
        """Make a read; raise NotFound for a bad request, Gmail's answer to a malformed id."""
        try:
            return dict(self.client.read(name, build, patient=patient))
        except BadRequest:
            raise NotFound(NO_MESSAGE) from None


def message_part(id_: str) -> str:
    """Return the message that an id names; the id may be a draft's.

    Raises NotFound for an id that mailhub cannot have given.
    """
    draft = DRAFT_ID.fullmatch(id_)
    if draft:
        return draft[2]
    if not ID.fullmatch(id_):
        raise NotFound(NO_MESSAGE)
    return id_
