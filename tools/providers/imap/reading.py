"""Reading a mailbox: lists, searches, messages, threads, attachments."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from imapclient import IMAPClient

from tools.mail.message import lenient, mime
from tools.mail.message.authentication import servers_of
from tools.mail.message.mime import Tree
from tools.mail.message.parts import Part
from tools.mail.message.reading import count_files
from tools.mail.text.decoding import without_controls
from tools.providers.base import (
    AttachmentInfo,
    Card,
    Folder,
    Message,
    Page,
    SearchQuery,
    Thread,
)
from tools.providers.errors import NotFound, Refused, Unavailable
from tools.providers.imap import structure
from tools.providers.imap.mailbox import (
    ImapMailbox,
    body_of,
)
from tools.providers.imap.newest import Place, find_newest, read_token, write_token
from tools.providers.imap.search import Criterion, criteria
from tools.providers.imap.sessions import Session
from tools.providers.imap.trees import (
    OWN,
    fetch_outline,
    fetch_outlines,
    fetch_structures,
    fetch_tree,
)
from tools.providers.messages import read_file, read_tree
from tools.providers.threads import MOST_MESSAGES, Search, follow

CARD_HEADERS = f"BODY.PEEK[HEADER.FIELDS (DATE FROM TO SUBJECT {OWN})]"
SNIPPET_BYTES = 1024
# The text of most mails is their first part, so it comes with their structure.
FIRST_PART = f"BODY.PEEK[1]<0.{SNIPPET_BYTES}>"
SCANNED_FOR_ATTACHMENTS = 500
WINDOW = 500  # of the newest mail, of which the time of arrival is read at once
MOST_WINDOWS = 10
COUNTED_FOLDERS = 50
USUAL = ("inbox", "sent", "archive")  # folders of a conversation, which are searched first
MOST_FOLDERS = 50  # that are searched for a conversation, beside the usual ones
SEARCHABLE = re.compile(r"<[!-~]{3,500}>")  # Message-IDs that a search may hold


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
        page = self._page(
            query.folder or "inbox",
            wanted,
            limit=limit,
            page_token=page_token,
            attached=query.has_attachments,
        )
        return replace(page, is_exact=True)

    def list_folders(self) -> tuple[Folder, ...]:
        with self._mailbox.session() as session:
            found: list[Folder] = []
            for listed in self._mailbox.list_folders(session):
                counts = self._counts(session, listed.name) if len(found) < COUNTED_FOLDERS else {}
                found.append(
                    Folder(
                        id=listed.name,
                        name=without_controls(listed.name),
                        role=listed.role,
                        unread=counts.get(b"UNSEEN"),
                        total=counts.get(b"MESSAGES"),
                    )
                )
            return tuple(found)

    def read_message(self, message_id: str, *, body: bool) -> Message:
        with self._mailbox.session() as session:
            place = self._mailbox.open_message(session, message_id)
            read = self._whole if body else self._outline
            return read(session, place.uid)

    def read_thread(
        self, message_id: str, *, limit: int, body: bool = True, answers_to: Sequence[str] = ()
    ) -> Thread:
        """Return the conversation: the messages that name its ids, in up to MOST_FOLDERS folders."""
        with self._mailbox.session() as session:
            start, folder = Thread(messages=()), None
            try:
                place = self._mailbox.open_message(session, message_id)
                start = Thread(messages=(self._outline(session, place.uid),))
                folder = place.folder
            except NotFound:
                if not answers_to:
                    raise
            roles = {listed.name: listed.role for listed in self._mailbox.list_folders(session)}
            usual = [name for name, role in roles.items() if name == folder or role in USUAL]
            others = [
                name
                for name, role in roles.items()
                if name not in usual and role not in ("drafts", "trash")
            ]
            thread = follow(
                start,
                answers_to,
                self._search(session, usual, roles),
                self._search(session, others, roles),
                limit=limit,
            )
            if not body:
                return thread
            whole = []
            for each in thread.messages:
                place = self._mailbox.open_message(session, each.id)
                whole.append(self._whole(session, place.uid))
            return replace(thread, messages=tuple(whole))

    def read_arrivals(self, since: datetime, *, limit: int) -> Thread:
        """Return the oldest mail that arrived in the inbox since then; SEARCH knows only days.

        If so many arrived that the oldest is not reached, return nothing, and that as not whole.
        """
        day: list[Criterion] = ["SINCE", since.date() - timedelta(days=1)]
        arrived: dict[int, datetime] = {}
        below = None
        with self._mailbox.session() as session:
            self._mailbox.select(session, "INBOX")
            for _ in range(MOST_WINDOWS):
                uids = self._mailbox.find_newest(session, day, count=WINDOW, below=below)
                rows = session.client.fetch(uids, ["INTERNALDATE"]) if uids else {}
                new = {uid: row[b"INTERNALDATE"] for uid, row in rows.items()}
                arrived |= {uid: at for uid, at in new.items() if at >= since}
                if len(uids) < WINDOW or any(at < since for at in new.values()):
                    break
                below = uids[-1]
            else:
                return Thread(messages=(), is_whole=False)
            oldest = sorted(arrived, key=lambda uid: (arrived[uid], uid))[:limit]
            trees = fetch_outlines(session, oldest)
            messages = tuple(
                self._message(session, uid, trees[uid][0], arrived[uid], body=False)
                for uid in oldest
                if uid in trees
            )
        return Thread(messages=messages, is_whole=len(oldest) == len(arrived))

    def fetch_attachment(
        self, message_id: str, attachment_id: str, *, limit: int
    ) -> tuple[AttachmentInfo, bytes]:
        with self._mailbox.session() as session:
            place = self._mailbox.open_message(session, message_id)
            tree, _ = fetch_tree(session, place.uid)
            return read_file(tree, attachment_id, limit=limit)

    def id_of_number(self, number: int, *, folder: str) -> str:
        with self._mailbox.session() as session:
            self._mailbox.select(session, self._mailbox.find_folder(session, folder))
            if not self._mailbox.is_present(session, number):
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
        after = read_token(page_token)
        with self._mailbox.session() as session:
            self._mailbox.select(session, self._mailbox.find_folder(session, folder))
            found = self._newest(session, wanted, attached, count=limit + 1, after=after)
            cards = self._cards(session, [uid for _, uid in found[:limit]])
        more = len(found) > limit
        return Page(cards=cards, next_token=write_token(found[limit - 1]) if more else None)

    def _newest(
        self,
        session: Session,
        wanted: list[Criterion],
        attached: bool | None,
        *,
        count: int,
        after: Place | None,
    ) -> list[Place]:
        """Return the newest matches, if asked only those with or without attachments.

        IMAP cannot search for attachments, so the structure of the newest matches is read.
        """
        if attached is None:
            return find_newest(self._mailbox, session, wanted, count=count, after=after)
        scanned = SCANNED_FOR_ATTACHMENTS
        found = find_newest(self._mailbox, session, wanted, count=scanned, after=after)
        rows = fetch_structures(session, [uid for _, uid in found], [])
        has = {uid: count_files(_root(row)) > 0 for uid, row in rows.items()}
        return [place for place in found if has.get(place[1]) is attached][:count]

    def _whole(self, session: Session, uid: int) -> Message:
        return self._message(session, uid, *fetch_tree(session, uid), body=True)

    def _outline(self, session: Session, uid: int) -> Message:
        return self._message(session, uid, *fetch_outline(session, uid), body=False)

    def _message(
        self, session: Session, uid: int, tree: Tree, arrived: datetime, *, body: bool
    ) -> Message:
        id_ = self._mailbox.make_id(session, uid)
        own = servers_of(self._mailbox.access.imap.host, self._mailbox.domain)
        return read_tree(tree, id_=id_, arrived=arrived, body=body, own=own)

    def _search(self, session: Session, folders: Sequence[str], roles: Mapping[str, str]) -> Search:
        """Return a search of these folders for messages that name given ids."""

        def search(ids: Sequence[str], found: Collection[Message]) -> Thread:
            wanted = [each for each in ids if SEARCHABLE.fullmatch(each)]
            is_whole = len(wanted) == len(ids) and len(folders) <= MOST_FOLDERS
            messages: list[Message] = []
            for folder in folders[:MOST_FOLDERS] if wanted else ():
                try:
                    self._mailbox.select(session, folder)
                    uids = sorted(self._mailbox.find_naming(session, wanted), reverse=True)
                except (Refused, Unavailable):
                    is_whole = False
                    continue
                is_whole = is_whole and len(uids) <= MOST_MESSAGES
                outlines = fetch_outlines(session, uids[:MOST_MESSAGES])
                messages += (
                    replace(
                        self._message(session, uid, tree, arrived, body=False),
                        is_sent=roles.get(folder) == "sent",
                    )
                    for uid, (tree, arrived) in outlines.items()
                )
            return Thread(messages=tuple(messages), is_whole=is_whole)

        return search

    def _counts(self, session: Session, folder: str) -> dict[bytes, int]:
        try:
            return dict(session.client.folder_status(folder, ["MESSAGES", "UNSEEN"]))
        except IMAPClient.Error:
            return {}

    def _cards(self, session: Session, uids: list[int]) -> tuple[Card, ...]:
        asked = [CARD_HEADERS, FIRST_PART, "INTERNALDATE", "FLAGS"]
        rows = fetch_structures(session, uids, asked)
        roots = {uid: _root(rows[uid]) for uid in uids if uid in rows}
        snippets = self._snippets(session, roots, rows)
        return tuple(
            self._card(session, uid, rows[uid], roots[uid], snippets.get(uid, ""))
            for uid in uids
            if uid in rows
        )

    def _snippets(
        self, session: Session, roots: dict[int, Part], rows: Mapping[int, dict[bytes, Any]]
    ) -> dict[int, str]:
        """Return the beginning of each text. The rows have the first parts; one more fetch reads all
        messages whose text has the same other section.
        """
        wanted: dict[str, dict[int, Part]] = {}
        snippets: dict[int, str] = {}
        for uid, root in roots.items():
            part = mime.text_part(root)
            if part and part.number == "1":
                snippets[uid] = structure.snippet(body_of(rows[uid], b"1]"), part)
            elif part:
                wanted.setdefault(part.number, {})[uid] = part
        for number, by_uid in wanted.items():
            more = session.client.fetch(list(by_uid), [f"BODY.PEEK[{number}]<0.{SNIPPET_BYTES}>"])
            for uid, row in more.items():
                snippets[uid] = structure.snippet(body_of(row), by_uid[uid])
        return snippets

    def _card(
        self,
        session: Session,
        uid: int,
        row: dict[bytes, Any],
        root: Part,
        snippet: str,
    ) -> Card:
        block = lenient.headers(body_of(row, b"HEADER"), mime.charset_of(root))
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
            attachments=count_files(root),
            number=uid,
            own_mark=lenient.own_mark(block),
        )


def _root(row: dict[bytes, Any]) -> Part:
    return structure.tree_of(row.get(b"BODYSTRUCTURE"))[0]
