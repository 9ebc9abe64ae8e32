"""The in-memory twin of a provider: same contract, no wire. For tests of everything above the providers."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from email.utils import parseaddr, parsedate_to_datetime
from typing import Self

from accounts import credentials
from accounts.models import Mailbox
from tools.providers.base import (
    AttachmentInfo,
    Card,
    Envelope,
    Message,
    NotAuthorized,
    Page,
    Receipt,
    Refused,
    Unavailable,
    role_of,
)


@dataclass
class Stored:
    source: bytes
    unread: bool = True


@dataclass
class MemoryServer:
    """What all mailboxes of one test share: folders by address and role, and the ledger of what was handed over."""

    name: str = ""
    folders: dict[tuple[str, str], list[Stored]] = field(default_factory=dict)
    ledger: list[Envelope] = field(default_factory=list)
    saves_sent_itself: bool = False
    reachable: bool = True
    accepts_login: bool = True
    lock: threading.Lock = field(default_factory=threading.Lock)

    def folder(self, address: str, role: str) -> list[Stored]:
        return self.folders.setdefault((address.lower(), role), [])

    def deliver(self, address: str, source: bytes, *, unread: bool = True) -> None:
        self.folder(address, "inbox").append(Stored(source=source, unread=unread))


SERVERS: dict[str, MemoryServer] = {}


class MemoryProvider:
    name = "memory"
    send_scope = "memory.send"

    @classmethod
    def for_mailbox(cls, mailbox: Mailbox) -> Self:
        secrets = credentials.decrypt(bytes(mailbox.credentials), mailbox_id=mailbox.id)
        return cls(SERVERS[secrets["server"]], mailbox.address)

    def __init__(self, server: MemoryServer, address: str) -> None:
        self._server = server
        self._address = address

    def test(self) -> None:
        if not self._server.reachable:
            raise Unavailable("unreachable")
        if not self._server.accepts_login:
            raise NotAuthorized("login_refused")

    def list_messages(self, *, folder: str, unread: bool | None, limit: int, page_token: str | None) -> Page:
        self.test()
        role = role_of(folder)
        if role is None or (role != "inbox" and (self._address.lower(), role) not in self._server.folders):
            raise Refused("not_found")
        stored = self._server.folder(self._address, role)
        below = int(page_token) if page_token and page_token.isdigit() else len(stored)
        matching = [
            index
            for index in range(min(below, len(stored)) - 1, -1, -1)
            if unread is None or stored[index].unread is unread
        ]
        cards = tuple(self._card(role, index, stored[index]) for index in matching[:limit])
        return Page(cards=cards, next_token=str(matching[limit - 1]) if len(matching) > limit else None)

    def read_message(self, message_id: str, *, body: bool) -> Message:
        self.test()
        role, _, index = message_id.partition(":")
        stored = self._server.folders.get((self._address.lower(), role), [])
        if not index.isdigit() or int(index) >= len(stored):
            raise Refused("not_found")
        parsed = _parsed(stored[int(index)].source)
        name, address = parseaddr(str(parsed["From"] or ""))
        text, html = parsed.get_body(("plain",)), parsed.get_body(("html",))
        return Message(
            id=message_id, from_address=address, from_name=name, to=_addresses(parsed, "To"),
            cc=_addresses(parsed, "Cc"), subject=str(parsed["Subject"] or ""), date=_date(parsed),
            text=str(text.get_content()) if body and text else None,
            html=str(html.get_content()) if body and html else None, attachments=_attachments(parsed),
        )  # fmt: skip

    def send(self, envelope: Envelope, *, wire_started: Callable[[], None]) -> Receipt:
        self.test()
        wire_started()
        with self._server.lock:
            self._server.ledger.append(envelope)
            for recipient in envelope.recipients:
                self._server.deliver(recipient, envelope.source)
            if self._server.saves_sent_itself:
                self._server.folder(self._address, "sent").append(Stored(source=envelope.source, unread=False))
        return Receipt(at=datetime.now(UTC))

    def was_sent(self, message_id: str) -> bool:
        self.test()
        sent = self._server.folder(self._address, "sent")
        return any(_parsed(stored.source)["Message-ID"] == message_id for stored in sent)

    def save_sent_copy(self, source: bytes, message_id: str) -> None:
        if not self.was_sent(message_id):
            self._server.folder(self._address, "sent").append(Stored(source=source, unread=False))

    def _card(self, role: str, index: int, stored: Stored) -> Card:
        message = self.read_message(f"{role}:{index}", body=True)
        return Card(
            id=message.id, from_address=message.from_address, from_name=message.from_name, subject=message.subject,
            date=message.date, snippet=(message.text or "")[:200], unread=stored.unread,
            attachments=len(message.attachments),
        )  # fmt: skip


def _parsed(source: bytes) -> EmailMessage:
    return message_from_bytes(source, policy=policy.default)


def _addresses(parsed: EmailMessage, header: str) -> tuple[str, ...]:
    return tuple(address.addr_spec for address in parsed[header].addresses) if parsed[header] else ()


def _date(parsed: EmailMessage) -> datetime | None:
    return parsedate_to_datetime(str(parsed["Date"])) if parsed["Date"] else None


def _attachments(parsed: EmailMessage) -> tuple[AttachmentInfo, ...]:
    return tuple(
        AttachmentInfo(
            id=str(number), name=part.get_filename() or "", type=part.get_content_type(),
            size=len(part.get_payload(decode=True) or b""),
        )
        for number, part in enumerate(parsed.iter_attachments())
    )  # fmt: skip
