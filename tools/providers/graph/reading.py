"""Reading a mailbox: lists and searches in one request each, messages, threads, attachments."""

import re
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from tools.mail.message import lenient, mime
from tools.mail.message.mime import Tree
from tools.mail.text.decoding import without_controls
from tools.providers import handles
from tools.providers.base import AttachmentInfo, Card, Folder, Message, Page, SearchQuery, Thread
from tools.providers.errors import NotFound, Refused
from tools.providers.graph.answers import Answer
from tools.providers.graph.attachments import GraphAttachments
from tools.providers.graph.client import PAGES
from tools.providers.graph.mailbox import (
    WELL_KNOWN,
    GraphMailbox,
    addresses,
    attachment_infos,
    mark_of,
    moment,
    path_of,
    sender_of,
)
from tools.providers.graph.queries import (
    TOKEN,
    Below,
    below,
    build_search,
    join_filters,
    unread_filter,
)
from tools.providers.graph.sources import fetch_tree, is_number, read_source
from tools.providers.graph.threads import FILES, HEAD_FIELDS, GraphThreads, read_head
from tools.providers.messages import NO_ATTACHMENT, read_file, too_large
from tools.providers.threads import follow

CARD_FIELDS = "id,subject,from,toRecipients,receivedDateTime,sentDateTime,bodyPreview,isRead,isDraft,hasAttachments"
MESSAGE_FIELDS = f"{HEAD_FIELDS},hasAttachments,isDraft"
TOP_LIMIT = 1000  # of `$top`: https://learn.microsoft.com/graph/api/user-list-messages
TOKEN_LENGTH = 200  # longest page token that a tool takes
SOURCE_SECONDS = 2.0  # for the sources of a conversation, one request each
SEARCHED_PAGES = 5  # of Graph for one of ours
# Of one page if only read or unread mail is wanted: such pages reach all that Graph finds
# (https://learn.microsoft.com/graph/search-query-parameter), so their end depends on no hidden mail.
COMPARED = 200
SPARE = 5  # rows in the place of mail that is left out, so that no other request tells of it
PLACE = re.compile(r"([0-9]{1,4}) (?:([0-9a-f]{12}) )?(\S+)")  # on a page; older ones have no mark


class GraphReader:
    """The reading part: lists, searches, messages, threads and attachments of one mailbox."""

    def __init__(self, mailbox: GraphMailbox, attachments: GraphAttachments) -> None:
        self._mailbox = mailbox
        self._client = mailbox.client
        self._attachments = attachments

    def list_messages(
        self, *, folder: str, unread: bool | None, limit: int, page_token: str | None
    ) -> Page:
        return self._list_filtered(folder, unread_filter(unread), limit, page_token)

    def search(self, query: SearchQuery, *, limit: int, page_token: str | None) -> Page:
        today = datetime.now(UTC).date()
        want = build_search(query, today=today)
        folder = query.folder or "inbox"
        if want.search:
            try:
                return self._list_found(folder, want.search, query, limit, page_token)
            except Refused as error:
                if error.code != "refused" or not query.raw or page_token:
                    raise
            # The query is not KQL: `{10}` or `50%` are words to look for.
            words = build_search(query, today=today, as_words=True)
            return self._list_found(folder, words.search, query, limit, None)
        return self._list_filtered(folder, want.filters, limit, page_token, query.not_from)

    def list_folders(self) -> tuple[Folder, ...]:
        roles = {self._mailbox.find_role(role): role for role in WELL_KNOWN}
        return tuple(
            Folder(
                id=str(row["id"]),
                name=lenient.decode_text(row.get("displayName") or ""),
                role=roles.get(str(row["id"]), ""),
                unread=row.get("unreadItemCount"),
                total=row.get("totalItemCount"),
                more_inside=bool(row.get("more_inside")),
            )
            for row in self._mailbox.list_folder_rows()
        )

    def read_message(self, message_id: str, *, body: bool) -> Message:
        fields = f"{MESSAGE_FIELDS},body" if body else MESSAGE_FIELDS
        path = self._mailbox.find_message(message_id)
        row = self._client.get(path, {"$select": fields, "$expand": FILES}).body
        tree = fetch_tree(self._client, path, row) if body else None
        return self._message(message_id, row, body=body, tree=tree)

    def read_thread(
        self, message_id: str, *, limit: int, body: bool = True, answers_to: Sequence[str] = ()
    ) -> Thread:
        """Return the conversation of a message.

        An answer with another subject is in another conversation at Exchange.
        """
        threads = GraphThreads(self._mailbox, limit=limit, body=body)
        start = Thread(messages=())
        try:
            start = threads.read_first(self._mailbox.find_message(message_id))
        except NotFound:
            if not answers_to:
                raise
        searches = (threads.find_ids, threads.find_people) if answers_to else (threads.find_ids,)
        thread = follow(start, answers_to, *searches, limit=limit)
        if not body:
            return thread
        until = time.monotonic() + SOURCE_SECONDS
        messages = []
        for each in reversed(thread.messages):  # the last ones are read from Graph's JSON
            row = threads.rows[each.id]
            is_early = time.monotonic() < until
            path = path_of(str(row["id"]))
            tree = fetch_tree(self._client, path, row) if is_early else None
            messages.append(self._message(each.id, row, body=True, tree=tree))
        return replace(thread, messages=tuple(reversed(messages)))

    def read_arrivals(self, since: datetime, *, limit: int) -> Thread:
        return GraphThreads(self._mailbox, limit=limit, body=False).read_since(since)

    def fetch_attachment(
        self, message_id: str, attachment_id: str, *, limit: int
    ) -> tuple[AttachmentInfo, bytes]:
        path = self._mailbox.find_message(message_id)
        if is_number(attachment_id):
            source = self._client.get(f"{path}/$value", raw=True).content
            return read_file(mime.parse(source), attachment_id, limit=limit)
        rows = self._attachments.list_rows(path)
        files = zip(attachment_infos(rows), rows, strict=True)
        info, row = next((each for each in files if each[0].id == attachment_id), (None, {}))
        if info is None:
            raise NotFound(NO_ATTACHMENT)
        if info.size * 9 // 10 > limit:  # Graph's size includes some overhead
            raise too_large(limit)
        content = self._attachments.read(path, row, is_mail=info.type == "message/rfc822")
        if len(content) > limit:
            raise too_large(limit)
        return replace(info, size=len(content), size_is_estimate=False), content

    def id_of_number(self, number: int, *, folder: str) -> str:
        raise NotFound()  # messages have no numbers here

    def _list_filtered(
        self,
        folder: str,
        filters: tuple[str, ...],
        limit: int,
        page_token: str | None,
        not_from: str = "",
    ) -> Page:
        """Return a page with one request, or more if a page has nothing new.

        Pages are cut by time, so that newly arrived mail moves nothing.
        """
        start = self._below(page_token)
        shown = frozenset(start.seen if start else ())
        params: dict[str, str | int] = {
            "$select": CARD_FIELDS,
            "$expand": "attachments($select=id)",
            "$orderby": "receivedDateTime desc",
            "$top": min(limit + 1 + len(shown) + (SPARE if not_from else 0), TOP_LIMIT),
        }
        condition = join_filters(filters, start)
        if condition:
            params["$filter"] = condition
        answer = self._client.get(f"{self._mailbox.find_folder(folder)}/messages", params)
        rows = _filter_unseen(shown, answer)
        for _ in range(PAGES):
            if rows or not answer.following:
                break
            answer = self._client.follow(answer.following)
            rows = _filter_unseen(shown, answer)
        others = [row for row in rows if _is_from_others(row, not_from)]
        page, token = others[:limit], None
        if len(others) > limit:
            token = self._token(page, start)
        elif answer.following:
            token = self._token(rows, start)
        return Page(cards=self._cards(page), next_token=token)

    def _below(self, page_token: str | None) -> Below | None:
        """Return the start of a page, from the token or from the value stored under it."""
        if not page_token:
            return None
        return below(
            page_token
            if TOKEN.fullmatch(page_token)
            else handles.find_name(self._mailbox.id, page_token) or ""
        )

    def _token(self, page: Sequence[dict[str, Any]], start: Below | None) -> str:
        """Return the token of the next page.

        After many messages of one second the token is too long, so it is stored and its handle is
        returned.
        """
        last = moment(page[-1].get("receivedDateTime")) if page else None
        if last is None:
            raise Refused("too_large", "Microsoft 365 gave no next page for this list.")
        second = int(last.timestamp())
        same = [
            row
            for row in page
            if (at := moment(row.get("receivedDateTime"))) and int(at.timestamp()) == second
        ]
        before = start.seen if start and start.second == second else ()
        token = Below(
            second=second, seen=(*before, *(mark_of(str(row["id"])) for row in same))
        ).as_token()
        return token if len(token) <= TOKEN_LENGTH else self._mailbox.shorten(token)

    def _list_found(
        self, folder: str, search: str, query: SearchQuery, limit: int, page_token: str | None
    ) -> Page:
        """Return a page with one request, or more if Graph's pages have too little for it.

        Graph decides the order. Its next pages have the size of the first one whatever is asked for, so
        a token may lead into the middle of one: behind a row, or to its place if the row is gone.
        """
        spare = SPARE if query.not_from else 0
        if page_token:
            place, mark, link = _place_of(handles.find_name(self._mailbox.id, page_token) or "")
        else:
            params: dict[str, str | int] = {
                "$search": f'"{search}"',
                "$select": CARD_FIELDS,
                "$expand": "attachments($select=id)",
                "$top": limit + spare if query.unread is None else COMPARED,
            }
            path = f"{self._mailbox.find_folder(folder)}/messages"
            place, mark, link = 0, "", self._client.url(path, params)
        answer = self._client.follow(link)
        marks = [mark_of(str(row["id"])) for row in answer.rows()]
        skip = marks.index(mark) + 1 if mark in marks else place
        rows: list[dict[str, Any]] = []
        for _ in range(SEARCHED_PAGES):
            wanted = [
                (place, row)
                for place, row in enumerate(answer.rows())
                if place >= skip
                and (query.unread is None or bool(row.get("isRead")) is not query.unread)
                and _is_from_others(row, query.not_from)
            ]
            left = wanted[limit - len(rows) :]
            rows += [row for _, row in wanted[: len(wanted) - len(left)]]
            mark = mark_of(str(rows[-1]["id"])) if left else ""
            following = f"{left[0][0]} {mark} {link}" if left else answer.following
            if len(rows) >= limit or not following:
                break
            skip, link = 0, following
            answer = self._client.follow(link)
        names = [*(str(row["id"]) for row in rows), *([following] if following else [])]
        short = handles.shorten(self._mailbox.id, names)
        cards = tuple(_card(short[str(row["id"])], row) for row in rows)
        return Page(cards=cards, next_token=short[following] if following else None)

    def _cards(self, rows: Sequence[dict[str, Any]]) -> tuple[Card, ...]:
        short = handles.shorten(self._mailbox.id, [str(row["id"]) for row in rows])
        return tuple(_card(short[str(row["id"])], row) for row in rows)

    def _message(
        self, message_id: str, row: dict[str, Any], *, body: bool, tree: Tree | None = None
    ) -> Message:
        """Return the message of a row, read from its tree if there is one."""
        content = row.get("body") or {}
        written = without_controls(str(content.get("content") or "")) if body else None
        is_html = str(content.get("contentType") or "").lower() == "html"
        files = row.get("attachments")
        if tree is None and (files is None or "attachments@odata.nextLink" in row):
            more = files is not None or row.get("hasAttachments")
            path = self._mailbox.find_message(message_id) if more else ""
            files = self._attachments.list_rows(path) if more else []
        shown = replace(
            read_head(message_id, row),
            text=None if is_html else written,
            html=written if is_html else None,
            attachments=attachment_infos(files or []),
        )
        return shown if tree is None else read_source(tree, shown)


def _filter_unseen(shown: frozenset[str], answer: Answer) -> list[dict[str, Any]]:
    return [row for row in answer.rows() if mark_of(str(row["id"])) not in shown]


def _is_from_others(row: dict[str, Any], not_from: str) -> bool:
    return not not_from or sender_of(row)[1].lower() != not_from


def _card(handle: str, row: dict[str, Any]) -> Card:
    name, address = sender_of(row)
    files = row.get("attachments")
    return Card(
        id=handle,
        from_address=address,
        from_name=name,
        to=addresses(row, "toRecipients"),
        subject=lenient.decode_text(row.get("subject") or ""),
        date=moment(row.get("sentDateTime") or row.get("receivedDateTime")),
        snippet=lenient.first_words(str(row.get("bodyPreview") or ""), html=False),
        unread=not row.get("isRead", True),
        attachments=int(bool(row.get("hasAttachments"))) if files is None else len(files),
        own_mark=None,
    )


def _place_of(name: str) -> tuple[int, str, str]:
    """Return the place on a page of Graph, the mark of the row before it, and the link of that page."""
    match = PLACE.fullmatch(name)
    return (int(match[1]), match[2] or "", match[3]) if match else (0, "", name)
