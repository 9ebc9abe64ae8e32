"""A mailbox behind IMAP and SMTP."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Self
from uuid import UUID

from django.conf import settings
from imapclient import IMAPClient

from accounts import credentials
from accounts.connect.imap import ConnectError, ImapAccess, LoginRefused, open_imap, open_smtp, prove
from accounts.models import Mailbox
from tools.providers import lenient
from tools.providers.base import (
    READ_LIMIT,
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
from tools.providers.imap import message_ids, structure
from tools.providers.imap.message_ids import MAX_UID, Place
from tools.providers.imap.sessions import POOL, Session
from tools.providers.imap.smtp import hand_over

HEADERS = "BODY.PEEK[HEADER.FIELDS (DATE FROM TO CC SUBJECT)]"
SNIPPET_BYTES = 1024
FIRST_WINDOW = 200

# RFC 6154 roles first; servers without it go by the names that mail programs use.
SPECIAL_USE = {
    "sent": b"\\Sent",
    "drafts": b"\\Drafts",
    "archive": b"\\Archive",
    "junk": b"\\Junk",
    "trash": b"\\Trash",
}
USUAL_NAMES = {
    "sent": ("sent", "sent items", "sent mail", "sent messages", "gesendet"),
    "drafts": ("drafts", "draft", "entwürfe"),
    "archive": ("archive", "archives", "archiv"),
    "junk": ("junk", "spam", "junk e-mail"),
    "trash": ("trash", "deleted items", "deleted messages", "papierkorb"),
}
# What may stand in a SEARCH for a Message-ID. imapclient and imaplib put whatever an argument holds on the wire:
# a foreign Message-ID with CR LF in it would be a second command.
SAFE_MESSAGE_ID = re.compile(r"<[!#-\[\]-~]{1,250}@[!#-\[\]-~]+>")
PAGE_TOKEN = re.compile(r"[0-9]{1,10}")
UNSAFE_ARGUMENT = re.compile(r"[\x00-\x1f\x7f]")


class ImapProvider:
    name = "imap"
    send_scope = "SMTP"

    def __init__(self, access: ImapAccess, *, mailbox_id: UUID, key: object) -> None:
        self._access = access
        self._mailbox_id = mailbox_id
        self._key = key

    @classmethod
    def for_mailbox(cls, mailbox: Mailbox) -> Self:
        secrets = credentials.decrypt(bytes(mailbox.credentials), mailbox_id=mailbox.id)
        return cls(
            ImapAccess.from_secrets(secrets), mailbox_id=mailbox.id, key=(mailbox.id, mailbox.credentials_version)
        )

    def test(self) -> None:
        with _errors_translated():
            prove(self._access)

    def list_messages(self, *, folder: str, unread: bool | None, limit: int, page_token: str | None) -> Page:
        below = _below(page_token)
        with self._session() as session:
            self._select(session, self._folder(session, folder))
            uids = self._newest(session, unread=unread, count=limit + 1, below=below)
            cards = self._cards(session, uids[:limit])
        return Page(cards=cards, next_token=str(uids[limit - 1]) if len(uids) > limit else None)

    def read_message(self, message_id: str, *, body: bool) -> Message:
        place = message_ids.decode(message_id, self._mailbox_id)
        if place is None:
            raise Refused("not_found")
        with self._session() as session:
            self._select(session, place.folder)
            if session.uid_validity != place.uid_validity:
                raise Refused("not_found", "The folder was rebuilt; list it again.")
            found = session.client.fetch([place.uid], [HEADERS, "INTERNALDATE", "BODYSTRUCTURE"])
            if place.uid not in found:
                raise Refused("not_found")
            row = found[place.uid]
            parts = list(structure.leaves(row[b"BODYSTRUCTURE"]))
            text, html = (
                self._fetch_text(session, place.uid, part) if body and part else None
                for part in (structure.body_part(parts, "plain"), structure.body_part(parts, "html"))
            )
        block = lenient.headers(_body_of(row))
        name, address = next(iter(lenient.addresses(block, "From")), ("", ""))
        return Message(
            id=message_id, from_address=address, from_name=name,
            to=tuple(address for _, address in lenient.addresses(block, "To")),
            cc=tuple(address for _, address in lenient.addresses(block, "Cc")),
            subject=lenient.decoded(block["Subject"]), date=lenient.date_of(block, row[b"INTERNALDATE"]),
            text=text, html=html,
            attachments=tuple(
                AttachmentInfo(id=part.number, name=part.name, type=part.type, size=_decoded_size(part))
                for part in parts
                if part.is_attachment
            ),
        )  # fmt: skip

    def send(self, envelope: Envelope, *, wire_started: Callable[[], None]) -> Receipt:
        with _errors_translated():
            smtp = open_smtp(self._access)
        return hand_over(
            smtp, envelope, wire_started=wire_started, answer_seconds=settings.MAILHUB_WIRE_TIMEOUT_SECONDS
        )

    def was_sent(self, message_id: str) -> bool:
        with self._session() as session:
            self._select(session, self._folder(session, "sent"))
            return self._has(session, message_id)

    def save_sent_copy(self, source: bytes, message_id: str) -> None:
        with self._session() as session:
            folder = self._folder(session, "sent")
            self._select(session, folder)
            if not self._has(session, message_id):
                session.client.append(folder, source, flags=(rb"\Seen",))

    @contextmanager
    def _session(self) -> Iterator[Session]:
        with _errors_translated(), POOL.session(self._key, lambda: open_imap(self._access)) as session:
            yield session

    def _select(self, session: Session, folder: str) -> None:
        try:
            session.select(folder)
        except IMAPClient.Error:
            raise Refused("not_found", "There is no such folder; list_folders names them.") from None

    def _folder(self, session: Session, folder: str) -> str:
        role = role_of(folder)
        if role == "inbox":
            return "INBOX"
        if role is None:
            if UNSAFE_ARGUMENT.search(folder):
                raise Refused("not_found", "There is no such folder; list_folders names them.")
            return folder
        listed = session.client.list_folders()
        for flags, _, name in listed:
            if SPECIAL_USE[role] in flags:
                return str(name)
        for flags, delimiter, name in listed:
            leaf = str(name).rpartition((delimiter or b"/").decode())[2]
            if leaf.lower() in USUAL_NAMES[role] and rb"\Noselect" not in flags:
                return str(name)
        raise Refused("not_found", f"Could not find the {role} folder. list_folders names the folders there are.")

    def _newest(self, session: Session, *, unread: bool | None, count: int, below: int | None) -> list[int]:
        """The newest UIDs, newest first: a window at the end, ten times wider each time it holds too few."""
        criteria = [] if unread is None else ["UNSEEN" if unread else "SEEN"]
        top = below if below is not None else max(session.uid_next, 1)
        window = max(FIRST_WINDOW, count)
        while True:
            low = max(top - window, 1)
            high = str(below - 1) if below is not None else "*"
            if below is not None and below - 1 < low:
                return []
            found = [
                u for u in session.client.search(["UID", f"{low}:{high}", *criteria]) if below is None or u < below
            ]
            if len(found) >= count or low == 1:
                return sorted(found, reverse=True)[:count]
            window *= 10

    def _cards(self, session: Session, uids: list[int]) -> tuple[Card, ...]:
        rows = session.client.fetch(uids, [HEADERS, "INTERNALDATE", "FLAGS", "BODYSTRUCTURE"])
        leaves = {uid: list(structure.leaves(rows[uid][b"BODYSTRUCTURE"])) for uid in uids if uid in rows}
        snippets = self._snippets(session, leaves)
        return tuple(
            self._card(session, uid, rows[uid], leaves[uid], snippets.get(uid, "")) for uid in uids if uid in rows
        )

    def _snippets(self, session: Session, leaves: dict[int, list[structure.Part]]) -> dict[int, str]:
        """The beginning of each text, fetched in one go for all messages whose text has the same section."""
        wanted: dict[str, dict[int, structure.Part]] = {}
        for uid, parts in leaves.items():
            part = structure.body_part(parts, "plain") or structure.body_part(parts, "html")
            if part:
                wanted.setdefault(part.number, {})[uid] = part
        snippets: dict[int, str] = {}
        for number, by_uid in wanted.items():
            rows = session.client.fetch(list(by_uid), [f"BODY.PEEK[{number}]<0.{SNIPPET_BYTES}>"])
            for uid, row in rows.items():
                snippets[uid] = structure.snippet(_body_of(row), by_uid[uid])
        return snippets

    def _card(
        self, session: Session, uid: int, row: dict[bytes, Any], parts: list[structure.Part], snippet: str
    ) -> Card:
        block = lenient.headers(_body_of(row))
        name, address = next(iter(lenient.addresses(block, "From")), ("", ""))
        arrived: datetime = row[b"INTERNALDATE"]
        place = Place(folder=session.folder or "", uid_validity=session.uid_validity, uid=uid)
        return Card(
            id=message_ids.encode(place, self._mailbox_id), from_address=address, from_name=name,
            subject=lenient.decoded(block["Subject"]), date=lenient.date_of(block, arrived),
            snippet=snippet, unread=rb"\Seen" not in row[b"FLAGS"],
            attachments=sum(part.is_attachment for part in parts),
        )  # fmt: skip

    def _fetch_text(self, session: Session, uid: int, part: structure.Part) -> str:
        rows = session.client.fetch([uid], [f"BODY.PEEK[{part.number}]<0.{READ_LIMIT}>"])
        if uid not in rows:
            raise Refused("not_found")  # it went while it was read
        return structure.part_text(_body_of(rows[uid]), part)

    def _has(self, session: Session, message_id: str) -> bool:
        if not SAFE_MESSAGE_ID.fullmatch(message_id):
            raise Refused("invalid_message_id")
        return bool(session.client.search(["HEADER", "Message-ID", message_id]))


def _below(page_token: str | None) -> int | None:
    """The UID that a page token names: the page has what is older."""
    if not page_token:
        return None
    if not PAGE_TOKEN.fullmatch(page_token) or int(page_token) > MAX_UID:
        raise Refused("invalid_page_token", "The page token is not one that list_emails gave.")
    return int(page_token)


def _body_of(row: dict[bytes, Any]) -> bytes:
    """The one BODY section that was asked for; servers echo its name in their own order and spelling."""
    return next((value or b"" for key, value in row.items() if key.startswith(b"BODY[")), b"")


def _decoded_size(part: structure.Part) -> int:
    """Bytes of the decoded attachment; three of four for base64, less its line ends."""
    return part.size * 73 // 100 if part.encoding == "base64" else part.size


@contextmanager
def _errors_translated() -> Iterator[None]:
    """Everything that reading and signing in can raise certainly sent nothing."""
    try:
        yield
    except LoginRefused as error:
        raise NotAuthorized("auth_error", error.sentence) from None
    except ConnectError as error:
        raise Unavailable("unreachable", error.sentence) from None
    except (IMAPClient.Error, OSError):
        raise Unavailable("connection_lost", "The mail server broke off.") from None
