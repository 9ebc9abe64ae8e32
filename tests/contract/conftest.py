"""The providers that the contract suite runs on, each behind the same small interface for tests."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, Protocol

import pytest

from accounts.connect.imap import ImapAccess
from tests.support.servers.dovecot import Dovecot
from tests.support.servers.gmail import GmailServer
from tests.support.servers.graph import GraphServer, graph_mailbox
from tests.support.servers.imap_service import ImapService
from tests.support.servers.memory import MemoryProvider, MemoryServer
from tests.support.servers.sandbox import ADA, CHARLES, MIRA, SandboxServer
from tests.support.servers.smtp import Accepted, FaultySmtp
from tools.mail.text.addresses import domain_of
from tools.providers.base import MailProvider
from tools.providers.gmail import GmailProvider
from tools.providers.gmail.client import GmailClient
from tools.providers.graph import GraphProvider
from tools.providers.imap import ImapProvider
from tools.providers.imap.mailbox import ImapMailbox
from tools.providers.imap.sessions import POOL

PROVIDERS = [
    "memory",
    "sandbox",
    "dovecot",
    pytest.param("graph", marks=pytest.mark.django_db),
    "gmail",
    *(
        pytest.param(name, marks=pytest.mark.long)
        for name in ("cyrus", "courier", "german", "chinese", "french")
    ),
]
# The folders of each IMAP server of somebody else.
FOLDERS: dict[str, dict[str, str]] = {
    "dovecot": {"sent": "Sent Messages", "drafts": "Drafts"},
    "cyrus": {"sent": "INBOX/Sent", "drafts": "INBOX/Drafts"},
    "courier": {"sent": "INBOX.Sent", "drafts": "INBOX.Drafts"},
    "german": {
        "sent": "INBOX.Gesendete Elemente",
        "drafts": "INBOX.Entwürfe",
        "read_only": "INBOX.Archiv",
    },
    "chinese": {"sent": "INBOX.已发送", "drafts": "INBOX.草稿箱"},
    "french": {"sent": "INBOX.Éléments envoyés", "drafts": "INBOX.Brouillons"},
}


class Side(Protocol):
    """Ada's mailbox at a provider, Charles's beside it, and the test's direct access to their
    content.
    """

    ada: MailProvider
    charles: MailProvider
    # True if it keeps a message byte for byte; otherwise it keeps one body of it.
    exact: bool
    # True if it always puts a sent message into Sent itself.
    keeps_copies: bool

    def deliver(
        self, source: bytes, *, address: str = ADA, folder: str = "inbox", unread: bool = True
    ) -> None:
        """Put a message into a folder, by its role, as if it had arrived."""
        ...

    def sent(self) -> list[bytes]:
        """Return the messages in Ada's Sent folder."""
        ...

    def inbox_of(self, address: str) -> list[bytes]:
        """Return the messages in somebody's inbox, oldest first."""
        ...


class MemorySide:
    exact = True
    keeps_copies = False

    def __init__(self) -> None:
        self._server = MemoryServer()
        self.ada: MailProvider = MemoryProvider(self._server, ADA)
        self.charles: MailProvider = MemoryProvider(self._server, CHARLES)

    def deliver(
        self, source: bytes, *, address: str = ADA, folder: str = "inbox", unread: bool = True
    ) -> None:
        self._server.deliver(address, source, folder=folder, unread=unread)

    def sent(self) -> list[bytes]:
        return [stored.source for stored in self._server.folder(ADA, "sent")]

    def inbox_of(self, address: str) -> list[bytes]:
        return [stored.source for stored in self._server.folder(address, "inbox")]


class ImapSide:
    """An IMAP server; mail sent by SMTP arrives in the sandbox's own mailboxes."""

    exact = True
    keeps_copies = False
    FOLDERS: ClassVar[dict[str, str]] = {"inbox": "INBOX", "sent": "Sent", "drafts": "Drafts"}

    def __init__(self, server: SandboxServer) -> None:
        self._server = server
        self.ada: MailProvider = provider(server.access(ADA))
        self.charles: MailProvider = provider(server.access(CHARLES))

    def deliver(
        self, source: bytes, *, address: str = ADA, folder: str = "inbox", unread: bool = True
    ) -> None:
        self._server.deliver(address, source, folder=self.FOLDERS[folder], unread=unread)

    def sent(self) -> list[bytes]:
        return self._server.messages(ADA, "Sent")

    def inbox_of(self, address: str) -> list[bytes]:
        return self._server.messages(address)


class ServerSide:
    """An IMAP server of somebody else, with its own addresses for each test behind the usual names;
    its SMTP delivers into it.
    """

    exact = True
    keeps_copies = False

    def __init__(
        self,
        server: ImapService,
        smtp: FaultySmtp,
        *,
        sent: str,
        drafts: str,
        read_only: str = "",
    ) -> None:
        """Take the names of the folders, the one that may only be read too."""
        self.name = server.name
        self._server, self._tag = server, uuid.uuid4().hex[:8]
        self.folders = {"inbox": "INBOX", "sent": sent, "drafts": drafts}
        for address in (ADA, CHARLES):
            client = server.signed_in(self._own(address))
            there = {name for _, _, name in client.list_folders()}
            for name in {sent, drafts, read_only} - there - {""}:
                client.create_folder(name)
        if read_only:
            assert isinstance(server, Dovecot)
            server.allow(self._own(ADA), read_only, "owner lr")
        self.ada: MailProvider = provider(server.access(self._own(ADA), smtp_port=smtp.port))
        self.charles: MailProvider = provider(
            server.access(self._own(CHARLES), smtp_port=smtp.port)
        )
        smtp.on_accept = self._arrived

    def deliver(
        self, source: bytes, *, address: str = ADA, folder: str = "inbox", unread: bool = True
    ) -> None:
        self._server.deliver(self._own(address), source, folder=self.folders[folder], unread=unread)

    def make_folder(self, name: str) -> None:
        client = self._server.signed_in(self._own(ADA))
        self.folders[name] = self.folders["sent"].rpartition(self._server.separator)[0]
        self.folders[name] += (self._server.separator if self.folders[name] else "") + name
        client.create_folder(self.folders[name])

    def sent(self) -> list[bytes]:
        return self._server.messages(self._own(ADA), self.folders["sent"])

    def inbox_of(self, address: str) -> list[bytes]:
        return self._server.messages(self._own(address))

    def _arrived(self, accepted: Accepted) -> None:
        for recipient in accepted.recipients:
            self._server.deliver(self._own(recipient), accepted.content)

    def _own(self, address: str) -> str:
        return f"{self._tag}.{address}"


class GraphSide:
    """Microsoft Graph as `tests.support.servers.graph` plays it."""

    exact = False
    keeps_copies = True
    FOLDERS: ClassVar[dict[str, str]] = {"inbox": "inbox", "sent": "sentitems", "drafts": "drafts"}

    def __init__(self, server: GraphServer) -> None:
        self._server = server
        self.ada: MailProvider = GraphProvider.for_mailbox(graph_mailbox(server, ADA))
        self.charles: MailProvider = GraphProvider.for_mailbox(graph_mailbox(server, CHARLES))

    def deliver(
        self, source: bytes, *, address: str = ADA, folder: str = "inbox", unread: bool = True
    ) -> None:
        self._server.deliver(address, source, folder=self.FOLDERS[folder], unread=unread)

    def sent(self) -> list[bytes]:
        return [item.mime(bcc=None) for item in self._server.sent(ADA)]

    def inbox_of(self, address: str) -> list[bytes]:
        here = [item.mime() for item in self._server.store.in_folder(address, "inbox")]
        return here or [
            accepted.source for accepted in self._server.ledger if address in accepted.recipients
        ]

    def splits_subjects(self) -> None:
        self._server.store.splits_subjects = True

    def deliver_beside(self, source: bytes, first: str) -> None:
        """Put a message into the conversation that the message with this Message-ID began."""
        self._server.deliver(ADA, source, conversation=first)


class GmailSide:
    """The Gmail API as `tests.support.servers.gmail` plays it."""

    exact = True
    keeps_copies = True

    def __init__(self, server: GmailServer) -> None:
        self._server = server
        self.ada: MailProvider = gmail(server, ADA)
        self.charles: MailProvider = gmail(server, CHARLES)

    def deliver(
        self, source: bytes, *, address: str = ADA, folder: str = "inbox", unread: bool = True
    ) -> None:
        if folder == "drafts":
            self._server.put_draft(address, source)
            return
        labels = (folder.upper(), *(("UNREAD",) if unread else ()))
        self._server.deliver(address, source, labels=labels)

    def sent(self) -> list[bytes]:
        return self._server.sources(ADA, "SENT")

    def inbox_of(self, address: str) -> list[bytes]:
        return self._server.sources(address, "INBOX")

    def splits_subjects(self) -> None:
        self._server.splits_subjects = True

    def deliver_beside(self, source: bytes, first: str) -> None:
        """Put a message into the conversation that the message with this Message-ID began."""
        messages = self._server.box(ADA).messages.values()
        (thread,) = (each.thread for each in messages if each.header("Message-ID") == first)
        self._server.deliver(ADA, source, thread=thread)


def gmail(server: GmailServer, address: str) -> GmailProvider:
    token = server.access_token(address)
    client = GmailClient(
        token=lambda _: token,
        key=address,
        base_url=server.url,
        answer_seconds=10,
        sleep=lambda seconds: None,
    )
    return GmailProvider(client)


def provider(access: ImapAccess) -> ImapProvider:
    mailbox_id = uuid.uuid4()
    domain = domain_of(ADA)
    return ImapProvider(ImapMailbox(access, mailbox_id=mailbox_id, key=mailbox_id, domain=domain))


@contextmanager
def _side(name: str, request: pytest.FixtureRequest) -> Iterator[Side]:
    match name:
        case "memory":
            yield MemorySide()
        case "sandbox":
            yield ImapSide(request.getfixturevalue("sandbox"))
        case _ if name in FOLDERS:
            fixture = name if name in ("dovecot", "cyrus", "courier") else "poor_dovecot"
            server = request.getfixturevalue(fixture)
            with FaultySmtp() as smtp:
                yield ServerSide(server, smtp, **FOLDERS[name])
                POOL.close_all()
                server.sign_out()
        case "graph":
            settings = request.getfixturevalue("settings")
            with GraphServer() as server:
                settings.GRAPH_BASE_URL = server.url
                yield GraphSide(server)
        case "gmail":
            with GmailServer() as server:
                server.message_ids = "kept"  # so that arriving mail can be compared byte for byte
                for address in EVERYBODY:
                    server.box(address)
                yield GmailSide(server)
        case _:
            raise ValueError(name)


@pytest.fixture(params=PROVIDERS)
def side(request: pytest.FixtureRequest) -> Iterator[Side]:
    with _side(request.param, request) as found:
        yield found


EVERYBODY = (ADA, CHARLES, MIRA)
