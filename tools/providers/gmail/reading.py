"""Reading a Gmail mailbox: lists, searches, messages, threads, attachments.

A list is one request for the ids and one batch for the contents of its rows.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from email.message import Message as Block
from typing import Any, Literal

import structlog

from accounts.infra.texts import translatable
from accounts.people import own_mail
from tools.mail.message import lenient
from tools.providers.base import (
    AttachmentInfo,
    Card,
    Folder,
    Message,
    Page,
    SearchQuery,
    Thread,
    role_of,
)
from tools.providers.errors import NotFound, ProviderError, Refused
from tools.providers.gmail import metrics, payload, queries
from tools.providers.gmail.answers import BadRequest
from tools.providers.gmail.client import Build
from tools.providers.gmail.mailbox import ROLE_OF_LABEL, GmailMailbox, message_part
from tools.providers.gmail.threads import GmailThreads, get_outline
from tools.providers.gmail.trees import GmailTree, GmailTrees
from tools.providers.threads import follow

log = structlog.get_logger(__name__)

ENRICHED = 10  # rows of gmail_search_messages that get more than their ids
MAX_PAGES = 10
COUNTED_LABELS = 50
HIDDEN_LABELS = frozenset({"CHAT", "UNREAD"})
ROW_HEADERS = ["From", "Subject", "Date", own_mail.HEADER]


@dataclass(frozen=True, kw_only=True)
class Found:
    """A row of gmail_search_messages; a field that could not be read is None."""

    id: str
    thread_id: str
    from_address: str | None = None
    subject: str | None = None
    date: datetime | None = None
    snippet: str | None = None
    own_mark: str = ""

    @property
    def is_read(self) -> bool:
        return self.from_address is not None


@dataclass(frozen=True, kw_only=True)
class FoundPage:
    rows: tuple[Found, ...]
    next_token: str | None


@dataclass(frozen=True, kw_only=True)
class GmailMessage:
    """The result of gmail_get_message; `headers` has the values as they are written, each name
    once.
    """

    message: Message
    headers: Mapping[str, str]
    snippet: str


class GmailReader:
    """The reading part: lists, searches, messages, threads and attachments of one mailbox."""

    def __init__(self, mailbox: GmailMailbox) -> None:
        self._mailbox = mailbox
        self._client = mailbox.client
        self._trees = GmailTrees(mailbox)

    def find(
        self,
        query: str,
        *,
        limit: int,
        newer_than_days: int | None = None,
        label_ids: Sequence[str] = (),
        page_token: str | None = None,
    ) -> FoundPage:
        """Search in Gmail's own language, newest first; the first ten rows are filled in.

        1. Read pages until there are `limit` ids, at most ten; an id that comes again counts once.
        2. Read the first ten rows in one batch; a row that fails keeps only its ids.
        """
        started, outcome = time.monotonic(), "error"
        rows: list[Found] = []
        try:
            built = queries.build_query(query, newer_than_days=newer_than_days, label_ids=label_ids)
            labels = queries.ids_of(label_ids)
            rows, token = self._pages(built, labels, limit=limit, page_token=page_token)
            found = self.page_of(rows, token)
            outcome = "ok"
        except ProviderError as error:
            outcome = error.code
            raise
        finally:
            metrics.SEARCHES.labels(outcome=outcome).inc()
            seconds = time.monotonic() - started
            metrics.SECONDS.observe(seconds)
            log.info(
                "gmail_searched",
                provider="gmail",
                outcome=outcome,
                count=len(rows),
                duration_ms=round(seconds * 1000),
            )
        return found

    def page_of(self, rows: Sequence[Found], token: str | None) -> FoundPage:
        """Return a page of which the first ten rows are filled in, and the others are only ids."""
        first = rows[:ENRICHED]
        filled = iter(self._fill([row for row in first if not row.is_read]))
        shown = [row if row.is_read else next(filled) for row in first]
        others = [Found(id=row.id, thread_id=row.thread_id) for row in rows[ENRICHED:]]
        return FoundPage(rows=(*shown, *others), next_token=token)

    def find_newest_ids(self, query: str) -> frozenset[str]:
        """Return the ids of the newest 500 messages that a query finds."""
        answer = self._list(query, (), limit=500, page_token=None)
        return frozenset(str(row["id"]) for row in answer.get("messages", ()))

    def get(self, message_id: str, *, fmt: Literal["full", "metadata"]) -> GmailMessage:
        named = message_part(message_id)
        found = self._trees.fetch(named) if fmt == "full" else self._outline(named, fmt=fmt)
        block = found.tree.block
        return GmailMessage(
            message=found.read(id_=message_id, body=fmt == "full"),
            headers={name: lenient.decode_text(value) for name, value in reversed(block.items())},
            snippet=payload.snippet(found.answer),
        )

    def list_messages(
        self, *, folder: str, unread: bool | None, limit: int, page_token: str | None
    ) -> Page:
        query = "" if unread is None else "is:unread" if unread else "is:read"
        return self._page(folder, query, (), limit=limit, page_token=page_token)

    def search(self, query: SearchQuery, *, limit: int, page_token: str | None) -> Page:
        labels = queries.ids_of(query.label_ids)
        return self._page(
            query.folder or None, queries.terms(query), labels, limit=limit, page_token=page_token
        )

    def list_folders(self) -> tuple[Folder, ...]:
        labels = [
            label for label in self._mailbox.list_labels() if label["id"] not in HIDDEN_LABELS
        ]
        counted = labels[:COUNTED_LABELS]
        ids = [str(label["id"]) for label in counted]
        answers = self._client.each("labels.get", _get_label, ids, again=True)
        counts = {
            id_: answer
            for id_, answer in zip(ids, answers, strict=True)
            if not isinstance(answer, ProviderError)
        }
        return tuple(
            Folder(
                id=label["id"],
                name=lenient.decode_text(label.get("name", label["id"])),
                role=ROLE_OF_LABEL.get(label["id"], ""),
                unread=counts.get(label["id"], {}).get("messagesUnread"),
                total=counts.get(label["id"], {}).get("messagesTotal"),
            )
            for label in labels
        )

    def read_message(self, message_id: str, *, body: bool) -> Message:
        named = message_part(message_id)
        found = self._trees.fetch(named) if body else self._outline(named, fields=payload.OUTLINE)
        return found.read(id_=message_id, body=body)

    def read_thread(
        self, message_id: str, *, limit: int, body: bool = True, answers_to: Sequence[str] = ()
    ) -> Thread:
        """Return the conversation of a message; the id of a conversation is accepted too.

        An answer with another subject is in another conversation at Gmail.
        """
        threads = GmailThreads(self._mailbox, self._trees, self._list)
        start = Thread(messages=())
        try:
            start = threads.read_first(message_part(message_id))
        except NotFound:
            if not answers_to:
                raise
        searches = (threads.find_ids, threads.find_people) if answers_to else (threads.find_ids,)
        thread = follow(start, answers_to, *searches, limit=limit)
        if not body:
            return thread
        whole = self._trees.fetch_all([threads.answers[each.id] for each in thread.messages])
        messages = tuple(each.read(id_=str(each.answer["id"]), body=True) for each in whole)
        return replace(thread, messages=messages)

    def read_arrivals(self, since: datetime, *, limit: int) -> Thread:
        threads = GmailThreads(self._mailbox, self._trees, self._list)
        return threads.read_since(since, limit=limit)

    def fetch_attachment(
        self, message_id: str, attachment_id: str, *, limit: int
    ) -> tuple[AttachmentInfo, bytes]:
        return self._trees.fetch(message_part(message_id)).file(attachment_id, limit=limit)

    def id_of_number(self, number: int, *, folder: str) -> str:
        raise NotFound(translatable("Gmail has no numbers for messages; use message_id."))

    def _page(
        self,
        folder: str | None,
        query: str,
        labels: Sequence[str],
        *,
        limit: int,
        page_token: str | None,
    ) -> Page:
        """Return a page of a folder, or of the whole mailbox without spam and trash."""
        role = role_of(folder) if folder is not None else None
        # Drafts.list takes no labels; a search names a draft by its message.
        if role == "drafts" and not labels:
            return self._drafts_page(query, limit=limit, page_token=page_token)
        if role == "archive":
            query = f"in:archive {query}".strip()
        elif folder is not None:
            labels = [*labels, self._mailbox.find_label(folder)]
        answer = self._list(query, labels, limit=limit, page_token=page_token)
        ids = {str(row["id"]): str(row["id"]) for row in answer.get("messages", ())}
        return Page(cards=self._cards(ids), next_token=answer.get("nextPageToken"))

    def _drafts_page(self, query: str, *, limit: int, page_token: str | None) -> Page:
        answer = self._read_list(
            "drafts.list",
            lambda users: users.drafts().list(
                userId="me", q=query or None, maxResults=limit, pageToken=page_token or None
            ),
            page_token,
        )
        ids = {
            row["message"]["id"]: f"{row['id']}.{row['message']['id']}"
            for row in answer.get("drafts", ())
        }
        return Page(cards=self._cards(ids), next_token=answer.get("nextPageToken"))

    def _cards(self, ids: Mapping[str, str]) -> tuple[Card, ...]:
        """Return a card for each message, under the id beside it. A message that is gone gets no
        card.
        """
        answers = self._client.each("messages.get", get_outline, list(ids), again=True)
        for answer in answers:
            if isinstance(answer, ProviderError) and not isinstance(answer, NotFound):
                raise answer
        found = [each for each in answers if not isinstance(each, ProviderError)]
        whole = self._trees.whole_blocks(found)
        return tuple(
            payload.card(each, id_=ids[each["id"]], block=whole.get(each["id"])) for each in found
        )

    def _pages(
        self, query: str, labels: Sequence[str], *, limit: int, page_token: str | None
    ) -> tuple[list[Found], str | None]:
        found: dict[str, Found] = {}
        token = page_token or None
        pages = 0
        while pages < MAX_PAGES:
            asked, pages = token, pages + 1
            answer = self._list(query, labels, limit=limit - len(found), page_token=asked)
            rows = [row for row in answer.get("messages", ()) if row["id"] not in found]
            for row in rows[: limit - len(found)]:
                found[row["id"]] = Found(id=row["id"], thread_id=row.get("threadId", ""))
            token = answer.get("nextPageToken")
            if any(row["id"] not in found for row in rows):
                # the page held more than was asked for, so the next call begins with it again
                token = asked
                break
            if token is None or len(found) >= limit:
                break
        metrics.PAGES.observe(pages)
        return list(found.values()), token

    def _fill(self, rows: Sequence[Found]) -> list[Found]:
        if not rows:
            return []
        try:
            answers = self._client.each(
                "messages.get", _get_row, [row.id for row in rows], again=False
            )
        except ProviderError as error:
            answers = [error] * len(rows)  # the search itself succeeded, so its ids are returned
        whole = self._trees.whole_blocks(
            [answer for answer in answers if not isinstance(answer, ProviderError)]
        )
        filled = []
        for row, answer in zip(rows, answers, strict=True):
            failed = isinstance(answer, ProviderError)
            metrics.ENRICHED.labels(outcome="failed" if failed else "ok").inc()
            filled.append(row if failed else _row(row, answer, whole.get(row.id)))
        if bare := sum(isinstance(answer, ProviderError) for answer in answers):
            log.warning("gmail_rows_not_filled_in", provider="gmail", count=bare)
        return filled

    def _list(
        self, query: str, labels: Sequence[str], *, limit: int, page_token: str | None
    ) -> dict[str, Any]:
        return self._read_list(
            "messages.list",
            lambda users: users.messages().list(
                userId="me",
                q=query or None,
                labelIds=list(labels) or None,
                maxResults=limit,
                pageToken=page_token or None,
                includeSpamTrash=bool(queries.LEFT_OUT & set(labels)) or None,
            ),
            page_token,
        )

    def _read_list(self, name: str, build: Build, page_token: str | None) -> dict[str, Any]:
        try:
            return dict(self._client.read(name, build))
        except BadRequest:
            if page_token:
                raise Refused(
                    "invalid_page_token", "This page token is not from this list."
                ) from None
            raise Refused("invalid_query", "Gmail does not understand the query.") from None

    def _outline(
        self, message_id: str, *, fmt: str = "full", fields: str | None = None
    ) -> GmailTree:
        """Return a message without its content; headers that Gmail damaged are read again."""
        answer = self._mailbox.get_message(message_id, fmt=fmt, fields=fields)
        found = self._trees.of_payload(answer)
        block = self._trees.whole_blocks([answer]).get(str(answer["id"]))
        return found if block is None else replace(found, tree=replace(found.tree, block=block))


def _row(row: Found, answer: Mapping[str, Any], block: Block | None) -> Found:
    card = payload.card(answer, id_=row.id, block=block)
    return Found(
        id=row.id,
        thread_id=row.thread_id or card.thread_id,
        from_address=card.from_address,
        subject=card.subject,
        date=card.date,
        snippet=card.snippet,
        own_mark=card.own_mark or "",
    )


def _get_row(users: Any, id_: str) -> Any:
    return users.messages().get(userId="me", id=id_, format="metadata", metadataHeaders=ROW_HEADERS)


def _get_label(users: Any, id_: str) -> Any:
    return users.labels().get(userId="me", id=id_)
