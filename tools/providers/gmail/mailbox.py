"""A Gmail mailbox: its client, its ids, and its labels, which serve as folders."""

import re
from collections.abc import Callable
from typing import Any, Self

from django.conf import settings

from accounts.connect import google
from accounts.connect.refreshing import GrantEnded, NoToken, access_token
from accounts.infra import credentials
from accounts.models import Mailbox
from tools.providers.base import role_of
from tools.providers.errors import NotAuthorized, NotFound, Unavailable
from tools.providers.gmail.answers import CONNECT_AGAIN, NO_MESSAGE
from tools.providers.gmail.client import GmailClient

LABEL_OF_ROLE = {
    "inbox": "INBOX",
    "sent": "SENT",
    "drafts": "DRAFT",
    "junk": "SPAM",
    "trash": "TRASH",
}
ROLE_OF_LABEL = {label: role for role, label in LABEL_OF_ROLE.items()}
NO_FOLDER = "There is no such folder; list_folders names them."
ID = re.compile(r"[A-Za-z0-9_-]{1,200}")
# A draft has an id that stays and a message that changes with every edit. Both together name the
# version that was seen.
DRAFT_ID = re.compile(r"([A-Za-z0-9_-]{1,200})\.([A-Za-z0-9_-]{1,200})")


class GmailMailbox:
    """The base of reading, drafting and sending."""

    def __init__(self, client: GmailClient, *, address: str) -> None:
        self._client = client
        self._address = address

    @classmethod
    def for_mailbox(cls, mailbox: Mailbox) -> Self:
        client = GmailClient(
            token=_token_of(mailbox),
            key=mailbox.id,
            base_url=settings.GMAIL_BASE_URL,
            answer_seconds=settings.MAILHUB_WIRE_TIMEOUT_SECONDS,
        )
        return cls(client, address=mailbox.address)

    def _label(self, folder: str) -> str:
        """Return the label of a folder, given its role, id or name."""
        role = role_of(folder)
        if role in LABEL_OF_ROLE:
            return LABEL_OF_ROLE[role]
        for label in self._labels():
            if folder in (label["id"], label.get("name")):
                return str(label["id"])
        raise NotFound(NO_FOLDER)

    def _labels(self) -> list[dict[str, Any]]:
        answer = self._client.read("labels.list", lambda users: users.labels().list(userId="me"))
        return list(answer.get("labels", ()))


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


def _token_of(mailbox: Mailbox) -> Callable[[str], str]:
    known = credentials.decrypt(bytes(mailbox.credentials), mailbox_id=mailbox.id)

    def token(rejected: str) -> str:
        try:
            return access_token(mailbox.id, google.refreshed, known=known, rejected=rejected)
        except GrantEnded:
            raise NotAuthorized(
                "auth_error", f"Google ended the access to the mailbox. {CONNECT_AGAIN}"
            ) from None
        except NoToken as error:
            detail = error.detail or "Google gave no access token."
            raise Unavailable("no_token", detail, retry_after=error.retry_after) from None

    return token
