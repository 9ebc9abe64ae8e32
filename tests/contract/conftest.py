"""The providers that the contract suite runs on: what a test needs to know of each, behind one small surface."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import pytest

from tests.mailserver import ADA, CHARLES, MIRA, SandboxServer, sandbox, sandbox_process
from tools.providers.base import MailProvider
from tools.providers.imap import ImapProvider
from tools.providers.memory import MemoryProvider, MemoryServer

__all__ = ["sandbox", "sandbox_process"]

PROVIDERS = ["memory", "imap"]


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
    FOLDERS = {"inbox": "INBOX", "sent": "Sent", "drafts": "Drafts"}

    def __init__(self, server: SandboxServer) -> None:
        self._server = server
        self.ada: MailProvider = self._provider(ADA)
        self.charles: MailProvider = self._provider(CHARLES)

    def deliver(self, source: bytes, *, address: str = ADA, folder: str = "inbox", unread: bool = True) -> None:
        self._server.deliver(address, source, folder=self.FOLDERS[folder], unread=unread)

    def sent(self) -> list[bytes]:
        return self._server.messages(ADA, "Sent")

    def inbox_of(self, address: str) -> list[bytes]:
        return self._server.messages(address)

    def _provider(self, address: str) -> ImapProvider:
        mailbox_id = uuid.uuid4()
        return ImapProvider(self._server.access(address), mailbox_id=mailbox_id, key=mailbox_id)


@contextmanager
def _side(name: str, request: pytest.FixtureRequest) -> Iterator[Side]:
    match name:
        case "memory":
            yield MemorySide()
        case "imap":
            yield ImapSide(request.getfixturevalue("sandbox"))
        case _:
            raise ValueError(name)


@pytest.fixture(params=PROVIDERS)
def side(request: pytest.FixtureRequest) -> Iterator[Side]:
    with _side(request.param, request) as found:
        yield found


EVERYBODY = (ADA, CHARLES, MIRA)
