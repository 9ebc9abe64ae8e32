"""Reading a mailbox: lists and searches in one request each, messages, threads, attachments."""

import base64
import binascii
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from tools.providers import handles, lenient
from tools.providers.base import AttachmentInfo, Card, Folder, Message, Page, SearchQuery
from tools.providers.errors import NotFound, Refused
from tools.providers.graph.answers import Answer
from tools.providers.graph.client import PAGES
from tools.providers.graph.mailbox import (
    WELL_KNOWN,
    GraphMailbox,
    addresses,
    attachment_info,
    mark_of,
    moment,
    sender_of,
)
from tools.providers.graph.queries import TOKEN, Below, below, joined, quoted, unread_filter, wanted

CARD_FIELDS = "id,subject,from,toRecipients,receivedDateTime,sentDateTime,bodyPreview,isRead,isDraft,hasAttachments"
# Our own header can only be read with all headers: Graph has no filter for one header.
MESSAGE_FIELDS = (
    "id,subject,from,toRecipients,ccRecipients,replyTo,receivedDateTime,sentDateTime,internetMessageId,"
    "internetMessageHeaders,conversationId,hasAttachments,isDraft"
)
THREAD_FIELDS = (
    "id,subject,from,toRecipients,ccRecipients,receivedDateTime,sentDateTime,internetMessageId"
)
FILE_FIELDS = "id,name,contentType,size,isInline"
FILES = f"attachments($select={FILE_FIELDS},microsoft.graph.fileAttachment/contentId)"
TOP_LIMIT = 1000  # of `$top`: https://learn.microsoft.com/graph/api/user-list-messages
TOKEN_LENGTH = 200  # longest page token that a tool takes
EMPTY_PAGES = 5  # searched for an unread message


class GraphReading(GraphMailbox):
    """A mailbox that can be read."""

    def list_messages(
        self, *, folder: str, unread: bool | None, limit: int, page_token: str | None
    ) -> Page:
        return self._filtered(folder, unread_filter(unread), limit, page_token)

    def search(self, query: SearchQuery, *, limit: int, page_token: str | None) -> Page:
        today = datetime.now(UTC).date()
        want = wanted(query, today=today)
        folder = query.folder or "inbox"
        if want.search:
            try:
                return self._searched(folder, want.search, want.unread, limit, page_token)
            except Refused as error:
                if error.code != "refused" or not query.raw or page_token:
                    raise
            # The query is not KQL: `{10}` or `50%` are words to look for.
            words = wanted(query, today=today, as_words=True)
            return self._searched(folder, words.search, words.unread, limit, None)
        return self._filtered(folder, want.filters, limit, page_token)

    def list_folders(self) -> tuple[Folder, ...]:
        roles = {self._id_of_role(role): role for role in WELL_KNOWN}
        return tuple(
            Folder(
                id=str(row["id"]),
                name=lenient.decoded(row.get("displayName") or ""),
                role=roles.get(str(row["id"]), ""),
                unread=row.get("unreadItemCount"),
                total=row.get("totalItemCount"),
                more_inside=bool(row.get("more_inside")),
            )
            for row in self._folder_rows()
        )

    def read_message(self, message_id: str, *, body: bool) -> Message:
        fields = f"{MESSAGE_FIELDS},body" if body else MESSAGE_FIELDS
        answer = self._client.get(self._path(message_id), {"$select": fields, "$expand": FILES})
        return self._message(message_id, answer.body, body=body)

    def read_thread(self, message_id: str, *, limit: int, body: bool = True) -> tuple[Message, ...]:
        start = self._client.get(self._path(message_id), {"$select": "conversationId"}).body
        conversation = str(start.get("conversationId") or "")
        if not conversation:
            return (self.read_message(message_id, body=body),)
        filters = (f"conversationId eq {quoted(conversation)}", "isDraft eq false")
        params: dict[str, str | int] = {
            "$filter": joined(filters, None),
            "$orderby": "receivedDateTime desc",
            "$top": limit,
            "$select": f"{MESSAGE_FIELDS},body" if body else THREAD_FIELDS,
            **({"$expand": FILES} if body else {}),
        }
        rows = self._client.rows("/messages", params, enough=limit)[:limit]
        short = handles.shortened(self._mailbox_id, [str(row["id"]) for row in rows])
        oldest = datetime.min.replace(tzinfo=UTC)
        messages = [self._message(short[str(row["id"])], row, body=body) for row in rows]
        return tuple(sorted(messages, key=lambda each: (each.date or oldest, len(each.references))))

    def fetch_attachment(
        self, message_id: str, attachment_id: str, *, limit: int
    ) -> tuple[AttachmentInfo, bytes]:
        path = f"{self._path(message_id)}/attachments"
        row = next(
            (row for row in self._files(path) if mark_of(str(row.get("id"))) == attachment_id), None
        )
        if row is None:
            raise NotFound("There is no such attachment; list_attachments names them.")
        info = attachment_info(row)
        if info.size * 9 // 10 > limit:  # Graph's size includes some overhead
            raise Refused("too_large", f"The attachment is larger than {limit:,} bytes.")
        content = self._content(
            f"{path}/{quote(str(row['id']), safe='')}", is_mail=info.type == "message/rfc822"
        )
        if len(content) > limit:
            raise Refused("too_large", f"The attachment is larger than {limit:,} bytes.")
        return AttachmentInfo(
            id=info.id,
            name=info.name,
            type=info.type,
            size=len(content),
            inline=info.inline,
            content_id=info.content_id,
        ), content

    def _files(self, path: str) -> list[dict[str, Any]]:
        fields = f"{FILE_FIELDS},microsoft.graph.fileAttachment/contentId"
        return self._client.rows(path, {"$select": fields})

    def _content(self, path: str, *, is_mail: bool) -> bytes:
        """Return the bytes of an attachment. An attached mail has no bytes of its own and comes as
        MIME.
        """
        if is_mail:
            return self._client.get(f"{path}/$value", raw=True).content
        answer = self._client.get(path)
        try:
            return base64.b64decode(answer.body.get("contentBytes") or "", validate=True)
        except (binascii.Error, ValueError, AttributeError):
            raise NotFound("Microsoft 365 gave no content for this attachment.") from None

    def _filtered(
        self, folder: str, filters: tuple[str, ...], limit: int, page_token: str | None
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
            "$top": min(limit + 1 + len(shown), TOP_LIMIT),
        }
        condition = joined(filters, start)
        if condition:
            params["$filter"] = condition
        answer = self._client.get(f"{self._folder_path(folder)}/messages", params)
        rows = _not_in(shown, answer)
        for _ in range(PAGES):
            if rows or not answer.following:
                break
            answer = self._client.follow(answer.following)
            rows = _not_in(shown, answer)
        page = rows[:limit]
        token = self._token(page, start) if len(rows) > limit or answer.following else None
        return Page(cards=self._cards(page), next_token=token)

    def _below(self, page_token: str | None) -> Below | None:
        """Return the start of a page, from the token or from the value stored under it."""
        if not page_token:
            return None
        return below(
            page_token
            if TOKEN.fullmatch(page_token)
            else handles.named(self._mailbox_id, page_token) or ""
        )

    def _token(self, page: Sequence[dict[str, Any]], start: Below | None) -> str:
        """Return the token of the next page.

        After many messages of one second the token is too long, so it is stored and its handle is
        returned.
        """
        last = moment(page[-1].get("receivedDateTime")) if page else None
        if last is None:
            raise Refused("too_large", "Microsoft 365 does not say where this list goes on.")
        second = int(last.timestamp())
        same = [
            row
            for row in page
            if (at := moment(row.get("receivedDateTime"))) and int(at.timestamp()) == second
        ]
        before = start.seen if start and start.second == second else ()
        token = Below(
            second=second, seen=(*before, *(mark_of(str(row["id"])) for row in same))
        ).written()
        return token if len(token) <= TOKEN_LENGTH else self._handle(token)

    def _searched(
        self, folder: str, search: str, unread: bool | None, limit: int, page_token: str | None
    ) -> Page:
        """Return a page with one request, or more if unread mail was asked for and all mail on a
        page was read.

        Graph decides the order.
        """
        params: dict[str, str | int] = {
            "$search": f'"{search}"',
            "$select": CARD_FIELDS,
            "$expand": "attachments($select=id)",
            "$top": limit,
        }
        if page_token:
            answer = self._client.follow(handles.named(self._mailbox_id, page_token) or "")
        else:
            answer = self._client.get(f"{self._folder_path(folder)}/messages", params)
        for _ in range(EMPTY_PAGES):
            rows = [
                row
                for row in answer.rows()
                if unread is None or bool(row.get("isRead")) is not unread
            ]
            following = answer.following
            if rows or not following:
                break
            answer = self._client.follow(following)
        names = [*(str(row["id"]) for row in rows), *([following] if following else [])]
        short = handles.shortened(self._mailbox_id, names)
        cards = tuple(_card(short[str(row["id"])], row) for row in rows)
        return Page(cards=cards, next_token=short[following] if following else None)

    def _cards(self, rows: Sequence[dict[str, Any]]) -> tuple[Card, ...]:
        short = handles.shortened(self._mailbox_id, [str(row["id"]) for row in rows])
        return tuple(_card(short[str(row["id"])], row) for row in rows)

    def _message(self, message_id: str, row: dict[str, Any], *, body: bool) -> Message:
        name, address = sender_of(row)
        content = row.get("body") or {}
        written = str(content.get("content") or "").replace("\r\n", "\n") if body else None
        is_html = str(content.get("contentType") or "").lower() == "html"
        headers = "\r\n".join(
            f"{each.get('name')}: {each.get('value')}"
            for each in row.get("internetMessageHeaders") or []
        )
        block = lenient.headers(headers.encode("utf-8", "replace") + b"\r\n\r\n")
        files = row.get("attachments")
        if files is None or "attachments@odata.nextLink" in row:
            more = files is not None or row.get("hasAttachments")
            files = self._files(f"{self._path(message_id)}/attachments") if more else []
        return Message(
            id=message_id,
            from_address=address,
            from_name=name,
            to=addresses(row, "toRecipients"),
            cc=addresses(row, "ccRecipients"),
            reply_to=addresses(row, "replyTo"),
            subject=lenient.decoded(row.get("subject") or ""),
            date=moment(row.get("sentDateTime") or row.get("receivedDateTime")),
            text=None if is_html else written,
            html=written if is_html else None,
            attachments=tuple(attachment_info(each) for each in files),
            message_id=str(row.get("internetMessageId") or ""),
            references=lenient.references(block),
            own_mark=lenient.own_mark(block),
        )


def _not_in(shown: frozenset[str], answer: Answer) -> list[dict[str, Any]]:
    return [row for row in answer.rows() if mark_of(str(row["id"])) not in shown]


def _card(handle: str, row: dict[str, Any]) -> Card:
    name, address = sender_of(row)
    files = row.get("attachments")
    return Card(
        id=handle,
        from_address=address,
        from_name=name,
        to=addresses(row, "toRecipients"),
        subject=lenient.decoded(row.get("subject") or ""),
        date=moment(row.get("sentDateTime") or row.get("receivedDateTime")),
        snippet=lenient.first_words(str(row.get("bodyPreview") or ""), html=False),
        unread=not row.get("isRead", True),
        attachments=int(bool(row.get("hasAttachments"))) if files is None else len(files),
        own_mark=None,
    )
