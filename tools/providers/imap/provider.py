"""A mailbox behind IMAP and SMTP."""

from typing import Self

from accounts.connect.imap import ImapAccess
from accounts.infra import credentials
from accounts.models import Mailbox
from tools.providers.base import ComposedProvider
from tools.providers.imap.drafting import ImapDrafts
from tools.providers.imap.evidence import ImapEvidence
from tools.providers.imap.mailbox import ImapMailbox
from tools.providers.imap.reading import ImapReader
from tools.providers.imap.sending import ImapSender


class ImapProvider(ComposedProvider):
    name = "imap"
    send_scope = "SMTP"
    always_keeps_copy = False

    def __init__(self, mailbox: ImapMailbox) -> None:
        self.mailbox = mailbox
        self.reader = ImapReader(self.mailbox)
        self.drafts = ImapDrafts(self.mailbox)
        self.sender = ImapSender(self.mailbox)
        self.evidence = ImapEvidence(self.mailbox)

    @classmethod
    def for_mailbox(cls, mailbox: Mailbox) -> Self:
        secrets = credentials.decrypt(bytes(mailbox.credentials), mailbox_id=mailbox.id)
        return cls(
            ImapMailbox(
                ImapAccess.from_secrets(secrets),
                mailbox_id=mailbox.id,
                key=(mailbox.id, mailbox.credentials_version),
                chosen={"sent": mailbox.sent_folder, "drafts": mailbox.drafts_folder},
                domain=mailbox.domain,
            )
        )
