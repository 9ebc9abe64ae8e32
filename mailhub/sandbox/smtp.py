"""The SMTP service: accepts mail for the accounts of the sandbox and puts it into their INBOX."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from socket import socket
from weakref import WeakSet

from aiosmtpd.smtp import SMTP, Envelope, Session

from mailhub.sandbox.mailbox import MailboxSet
from mailhub.sandbox.store import Incoming, Store

log = logging.getLogger(__name__)

NAME = "sandbox.example"
# Recipients of the first proposals without a mailbox here: accepted, but not stored.
OUTSIDE = frozenset({"claims@insura.example", "mira@northvvind.example"})


class Delivery:
    """The handler that accepts or refuses recipients and stores a copy of the mail for each."""

    def __init__(self, store: Store, mailboxes: Mapping[str, MailboxSet]) -> None:
        self._store = store
        self._mailboxes = mailboxes

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        recipient = address.lower()
        if recipient not in self._mailboxes and recipient not in OUTSIDE:
            return "550 5.1.1 No such mailbox here"
        if recipient not in envelope.rcpt_tos:
            envelope.rcpt_tos.append(recipient)
        return "250 2.1.5 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        content = envelope.original_content
        assert content is not None
        now = datetime.now(UTC)
        here = [recipient for recipient in envelope.rcpt_tos if recipient in self._mailboxes]
        inboxes = [self._mailboxes[recipient].inbox for recipient in here]
        entries = self._store.add(
            Incoming(
                folder=inbox.folder.id,
                raw=_trace(session, envelope, recipient, now) + content,
                received=now,
            )
            for recipient, inbox in zip(here, inboxes, strict=True)
        )
        for inbox, entry in zip(inboxes, entries, strict=True):
            inbox.show_new(entry)
        return "250 2.0.0 OK delivered"

    async def handle_exception(self, error: Exception) -> str:
        # Only the class, in the log and in the answer, because a message could quote mail.
        log.warning("an SMTP command failed with %s", type(error).__name__)
        return "451 4.3.0 Local error in processing"


class SmtpService:
    """A server that accepts SMTP connections until it is closed."""

    def __init__(
        self, store: Store, mailboxes: Mapping[str, MailboxSet], *, size_limit: int
    ) -> None:
        self._delivery = Delivery(store, mailboxes)
        self._size_limit = size_limit
        self._connections: WeakSet[SMTP] = WeakSet()
        self._server: asyncio.Server | None = None

    async def start(self, listener: socket) -> None:
        """Begin to accept on a socket that is already bound."""
        loop = asyncio.get_running_loop()

        def connection() -> SMTP:
            protocol = SMTP(
                self._delivery,
                data_size_limit=self._size_limit,
                enable_SMTPUTF8=True,
                hostname=NAME,
                ident="Sandbox",
                auth_exclude_mechanism=("LOGIN", "PLAIN"),
                loop=loop,
            )
            self._connections.add(protocol)
            return protocol

        self._server = await loop.create_server(connection, sock=listener)

    async def close(self) -> None:
        """Stop accepting, and close every open connection; mail answered with 250 is stored."""
        if self._server is not None:
            self._server.close()
        for protocol in list(self._connections):
            if protocol.transport is not None:
                protocol.transport.close()


def _trace(session: Session, envelope: Envelope, recipient: str, now: datetime) -> bytes:
    """Return the trace lines of a final delivery, which are its only change to a message."""
    helo = "".join(
        char for char in session.host_name or "unknown" if char.isalnum() or char in ".-[]:"
    )
    protocol = "ESMTP" if session.extended_smtp else "SMTP"
    sender = (envelope.mail_from or "").strip("<>")
    return (
        f"Return-Path: <{sender}>\r\n"
        f"Delivered-To: {recipient}\r\n"
        f"Received: from {helo} by {NAME} with {protocol};\r\n\t{format_datetime(now)}\r\n"
    ).encode("utf-8", "surrogateescape")
