"""A mailbox behind the Gmail API."""

from collections.abc import Callable
from typing import Self

from django.conf import settings

from accounts.connect import google
from accounts.connect.refreshing import GrantEnded, NoToken, access_token
from accounts.infra import credentials
from accounts.infra.texts import join, translatable
from accounts.models import Mailbox
from tools.providers.base import ComposedProvider
from tools.providers.errors import NotAuthorized, Unavailable
from tools.providers.gmail.answers import CONNECT_AGAIN
from tools.providers.gmail.client import GmailClient
from tools.providers.gmail.drafting import GmailDrafts
from tools.providers.gmail.evidence import GmailEvidence
from tools.providers.gmail.mailbox import GmailMailbox
from tools.providers.gmail.reading import GmailReader
from tools.providers.gmail.sending import GmailSender


class GmailProvider(ComposedProvider):
    name = "gmail"
    send_scope = google.COMPOSE_SCOPE
    always_keeps_copy = True
    reader: GmailReader

    def __init__(self, client: GmailClient) -> None:
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
        return cls(client)


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
