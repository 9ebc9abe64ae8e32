"""The providers that the contract suite runs on: what a test needs to know of each, behind one small surface."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, Protocol

import pytest

from accounts.connect.imap import ImapAccess
from tests.dovecot import Dovecot, dovecot
from tests.mailserver import ADA, CHARLES, MIRA, SandboxServer, sandbox, sandbox_process
from tests.smtpserver import Accepted, FaultySmtp
from tools.providers.base import MailProvider
from tools.providers.imap import ImapProvider
from tools.providers.imap.sessions import POOL
from tools.providers.memory import MemoryProvider, MemoryServer

__all__ = ["dovecot", "sandbox", "sandbox_process"]

PROVIDERS = ["memory", "sandbox", "dovecot"]


class Side(Protocol):
    """Ada's mailbox at a provider, Charles's beside it, and the back door by which a test looks in."""

    ada: MailProvider
    charles: MailProvider

    def deliver(self, source: bytes, *, address: str = ADA, folder: str = "inbox", unread: bool = True) -> None:
        """Put a message into a folder, by its role, as if it had arrived."""
        ...

    def sent(self) -> list[bytes]:
        """What lies in Ada's Sent folder."""
        ...

    def inbox_of(self, address: str) -> list[bytes]:
        """What has arrived for somebody, oldest first."""
        ...


class MemorySide:
    def __init__(self) -> None:
        self._server = MemoryServer()
        self.ada: MailProvider = MemoryProvider(self._server, ADA)
        self.charles: MailProvider = MemoryProvider(self._server, CHARLES)

    def deliver(self, source: bytes, *, address: str = ADA, folder: str = "inbox", unread: bool = True) -> None:
        self._server.deliver(address, source, folder=folder, unread=unread)

    def sent(self) -> list[bytes]:
        return [stored.source for stored in self._server.folder(ADA, "sent")]

    def inbox_of(self, address: str) -> list[bytes]:
        return [stored.source for stored in self._server.folder(address, "inbox")]


class ImapSide:
    """An IMAP server; what leaves by SMTP arrives at the sandbox's own mailboxes."""

    FOLDERS: ClassVar[dict[str, str]] = {"inbox": "INBOX", "sent": "Sent", "drafts": "Drafts"}

    def __init__(self, server: SandboxServer) -> None:
        self._server = server
        self.ada: MailProvider = provider(server.access(ADA))
        self.charles: MailProvider = provider(server.access(CHARLES))

    def deliver(self, source: bytes, *, address: str = ADA, folder: str = "inbox", unread: bool = True) -> None:
        self._server.deliver(address, source, folder=self.FOLDERS[folder], unread=unread)

    def sent(self) -> list[bytes]:
        return self._server.messages(ADA, "Sent")

    def inbox_of(self, address: str) -> list[bytes]:
        return self._server.messages(address)


class DovecotSide:
    """Dovecot, with addresses of this test's own behind the usual names; its SMTP delivers into it."""

    FOLDERS: ClassVar[dict[str, str]] = {"inbox": "INBOX", "sent": "Sent Messages", "drafts": "Drafts"}

    def __init__(self, server: Dovecot, smtp: FaultySmtp, tag: str) -> None:
        self._server, self._tag = server, tag
        self.ada: MailProvider = provider(server.access(self._own(ADA), smtp_port=smtp.port))
        self.charles: MailProvider = provider(server.access(self._own(CHARLES), smtp_port=smtp.port))
        smtp.on_accept = self._arrived

    def deliver(self, source: bytes, *, address: str = ADA, folder: str = "inbox", unread: bool = True) -> None:
        self._server.deliver(self._own(address), source, folder=self.FOLDERS[folder], unread=unread)

    def sent(self) -> list[bytes]:
        return self._server.messages(self._own(ADA), self.FOLDERS["sent"])

    def inbox_of(self, address: str) -> list[bytes]:
        return self._server.messages(self._own(address))

    def _arrived(self, accepted: Accepted) -> None:
        for recipient in accepted.recipients:
            self._server.deliver(self._own(recipient), accepted.content)

    def _own(self, address: str) -> str:
        return f"{self._tag}.{address}"


def provider(access: ImapAccess) -> ImapProvider:
    mailbox_id = uuid.uuid4()
    return ImapProvider(access, mailbox_id=mailbox_id, key=mailbox_id)


@contextmanager
def _side(name: str, request: pytest.FixtureRequest) -> Iterator[Side]:
    match name:
        case "memory":
            yield MemorySide()
        case "sandbox":
            yield ImapSide(request.getfixturevalue("sandbox"))
        case "dovecot":
            with FaultySmtp() as smtp:
                yield DovecotSide(request.getfixturevalue("dovecot"), smtp, uuid.uuid4().hex[:8])
                POOL.close_all()
        case _:
            raise ValueError(name)


@pytest.fixture(params=PROVIDERS)
def side(request: pytest.FixtureRequest) -> Iterator[Side]:
    with _side(request.param, request) as found:
        yield found


EVERYBODY = (ADA, CHARLES, MIRA)
