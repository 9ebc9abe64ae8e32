"""The in-memory twin of a provider for tests of the layers above: same contract, no network."""

import hashlib
import re
import threading
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Self

from accounts.infra import credentials
from accounts.models import Mailbox
from tools.mail.message import lenient, mime
from tools.mail.message.authentication import servers_of
from tools.mail.text.addresses import domain_of
from tools.providers.base import (
    NOT_A_DRAFT,
    AttachmentInfo,
    Card,
    Envelope,
    Flag,
    Folder,
    Handover,
    Message,
    Page,
    Receipt,
    SearchQuery,
    StoredDraft,
    Thread,
    always_held,
    role_of,
)
from tools.providers.errors import (
    NotAuthorized,
    NotFound,
    OutcomeUnknown,
    Refused,
    Unavailable,
    Unsupported,
)
from tools.providers.messages import read_file, read_tree
from tools.providers.notes import DraftNotes
from tools.providers.threads import follow, naming

ALWAYS_THERE = ("inbox", "sent", "drafts")
PAGE_TOKEN = re.compile(r"[0-9]{1,10}")


@dataclass
class Stored:
    source: bytes
    flags: set[str] = field(default_factory=set)
    arrived: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def unread(self) -> bool:
        return "read" not in self.flags


@dataclass
class MemoryServer:
    """The state that all mailboxes of one test share: folders by address and role, and the ledger
    of sent mail.

    It prepares nothing itself. `unsent` names drafts that a kind has prepared there, `discarded`
    those that were removed.
    """

    name: str = ""
    folders: dict[tuple[str, str], list[Stored]] = field(default_factory=dict)
    ledger: list[Envelope] = field(default_factory=list)
    saves_sent_itself: bool = False
    unsent: set[str] = field(default_factory=set)
    discarded: list[str] = field(default_factory=list)
    reachable: bool = True
    accepts_login: bool = True
    loses_answers: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def folder(self, address: str, role: str) -> list[Stored]:
        return self.folders.setdefault((address.lower(), role), [])

    def deliver(
        self, address: str, source: bytes, *, folder: str = "inbox", unread: bool = True
    ) -> None:
        self.folder(address, folder).append(
            Stored(source=source, flags=set() if unread else {"read"})
        )


SERVERS: dict[str, MemoryServer] = {}


@contextmanager
def serving() -> Iterator[MemoryServer]:
    name = uuid.uuid4().hex
    SERVERS[name] = MemoryServer(name=name)
    yield SERVERS[name]
    del SERVERS[name]


class MemoryProvider:
    name = "memory"
    send_scope = "memory.send"
    always_keeps_copy = False
    can_find_sent = True

    @classmethod
    def for_mailbox(cls, mailbox: Mailbox) -> Self:
        secrets = credentials.decrypt(bytes(mailbox.credentials), mailbox_id=mailbox.id)
        return cls(SERVERS[secrets["server"]], mailbox.address)

    def __init__(self, server: MemoryServer, address: str) -> None:
        self._server = server
        self._address = address

    def _sign_in(self) -> None:
        if not self._server.reachable:
            raise Unavailable("unreachable")
        if not self._server.accepts_login:
            raise NotAuthorized("login_refused")

    def list_messages(
        self, *, folder: str, unread: bool | None, limit: int, page_token: str | None
    ) -> Page:
        self._sign_in()
        role = role_of(folder)
        if role is None or (
            role not in ALWAYS_THERE and (self._address.lower(), role) not in self._server.folders
        ):
            raise NotFound()
        if page_token and not PAGE_TOKEN.fullmatch(page_token):
            raise Refused("invalid_page_token")
        stored = self._server.folder(self._address, role)
        below = int(page_token) if page_token else len(stored)
        matching = [
            index
            for index in range(min(below, len(stored)) - 1, -1, -1)
            if stored[index].source and (unread is None or stored[index].unread is unread)
        ]
        cards = tuple(self._card(role, index, stored[index]) for index in matching[:limit])
        return Page(
            cards=cards, next_token=str(matching[limit - 1]) if len(matching) > limit else None
        )

    def list_folders(self) -> tuple[Folder, ...]:
        self._sign_in()
        own = [role for address, role in self._server.folders if address == self._address.lower()]
        return tuple(
            Folder(
                id=role,
                name=role.title(),
                role=role,
                unread=sum(stored.unread for stored in self._server.folder(self._address, role)),
                total=len(self._server.folder(self._address, role)),
            )
            for role in dict.fromkeys((*ALWAYS_THERE, *own))
        )

    def search(self, query: SearchQuery, *, limit: int, page_token: str | None) -> Page:
        if query.label_ids:
            raise Unsupported("unsupported")
        everything = self.list_messages(
            folder=query.folder or "inbox", unread=query.unread, limit=10_000, page_token=page_token
        )
        found = [card for card in everything.cards if self._matches(card, query)]
        token = found[limit - 1].id.split(":")[1] if len(found) > limit else None
        return Page(cards=tuple(found[:limit]), next_token=token)

    def read_message(self, message_id: str, *, body: bool) -> Message:
        self._sign_in()
        stored, own = self._find_stored(message_id), servers_of("", domain_of(self._address))
        tree = mime.parse(stored.source)
        return read_tree(tree, id_=message_id, arrived=stored.arrived, body=body, own=own)

    def read_thread(
        self, message_id: str, *, limit: int, body: bool = True, answers_to: Sequence[str] = ()
    ) -> Thread:
        start = Thread(messages=())
        try:
            start = Thread(messages=(self.read_message(message_id, body=body),))
        except NotFound:
            if not answers_to:
                raise
        everything = [
            replace(self.read_message(self._id(role, index), body=body), is_sent=role == "sent")
            for address, role in list(self._server.folders)
            if address == self._address.lower() and role not in ("drafts", "trash")
            for index, stored in enumerate(self._server.folder(address, role))
            if stored.source
        ]

        def search(ids: Sequence[str], found: Collection[Message]) -> Thread:
            return Thread(messages=naming(everything, ids, found))

        return follow(start, answers_to, search, limit=limit)

    def read_arrivals(self, since: datetime, *, limit: int) -> Thread:
        self._sign_in()
        found = [
            replace(self.read_message(self._id("inbox", index), body=False), arrived=each.arrived)
            for index, each in enumerate(self._server.folder(self._address, "inbox"))
            if each.source and each.arrived >= since
        ]
        return Thread(messages=tuple(found[:limit]), is_whole=len(found) <= limit)

    def fetch_attachment(
        self, message_id: str, attachment_id: str, *, limit: int
    ) -> tuple[AttachmentInfo, bytes]:
        self._sign_in()
        tree = mime.parse(self._find_stored(message_id).source)
        return read_file(tree, attachment_id, limit=limit)

    def save_draft(self, source: bytes, *, replaces: str | None = None) -> StoredDraft:
        self._sign_in()
        if replaces is not None:
            self.read_draft(replaces)
        drafts = self._server.folder(self._address, "drafts")
        drafts.append(Stored(source=source, flags={"read"}))
        if replaces is not None:
            self.delete_draft(replaces)
        if self._server.loses_answers:
            raise OutcomeUnknown("answer_lost")
        return StoredDraft(
            id=self._id("drafts", len(drafts) - 1), number=len(drafts) - 1, source=source
        )

    def read_draft(self, draft_id: str) -> StoredDraft:
        self._sign_in()
        stored = self._find_stored(draft_id)
        if not draft_id.startswith("drafts:"):
            raise Refused("not_a_draft", NOT_A_DRAFT)
        return StoredDraft(id=draft_id, number=int(draft_id.split(":")[1]), source=stored.source)

    def delete_draft(self, draft_id: str) -> None:
        self.read_draft(draft_id)
        self._find_stored(draft_id).source = b""  # gone, and its number is not reused

    def id_of_number(self, number: int, *, folder: str) -> str:
        message_id = self._id(role_of(folder) or folder, number)
        self._find_stored(message_id)
        return message_id

    def mark(self, message_id: str, flag: Flag) -> None:
        self._find_stored(message_id).flags.add(flag)

    def _find_stored(self, message_id: str) -> Stored:
        role, _, rest = message_id.partition(":")
        index = rest.partition(":")[0]
        stored = self._server.folders.get((self._address.lower(), role), [])
        if (
            not PAGE_TOKEN.fullmatch(index)
            or int(index) >= len(stored)
            or message_id != self._id(role, int(index))
        ):
            raise NotFound()
        if not stored[int(index)].source:
            raise NotFound()
        return stored[int(index)]

    def _matches(self, card: Card, query: SearchQuery) -> bool:
        message = self.read_message(card.id, body=True)
        everything = f"{message.subject}\n{message.text or ''}\n{message.html or ''}".lower()
        sought = [word.lower() for word in (*query.raw.split(), query.text) if word]
        since = query.since or (
            datetime.now(UTC).date() - timedelta(days=query.newer_than_days)
            if query.newer_than_days
            else None
        )
        day = message.date.date() if message.date else None
        return all(
            (
                all(word in everything for word in sought),
                query.from_.lower() in f"{message.from_name} {message.from_address}".lower(),
                query.to.lower() in " ".join(message.to).lower(),
                query.subject.lower() in message.subject.lower(),
                since is None or (day is not None and day >= since),
                query.before is None or (day is not None and day < query.before),
                query.has_attachments is None or bool(message.attachments) is query.has_attachments,
            )
        )

    def check(self, envelope: Envelope) -> None:
        """Do nothing: it accepts everything."""

    def send(self, envelope: Envelope, handover: Handover) -> Receipt:
        self._sign_in()
        handover.order = handover.prepared
        handover.start_wire()
        with self._server.lock:
            self._server.ledger.append(envelope)
            if self._server.loses_answers:
                raise OutcomeUnknown("answer_lost")
            for recipient in envelope.recipients:
                self._server.deliver(recipient, envelope.source)
            if self._server.saves_sent_itself:
                self._server.folder(self._address, "sent").append(
                    Stored(source=envelope.source, flags={"read"})
                )
        return Receipt(at=datetime.now(UTC))

    def find_sent(self, message_id: str) -> str | None:
        self._sign_in()
        for stored in self._server.folder(self._address, "sent"):
            headers = lenient.headers(stored.source)
            if message_id in (
                headers["Message-ID"],
                *(headers[name] for name in lenient.ORIGINAL_ID_HEADERS),
            ):
                return str(headers["Message-ID"])
        return None

    def differs_in_sent(self, message_id: str, envelope: Envelope) -> tuple[str, ...]:
        return ()  # no draft was prepared, so nobody could change it

    def is_unsent(self, prepared: DraftNotes) -> bool:
        self._sign_in()
        return prepared.draft in self._server.unsent

    def discard(self, prepared: DraftNotes) -> bool:
        self._sign_in()
        if prepared.draft:
            self._server.discarded.append(prepared.draft)
        return True

    def destroy(self, prepared: DraftNotes) -> bool:
        self._sign_in()
        if prepared.draft not in self._server.unsent:
            return False
        self._server.unsent.discard(prepared.draft)
        return True

    def is_prepared(self, prepared: DraftNotes, draft: StoredDraft) -> bool:
        return prepared.draft == draft.id

    def save_sent_copy(
        self, source: bytes, message_id: str, *, check_lease: Callable[[], None] = always_held
    ) -> int:
        if self.find_sent(message_id):
            return 1
        check_lease()
        self._server.folder(self._address, "sent").append(Stored(source=source, flags={"read"}))
        return 0

    def _id(self, role: str, index: int) -> str:
        """Return an id that is invalid in another mailbox, as with every provider."""
        seal = hashlib.sha256(f"{self._address.lower()} {role} {index}".encode()).hexdigest()[:8]
        return f"{role}:{index}:{seal}"

    def _card(self, role: str, index: int, stored: Stored) -> Card:
        message = self.read_message(self._id(role, index), body=True)
        text = message.text if message.text is not None else message.html or ""
        return Card(
            id=message.id,
            from_address=message.from_address,
            from_name=message.from_name,
            subject=message.subject,
            date=message.date,
            snippet=lenient.first_words(text, html=message.text is None),
            unread=stored.unread,
            attachments=len(message.attachments),
            to=message.to,
            number=index,
            own_mark=message.own_mark,
        )
