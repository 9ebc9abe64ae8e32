"""Reading a mailbox: lists, searches, messages, threads, attachments."""

import re
from datetime import UTC, datetime
from typing import Any

from imapclient import IMAPClient

from accounts.infra.texts import translatable
from accounts.people import own_mail
from tools.mail.message import lenient
from tools.mail.text.decoding import without_controls
from tools.providers.base import (
    READ_LIMIT,
    AttachmentInfo,
    Card,
    Folder,
    Message,
    Page,
    SearchQuery,
)
from tools.providers.errors import NotFound, Refused
from tools.providers.imap import structure
from tools.providers.imap.mailbox import (
    SAFE_MESSAGE_ID,
    SPECIAL_USE,
    USUAL_NAMES,
    ImapMailbox,
    body_of,
)
from tools.providers.imap.message_ids import MAX_UID
from tools.providers.imap.search import Criterion, Text, criteria
from tools.providers.imap.sessions import Session

OWN = own_mail.HEADER.upper()
HEADERS = f"BODY.PEEK[HEADER.FIELDS (DATE FROM TO CC REPLY-TO SUBJECT MESSAGE-ID IN-REPLY-TO REFERENCES {OWN})]"
CARD_HEADERS = f"BODY.PEEK[HEADER.FIELDS (DATE FROM TO SUBJECT {OWN})]"
SNIPPET_BYTES = 1024
SCANNED_FOR_ATTACHMENTS = 500
COUNTED_FOLDERS = 50
THREAD_FOLDERS = ("inbox", "sent", "archive")
PAGE_TOKEN = re.compile(r"[0-9]{1,10}")


class ImapReader:
    """The reading part: lists, searches, messages, threads and attachments of one mailbox."""

    def __init__(self, mailbox: ImapMailbox) -> None:
        self._mailbox = mailbox

    def list_messages(
        self, *, folder: str, unread: bool | None, limit: int, page_token: str | None
    ) -> Page:
        flags: list[Criterion] = [] if unread is None else ["UNSEEN" if unread else "SEEN"]
        return self._page(folder, flags, limit=limit, page_token=page_token)

    def search(self, query: SearchQuery, *, limit: int, page_token: str | None) -> Page:
        wanted = criteria(query, today=datetime.now(UTC).date())
        return self._page(
            query.folder or "inbox",
            wanted,
            limit=limit,
            page_token=page_token,
            attached=query.has_attachments,
        )

    def list_folders(self) -> tuple[Folder, ...]:
        with self._mailbox.session() as session:
            found: list[Folder] = []
            for flags, delimiter, name in session.client.list_folders():
                if rb"\Noselect" in flags:
                    continue
                counts = self._counts(session, str(name)) if len(found) < COUNTED_FOLDERS else {}
                found.append(
                    Folder(
                        id=str(name),
                        name=without_controls(str(name)),
                        role=_role(flags, str(name), (delimiter or b"/").decode()),
                        unread=counts.get(b"UNSEEN"),
                        total=counts.get(b"MESSAGES"),
                    )
                )
            return tuple(found)

    def read_message(self, message_id: str, *, body: bool) -> Message:
        with self._mailbox.session() as session:
            place = self._mailbox.open_message(session, message_id)
            return self._message(session, place.uid, body=body)

    def read_thread(self, message_id: str, *, limit: int, body: bool = True) -> tuple[Message, ...]:
        with self._mailbox.session() as session:
            place = self._mailbox.open_message(session, message_id)
            start = self._message(session, place.uid, body=False)
            root = next(
                (known for known in (*start.references, start.message_id) if _safe(known)), None
            )
            if root is None:
                return (self._message(session, place.uid, body=body),)
            found = {start.message_id or message_id: self._message(session, place.uid, body=body)}
            for folder in self._thread_folders(session, place.folder):
                self._mailbox.select(session, folder)
                for uid in self._mailbox.find_newest(
                    session, _of_thread(root), count=limit, below=None
                ):
                    message = self._message(session, uid, body=body)
                    found.setdefault(message.message_id or message.id, message)
        oldest = datetime.min.replace(tzinfo=UTC)
        # If two messages have the same second, the one with more references is newer.
        return tuple(
            sorted(found.values(), key=lambda each: (each.date or oldest, len(each.references)))
        )[-limit:]

    def fetch_attachment(
        self, message_id: str, attachment_id: str, *, limit: int
    ) -> tuple[AttachmentInfo, bytes]:
        with self._mailbox.session() as session:
            place = self._mailbox.open_message(session, message_id)
            parts = self._parts(session, place.uid)
            part = next(
                (part for part in parts if part.number == attachment_id and part.is_attachment),
                None,
            )
            if part is None:
                raise NotFound(
                    translatable("There is no such attachment; list_attachments names them.")
                )
            # An estimate; the exact size is checked after the fetch.
            if decoded_size(part) * 9 // 10 > limit:
                raise Refused(
                    "too_large",
                    translatable(
                        "The attachment is larger than %(limit)s bytes.", limit=f"{limit:,}"
                    ),
                )
            rows = session.client.fetch([place.uid], [f"BODY.PEEK[{part.number}]"])
            if place.uid not in rows:
                raise NotFound()
            content = structure.part_bytes(body_of(rows[place.uid]), part)
        if len(content) > limit:
            raise Refused(
                "too_large",
                translatable("The attachment is larger than %(limit)s bytes.", limit=f"{limit:,}"),
            )
        return info_of(part, size=len(content)), content

    def id_of_number(self, number: int, *, folder: str) -> str:
        with self._mailbox.session() as session:
            self._mailbox.select(session, self._mailbox.find_folder(session, folder))
            if number not in session.client.fetch([number], ["FLAGS"]):
                raise NotFound()
            return self._mailbox.make_id(session, number)

    def _page(
        self,
        folder: str,
        wanted: list[Criterion],
        *,
        limit: int,
        page_token: str | None,
        attached: bool | None = None,
    ) -> Page:
        below = _below(page_token)
        with self._mailbox.session() as session:
            self._mailbox.select(session, self._mailbox.find_folder(session, folder))
            if attached is None:
                uids = self._mailbox.find_newest(session, wanted, count=limit + 1, below=below)
            else:
                uids = self._with_attachments(
                    session, wanted, attached, count=limit + 1, below=below
                )
            cards = self._cards(session, uids[:limit])
        return Page(cards=cards, next_token=str(uids[limit - 1]) if len(uids) > limit else None)

    def _with_attachments(
        self,
        session: Session,
        wanted: list[Criterion],
        attached: bool,
        *,
        count: int,
        below: int | None,
    ) -> list[int]:
        """Return the newest matches with or without attachments, by reading their structure.

        IMAP cannot search for attachments.
        """
        candidates = self._mailbox.find_newest(
            session, wanted, count=SCANNED_FOR_ATTACHMENTS, below=below
        )
        rows = self._fetch_structures(session, candidates, [])
        has = {uid: any(part.is_attachment for part in _leaves(row)) for uid, row in rows.items()}
        return [uid for uid in candidates if has.get(uid) is attached][:count]

    def _message(self, session: Session, uid: int, *, body: bool) -> Message:
        rows = self._fetch_structures(session, [uid], [HEADERS, "INTERNALDATE"])
        if uid not in rows:
            raise NotFound()
        row = rows[uid]
        parts = _leaves(row)
        text, html = (
            self._fetch_text(session, uid, part) if body and part else None
            for part in (structure.body_part(parts, "plain"), structure.body_part(parts, "html"))
        )
        block = lenient.headers(body_of(row), structure.charset_of(parts))
        name, address = lenient.sender(block)
        return Message(
            id=self._mailbox.make_id(session, uid),
            from_address=address,
            from_name=name,
            to=tuple(address for _, address in lenient.addresses(block, "To")),
            cc=tuple(address for _, address in lenient.addresses(block, "Cc")),
            reply_to=tuple(address for _, address in lenient.addresses(block, "Reply-To")),
            subject=lenient.decode_text(block["Subject"]),
            date=lenient.date_of(block, row[b"INTERNALDATE"]),
            message_id=lenient.decode_text(block["Message-ID"]),
            references=lenient.references(block),
            own_mark=lenient.own_mark(block),
            text=text,
            html=html,
            attachments=tuple(info_of(part) for part in parts if part.is_attachment),
        )

    def _parts(self, session: Session, uid: int) -> list[structure.Part]:
        rows = self._fetch_structures(session, [uid], [])
        if uid not in rows:
            raise NotFound()
        return _leaves(rows[uid])

    def _fetch_structures(
        self, session: Session, uids: list[int], items: list[str]
    ) -> dict[int, dict[bytes, Any]]:
        """Return the requested items and the structure of each message.

        A message that is nested too deep for IMAPClient's parser has no structure, and does not
        hide the others.
        """
        try:
            rows = session.client.fetch(uids, [*items, "BODYSTRUCTURE"])
        except RecursionError:
            if len(uids) == 1:
                return dict(session.client.fetch(uids, items or ["FLAGS"]))
            return {
                number: row
                for uid in uids
                for number, row in self._fetch_structures(session, [uid], items).items()
            }
        return dict(rows)

    def _thread_folders(self, session: Session, own: str) -> list[str]:
        """Return the usual folders of a conversation, each once; a missing folder is no error."""
        found = [own]
        for role in THREAD_FOLDERS:
            try:
                found.append(self._mailbox.find_folder(session, role))
            except Refused:
                continue
        return list(dict.fromkeys(found))

    def _counts(self, session: Session, folder: str) -> dict[bytes, int]:
        try:
            return dict(session.client.folder_status(folder, ["MESSAGES", "UNSEEN"]))
        except IMAPClient.Error:
            return {}

    def _cards(self, session: Session, uids: list[int]) -> tuple[Card, ...]:
        rows = self._fetch_structures(session, uids, [CARD_HEADERS, "INTERNALDATE", "FLAGS"])
        leaves = {uid: _leaves(rows[uid]) for uid in uids if uid in rows}
        snippets = self._snippets(session, leaves)
        return tuple(
            self._card(session, uid, rows[uid], leaves[uid], snippets.get(uid, ""))
            for uid in uids
            if uid in rows
        )

    def _snippets(
        self, session: Session, leaves: dict[int, list[structure.Part]]
    ) -> dict[int, str]:
        """Return the beginning of each text; one fetch reads all messages whose text has the same
        section.
        """
        wanted: dict[str, dict[int, structure.Part]] = {}
        for uid, parts in leaves.items():
            part = structure.body_part(parts, "plain") or structure.body_part(parts, "html")
            if part:
                wanted.setdefault(part.number, {})[uid] = part
        snippets: dict[int, str] = {}
        for number, by_uid in wanted.items():
            rows = session.client.fetch(list(by_uid), [f"BODY.PEEK[{number}]<0.{SNIPPET_BYTES}>"])
            for uid, row in rows.items():
                snippets[uid] = structure.snippet(body_of(row), by_uid[uid])
        return snippets

    def _card(
        self,
        session: Session,
        uid: int,
        row: dict[bytes, Any],
        parts: list[structure.Part],
        snippet: str,
    ) -> Card:
        block = lenient.headers(body_of(row), structure.charset_of(parts))
        name, address = lenient.sender(block)
        arrived: datetime = row[b"INTERNALDATE"]
        return Card(
            id=self._mailbox.make_id(session, uid),
            from_address=address,
            from_name=name,
            to=tuple(
                address
                for _, address in lenient.addresses(block, "To", most=lenient.ROW_CHARACTERS)
            ),
            subject=lenient.decode_text(block["Subject"]),
            date=lenient.date_of(block, arrived),
            snippet=snippet,
            unread=rb"\Seen" not in row[b"FLAGS"],
            attachments=sum(part.is_attachment for part in parts),
            number=uid,
            own_mark=lenient.own_mark(block),
        )

    def _fetch_text(self, session: Session, uid: int, part: structure.Part) -> str:
        rows = session.client.fetch([uid], [f"BODY.PEEK[{part.number}]<0.{READ_LIMIT}>"])
        if uid not in rows:
            raise NotFound()  # it was removed in the meantime
        content = body_of(rows[uid])
        return structure.part_text(content, part, whole=len(content) < READ_LIMIT)


def _below(page_token: str | None) -> int | None:
    """Return the UID that a page token names; the page contains older messages."""
    if not page_token:
        return None
    if not PAGE_TOKEN.fullmatch(page_token) or int(page_token) > MAX_UID:
        raise Refused("invalid_page_token", "This page token is not from this list.")
    return int(page_token)


def info_of(part: structure.Part, *, size: int | None = None) -> AttachmentInfo:
    return AttachmentInfo(
        id=part.number,
        name=part.name,
        type=part.type,
        size=decoded_size(part) if size is None else size,
        inline=part.is_inline,
        content_id=part.content_id,
    )


def decoded_size(part: structure.Part) -> int:
    """Return the bytes of the decoded attachment: three quarters for base64, minus its line
    ends.
    """
    return part.size * 73 // 100 if part.encoding == "base64" else part.size


def _leaves(row: dict[bytes, Any]) -> list[structure.Part]:
    described = row.get(b"BODYSTRUCTURE")
    return list(structure.leaves(described)) if described is not None else []


def _of_thread(root: str) -> list[Criterion]:
    return ["OR", "HEADER", "Message-ID", Text(root), "HEADER", "References", Text(root)]


def _safe(message_id: str) -> bool:
    return SAFE_MESSAGE_ID.fullmatch(message_id) is not None


def _role(flags: tuple[bytes, ...], name: str, delimiter: str) -> str:
    if name.upper() == "INBOX":
        return "inbox"
    for role, flag in SPECIAL_USE.items():
        if flag in flags:
            return role
    leaf = name.rpartition(delimiter)[2].lower()
    return next((role for role, names in USUAL_NAMES.items() if leaf in names), "")
