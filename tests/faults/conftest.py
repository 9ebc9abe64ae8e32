"""Ada's mailbox: an SMTP server that fails on demand, the sandbox for IMAP with a tap in front of
it.
"""

import io
import logging
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from accounts.infra import credentials
from accounts.models import Mailbox, Membership, Role, User
from tests.support.servers.sandbox import ADA, ImapTap, SandboxServer
from tests.support.servers.smtp import Accepted, FaultySmtp


@dataclass(frozen=True, kw_only=True)
class World:
    """The two servers behind the mailbox, and their content."""

    smtp: FaultySmtp
    imap: ImapTap
    sandbox: SandboxServer

    def sent(self) -> list[bytes]:
        return self.sandbox.messages(ADA, "Sent")

    def saves_what_it_accepts(self) -> None:
        """Make the SMTP server put a copy into Sent by itself, as Gmail and Microsoft 365 do."""
        self.smtp.on_accept = lambda accepted: self.sandbox.deliver(
            ADA, accepted.content, folder="Sent", unread=False
        )

    def renames_and_saves_what_it_accepts(self) -> None:
        """Do the same under a new Message-ID. The original one is in another header, as at
        Outlook.com.
        """

        def save(accepted: Accepted) -> None:
            renamed = accepted.content.replace(
                b"Message-ID:", b"X-Microsoft-Original-Message-ID:", 1
            )
            copy = b"Message-ID: <renamed@mail.example>\r\n" + renamed
            self.sandbox.deliver(ADA, copy, folder="Sent", unread=False)

        self.smtp.on_accept = save

    def imap_goes_down(self) -> None:
        self.imap.down = True
        self.imap.cut()

    def imap_comes_back(self) -> None:
        self.imap.down = False


@pytest.fixture
def world(sandbox: SandboxServer) -> Iterator[World]:
    with FaultySmtp() as smtp, ImapTap(sandbox.state.imap_port) as imap:
        yield World(smtp=smtp, imap=imap, sandbox=sandbox)


@pytest.fixture
def mailbox(alice: User, world: World) -> Mailbox:
    """Replace the mailbox on the in-memory server."""
    mailbox_id = uuid.uuid4()
    access = world.sandbox.access(ADA, imap_port=world.imap.port, smtp_port=world.smtp.port)
    mailbox = Mailbox.objects.create(
        id=mailbox_id,
        address=ADA,
        provider="imap",
        provider_files_copies=False,  # as after its first mail
        credentials=credentials.encrypt(access.as_secrets(), mailbox_id=mailbox_id),
        scopes=["read", "send"],
    )
    Membership.objects.create(mailbox=mailbox, user=alice, role=Role.MANAGER)
    return mailbox


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """Yield everything that goes through the handler of our logs, at every level."""
    root = logging.getLogger()
    (handler,) = (handler for handler in root.handlers if type(handler) is logging.StreamHandler)
    text = io.StringIO()
    before, level = handler.setStream(text), root.level
    root.setLevel(logging.DEBUG)
    yield text
    root.setLevel(level)
    assert before is not None
    handler.setStream(before)
