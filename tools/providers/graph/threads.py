"""The conversations of Exchange that belong to one conversation of people."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from tools.mail.message import lenient
from tools.mail.message.authentication import EXCHANGE, read_verdicts
from tools.providers import handles
from tools.providers.base import Message, Thread
from tools.providers.graph.attachments import FILE_FIELDS
from tools.providers.graph.mailbox import GraphMailbox, addresses, moment, sender_of
from tools.providers.graph.outgoing import address_of
from tools.providers.graph.queries import join_filters, quote_text
from tools.providers.messages import names_of
from tools.providers.threads import MOST_PEOPLE, missing, naming, people_of

# Our own header can only be read with all headers: Graph has no filter for one header.
HEAD_FIELDS = (
    "id,subject,from,toRecipients,ccRecipients,replyTo,receivedDateTime,sentDateTime,internetMessageId,"
    "internetMessageHeaders,conversationId,parentFolderId"
)
FILES = f"attachments($select={FILE_FIELDS})"
MOST_THREADS = 10  # that one search may find
MOST_CANDIDATES = 50  # of the newest mail of people, whose headers are read
TOGETHER = 10  # ids in one filter


class GraphThreads:
    """The conversations that were read so far. `rows` has Graph's row for each message."""

    def __init__(self, mailbox: GraphMailbox, *, limit: int, body: bool) -> None:
        self._mailbox = mailbox
        self._client = mailbox.client
        self._limit = limit
        self._body = body
        self._threads: set[str] = set()
        self._since = ""
        self._candidates: Thread | None = None
        self.rows: dict[str, dict[str, Any]] = {}

    def read_first(self, path: str) -> Thread:
        """Return the conversation of the message at this path. Raises NotFound."""
        row = self._client.get(path, {"$select": "conversationId,receivedDateTime"}).body
        self._since = str(row.get("receivedDateTime") or "")
        conversation = str(row.get("conversationId") or "")
        if conversation:
            return self._read(conversation)
        return Thread(messages=self._messages([self._client.get(path, self._form()).body]))

    def find_ids(self, ids: Sequence[str], found: Collection[Message]) -> Thread:
        """Return the conversations that hold messages with these ids."""
        wanted, new = missing(ids, found), dict[str, None]()
        for first in range(0, len(wanted), TOGETHER):
            named = wanted[first : first + TOGETHER]
            either = " or ".join(f"internetMessageId eq {quote_text(each)}" for each in named)
            params: dict[str, str | int] = {"$filter": either, "$select": "id,conversationId"}
            for row in self._client.rows("/messages", params):
                new[str(row.get("conversationId") or "")] = None
        threads = [each for each in new if each and each not in self._threads]
        read = [self._read(each) for each in threads[:MOST_THREADS]]
        return Thread(
            messages=tuple(message for each in read for message in each.messages),
            is_whole=len(threads) <= MOST_THREADS and all(each.is_whole for each in read),
        )

    def find_people(self, ids: Sequence[str], found: Collection[Message]) -> Thread:
        """Return the mail of the people in it that names these ids, also in other conversations."""
        if self._candidates is None:
            self._candidates = self._list_of_people(people_of(found), found)
        messages = naming(self._candidates.messages, ids, found)
        return Thread(messages=messages, is_whole=self._candidates.is_whole)

    def read_since(self, since: datetime) -> Thread:
        """Return the oldest mail that arrived since then, in all folders."""
        condition = f"receivedDateTime ge {since:%Y-%m-%dT%H:%M:%SZ} and isDraft eq false"
        params = self._form() | {
            "$filter": condition,
            "$orderby": "receivedDateTime asc",
            "$top": self._limit + 1,
        }
        rows = self._client.rows("/messages", params, enough=self._limit + 1)
        return Thread(
            messages=self._messages(rows[: self._limit]), is_whole=len(rows) <= self._limit
        )

    def _list_of_people(self, people: Sequence[str], found: Collection[Message]) -> Thread:
        """Return their mail since the first message arrived, or since all that was found if it is
        gone.
        """
        arrived = [each.arrived for each in found if each.arrived]
        since = self._since or (f"{min(arrived):%Y-%m-%dT%H:%M:%SZ}" if arrived else "")
        if not since or not people:
            return Thread(messages=())
        senders = " or ".join(
            f"from/emailAddress/address eq {quote_text(each)}" for each in people[:MOST_PEOPLE]
        )
        condition = f"receivedDateTime ge {since} and isDraft eq false and ({senders})"
        answer = self._client.get(
            "/messages",
            self._form()
            | {
                "$filter": condition,
                "$orderby": "receivedDateTime desc",
                "$top": MOST_CANDIDATES,
            },
        )
        is_whole = not answer.following and len(people) <= MOST_PEOPLE
        return Thread(messages=self._messages(answer.rows()), is_whole=is_whole)

    def _read(self, conversation: str) -> Thread:
        self._threads.add(conversation)
        filters = (f"conversationId eq {quote_text(conversation)}", "isDraft eq false")
        params = self._form() | {
            "$filter": join_filters(filters, None),
            "$orderby": "receivedDateTime desc",
            "$top": self._limit,
        }
        rows = self._client.rows("/messages", params, enough=self._limit + 1)
        return Thread(
            messages=self._messages(rows[: self._limit]), is_whole=len(rows) <= self._limit
        )

    def _form(self) -> dict[str, str | int]:
        if not self._body:
            return {"$select": HEAD_FIELDS}
        return {"$select": f"{HEAD_FIELDS},hasAttachments,isDraft,body", "$expand": FILES}

    def _messages(self, rows: Sequence[dict[str, Any]]) -> tuple[Message, ...]:
        short = handles.shorten(self._mailbox.id, [str(row["id"]) for row in rows])
        sent = self._mailbox.find_role("sent") if rows else ""
        self.rows |= {short[str(row["id"])]: row for row in rows}
        return tuple(read_head(short[str(row["id"])], row, sent=sent) for row in rows)


def read_head(message_id: str, row: dict[str, Any], *, sent: str = "") -> Message:
    """Return a message without its text and attachments; `sent` is the id of the folder Sent."""
    name, address = sender_of(row)
    lines = (
        f"{each.get('name')}: {each.get('value')}"
        for each in row.get("internetMessageHeaders") or []
    )
    block = lenient.headers("\r\n".join(lines).encode("utf-8", "replace") + b"\r\n\r\n")
    kind = lenient.decode_text(block["Content-Type"]).partition(";")[0].strip().lower()
    return Message(
        id=message_id,
        from_address=address,
        from_name=name,
        to=addresses(row, "toRecipients"),
        cc=addresses(row, "ccRecipients"),
        reply_to=addresses(row, "replyTo"),
        names=names_of(
            (name, address),
            *(
                address_of(each)
                for header in ("replyTo", "toRecipients", "ccRecipients")
                for each in row.get(header) or []
            ),
        ),
        subject=lenient.decode_text(row.get("subject") or ""),
        date=moment(row.get("sentDateTime") or row.get("receivedDateTime")),
        text=None,
        html=None,
        attachments=(),
        message_id=str(row.get("internetMessageId") or ""),
        references=lenient.references(block),
        own_mark=lenient.own_mark(block),
        authentication=read_verdicts(block, EXCHANGE),
        arrived=moment(row.get("receivedDateTime")),
        is_sent=bool(sent) and row.get("parentFolderId") == sent,
        is_automatic=lenient.is_automatic(block, kind, address),
        is_report=lenient.is_report(block, kind, address),
    )
