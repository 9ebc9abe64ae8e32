"""A mailbox behind the Gmail API."""

from collections.abc import Callable, Sequence
from typing import Literal, Self

from django.conf import settings

from accounts.connect import google
from accounts.connect.refreshing import GrantEnded, NoToken, access_token
from accounts.infra import credentials
from accounts.infra.texts import join, translatable
from accounts.models import Mailbox
from tools.providers.composed import ComposedProvider
from tools.providers.errors import NotAuthorized, Unavailable
from tools.providers.gmail.answers import COMPOSE_SCOPE, CONNECT_AGAIN
from tools.providers.gmail.client import GmailClient
from tools.providers.gmail.drafting import GmailDrafts
from tools.providers.gmail.evidence import GmailEvidence
from tools.providers.gmail.mailbox import GmailMailbox
from tools.providers.gmail.reading import FoundPage, GmailMessage, GmailReader
from tools.providers.gmail.sending import GmailSender


class GmailProvider(ComposedProvider):
    name = "gmail"
    send_scope = COMPOSE_SCOPE
    always_keeps_copy = True
    reader: GmailReader

    def __init__(self, client: GmailClient, *, address: str) -> None:
        self._address = address
        self.mailbox = GmailMailbox(client)
        drafts = GmailDrafts(self.mailbox)
        evidence = GmailEvidence(self.mailbox)
        self.reader = GmailReader(self.mailbox)
        self.drafts = drafts
        self.evidence = evidence
        self.sender = GmailSender(self.mailbox, drafts, evidence)

    @classmethod
    def for_mailbox(cls, mailbox: Mailbox) -> Self:
        client = GmailClient(
            token=_token_of(mailbox),
            key=mailbox.id,
            base_url=settings.GMAIL_BASE_URL,
            answer_seconds=settings.MAILHUB_WIRE_TIMEOUT_SECONDS,
        )
        return cls(client, address=mailbox.address)

    def test(self) -> None:
        client = self.mailbox.client
        profile = client.read("getProfile", lambda users: users.getProfile(userId="me"))
        if str(profile.get("emailAddress", "")).lower() != self._address.lower():
            raise NotAuthorized(
                "auth_error",
                "Google signed in to a different account than the one of this mailbox.",
            )

    def find(
        self,
        query: str,
        *,
        limit: int,
        newer_than_days: int | None = None,
        label_ids: Sequence[str] = (),
        page_token: str | None = None,
    ) -> FoundPage:
        """Search in Gmail's own language. See `GmailReader.find`."""
        return self.reader.find(
            query,
            limit=limit,
            newer_than_days=newer_than_days,
            label_ids=label_ids,
            page_token=page_token,
        )

    def get(self, message_id: str, *, fmt: Literal["full", "metadata"]) -> GmailMessage:
        """Return a message with its headers. See `GmailReader.get`."""
        return self.reader.get(message_id, fmt=fmt)


def _token_of(mailbox: Mailbox) -> Callable[[str], str]:
    known = credentials.decrypt(bytes(mailbox.credentials), mailbox_id=mailbox.id)

    def token(rejected: str) -> str:
        try:
            return access_token(mailbox, google.refresh, known=known, rejected=rejected)
        except GrantEnded:
            raise NotAuthorized(
                "auth_error",
                join(translatable("Google ended the access to the mailbox."), CONNECT_AGAIN),
            ) from None
        except NoToken as error:
            detail = error.detail or translatable("Google gave no access token.")
            raise Unavailable("no_token", detail, retry_after=error.retry_after) from None

    return token
