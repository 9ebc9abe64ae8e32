"""The mailboxes of the Gmail server: messages, drafts, labels, threads and the ledger."""

import base64
import itertools
import re
import threading
import time
from collections.abc import Callable, Mapping
from email import message_from_bytes, policy
from email.utils import getaddresses
from typing import Any, Literal
from urllib.parse import unquote

from tests.support.servers.gmail_data import Box, Call, Refusal, Sent, Stored
from tests.support.servers.gmail_messages import (
    ID,
    belongs_to_thread,
    bytes_of,
    matches_query,
    number_parts,
    read_upload,
    show_message,
    topic_of,
    without_bcc,
)

SYSTEM_LABELS = (
    "INBOX",
    "SENT",
    "DRAFT",
    "SPAM",
    "TRASH",
    "STARRED",
    "IMPORTANT",
    "UNREAD",
    "CHAT",
)


class Mailboxes:
    """All accounts, and the calls of the API on one of them."""

    def __init__(self) -> None:
        self.boxes: dict[str, Box] = {}
        self.ledger: list[Sent] = []
        self.page_size = 500
        self.page_overlap = 0
        self.lists_more_than_asked = False
        self.search_lags = self.lists_lag = False
        self.splits_subjects = False  # as Gmail does: another subject is another conversation
        # The treatment of the Message-ID of a sent mail. The real service was seen to replace it
        # and to keep no copy (FlowCrypt/flowcrypt-browser#4273, gauteh/lieer#198), and in other
        # years to note it or to keep it.
        self.message_ids: Literal["replaced", "noted", "kept"] = "replaced"
        self.tampers: Callable[[bytes], bytes] | None = None
        self.on_sent: Callable[[Sent], object] = lambda sent: None
        self._pages: set[str] = set()
        self._ids = itertools.count(0x18C0000000000001)
        self._clock = itertools.count(1_790_000_000_000)
        self._lock = threading.RLock()

    def box(self, address: str) -> Box:
        return self.boxes.setdefault(address.lower(), Box(address=address))

    def deliver(
        self,
        address: str,
        source: bytes,
        *,
        labels: tuple[str, ...] = ("INBOX", "UNREAD"),
        at: int | None = None,
        thread: str | None = None,
    ) -> Stored:
        with self._lock:
            return self._add(self.box(address), source, set(labels), at=at, thread=thread)

    def sources(self, address: str, label: str) -> list[bytes]:
        """Return the messages with a label, oldest first."""
        return [
            stored.source for stored in self._newest(self.box(address)) if label in stored.labels
        ][::-1]

    def put_draft(self, address: str, source: bytes, draft_id: str = "") -> str:
        """Store a draft as a person does in Gmail; a changed draft gets another message."""
        with self._lock:
            return self._put_draft(self.box(address), source, "", draft_id)

    def delete_draft(self, address: str, draft_id: str) -> None:
        box = self.box(address)
        del box.messages[box.drafts.pop(draft_id)]

    def _do(self, call: Call, named: Mapping[str, Any], headers: Mapping[str, str]) -> Any:
        box = self.box(call.address)
        match call.name:
            case "batch":
                return {}
            case "getProfile":
                return {"emailAddress": box.address, "messagesTotal": len(box.messages)}
            case "labels.list":
                return {"labels": self._labels(box)}
            case "labels.get":
                under = [stored for stored in box.messages.values() if call.id in stored.labels]
                unread = sum("UNREAD" in stored.labels for stored in under)
                return {"id": call.id, "messagesTotal": len(under), "messagesUnread": unread}
            case "messages.list":
                return self._listed(call, box)
            case "messages.get":
                return show_message(self._message(box, call.id), call)
            case "attachments.get":
                return self._attachment(box, call.id, unquote(named["part"]))
            case "threads.get":
                thread = sorted(
                    (s for s in box.messages.values() if s.thread == call.id),
                    key=lambda s: (s.at, s.id),
                )
                if not thread:
                    raise Refusal(404, "notFound")
                return {
                    "id": call.id,
                    "messages": [show_message(stored, call) for stored in thread],
                }
            case "messages.trash":
                self._message(box, call.id).labels.add("TRASH")
                return {"id": call.id}
            case "drafts.list":
                return self._listed(call, box, drafts=True)
            case "drafts.get":
                return self._draft(box, call)
            case "drafts.create" | "drafts.update":
                return self._write_draft(call, box, headers)
            case "drafts.delete":
                self.delete_draft(box.address, self._draft_id(box, call.id))
                return {}
            case "drafts.send":
                return self._send(box, self._draft_id(box, call.draft))
        raise Refusal(404, "notFound")

    def _labels(self, box: Box) -> list[dict[str, str]]:
        system = ({"id": id_, "name": id_, "type": "system"} for id_ in SYSTEM_LABELS)
        own = ({"id": id_, "name": name, "type": "user"} for id_, name in box.labels.items())
        return [*system, *own]

    def _listed(self, call: Call, box: Box, *, drafts: bool = False) -> dict[str, Any]:
        of_message = {message: draft for draft, message in box.drafts.items()}
        wanted = set(call.arguments.get("labelIds", ())) | ({"DRAFT"} if drafts else set())
        hidden = set() if call.one("includeSpamTrash") == "true" else {"SPAM", "TRASH"} - wanted
        query = call.one("q")
        if wanted - set(SYSTEM_LABELS) - set(box.labels):
            raise Refusal(400, "invalidArgument")
        rows = [
            stored
            for stored in self._newest(box)
            if wanted <= stored.labels
            and not hidden & stored.labels
            and matches_query(stored, query, box)
        ]
        if self.lists_lag or (self.search_lags and query):
            rows = [stored for stored in rows if "SENT" not in stored.labels]
        token = call.one("pageToken")
        if token:
            if token not in self._pages:
                raise Refusal(400, "invalidArgument")
            at, id_ = token.split("-")
            older = [stored for stored in rows if (stored.at, stored.id) < (int(at), id_)]
            rows = rows[max(len(rows) - len(older) - self.page_overlap, 0) :]
        asked = (
            self.page_size
            if self.lists_more_than_asked
            else min(int(call.one("maxResults") or 100), self.page_size)
        )
        page = rows[:asked]
        answer: dict[str, Any] = {"resultSizeEstimate": len(rows)}
        shown = [{"id": stored.id, "threadId": stored.thread} for stored in page]
        if page and drafts:
            answer["drafts"] = [{"id": of_message[row["id"]], "message": row} for row in shown]
        elif page:
            answer["messages"] = shown
        if len(rows) > len(page):
            answer["nextPageToken"] = f"{page[-1].at}-{page[-1].id}"
            self._pages.add(answer["nextPageToken"])
        return answer

    def _newest(self, box: Box) -> list[Stored]:
        return sorted(
            box.messages.values(), key=lambda stored: (stored.at, stored.id), reverse=True
        )

    def _message(self, box: Box, id_: str) -> Stored:
        if not re.fullmatch(r"[0-9a-f]{1,16}", id_):
            raise Refusal(400, "invalidArgument")
        if id_ not in box.messages:
            raise Refusal(404, "notFound")
        return box.messages[id_]

    def _attachment(self, box: Box, id_: str, attachment_id: str) -> dict[str, Any]:
        number = attachment_id.split("-")[0]
        for name, part in number_parts(self._message(box, id_).parsed):
            if name == number:
                content = bytes_of(part)
                return {"size": len(content), "data": base64.urlsafe_b64encode(content).decode()}
        raise Refusal(404, "notFound")

    def _draft_id(self, box: Box, id_: str) -> str:
        if id_ not in box.drafts:
            raise Refusal(404, "notFound")
        return id_

    def _draft(self, box: Box, call: Call) -> dict[str, Any]:
        id_ = self._draft_id(box, call.id)
        return {"id": id_, "message": show_message(box.messages[box.drafts[id_]], call)}

    def _write_draft(self, call: Call, box: Box, headers: Mapping[str, str]) -> dict[str, Any]:
        if call.name == "drafts.update":
            self._draft_id(box, call.id)
        given, source = read_upload(call, headers)
        thread = given.get("message", {}).get("threadId", "")
        if thread and thread not in {stored.thread for stored in box.messages.values()}:
            raise Refusal(404, "notFound")
        id_ = self._put_draft(
            box, self.tampers(source) if self.tampers else source, thread, call.id
        )
        stored = box.messages[box.drafts[id_]]
        return {
            "id": id_,
            "message": {"id": stored.id, "threadId": stored.thread, "labelIds": ["DRAFT"]},
        }

    def _put_draft(self, box: Box, source: bytes, thread: str, id_: str = "") -> str:
        id_ = id_ or f"r{next(self._ids)}"
        old = box.messages.pop(box.drafts.get(id_, ""), None)
        thread = thread or (old.thread if old else "")
        stored = self._add(
            box, source, {"DRAFT"}, thread=thread if belongs_to_thread(source, box, thread) else ""
        )
        box.drafts[id_] = stored.id
        return id_

    def _send(self, box: Box, draft_id: str) -> dict[str, Any]:
        draft = box.messages.pop(box.drafts.pop(draft_id))
        everybody = [v for name in ("To", "Cc", "Bcc") for v in draft.parsed.get_all(name, [])]
        recipients = tuple(
            address for _, address in getaddresses([str(value) for value in everybody])
        )
        out = Sent(
            sender=box.address,
            recipients=recipients,
            message_id=draft.header("Message-ID").strip(),
            content=without_bcc(draft.source),
            at=time.time(),
        )
        self.ledger.append(out)
        self.on_sent(out)
        source = self._named_anew(draft.source)
        sent = self._add(box, source, {"SENT"}, thread=draft.thread)
        for address in recipients:
            if address.lower() in self.boxes:
                self._add(self.boxes[address.lower()], without_bcc(source), {"INBOX", "UNREAD"})
        return {"id": sent.id, "threadId": sent.thread, "labelIds": ["SENT"]}

    def _named_anew(self, source: bytes) -> bytes:
        if self.message_ids == "kept":
            return source
        noted = rb"X-Google-Original-Message-ID:\1" if self.message_ids == "noted" else b""
        without = re.sub(rb"(?im)^Message-ID:(.*\r?\n(?:[ \t].*\r?\n)*)", noted, source, count=1)
        return b"Message-ID: <CA%016x@mail.gmail.com>\r\n" % next(self._ids) + without

    def _add(
        self,
        box: Box,
        source: bytes,
        labels: set[str],
        *,
        thread: str | None = None,
        at: int | None = None,
    ) -> Stored:
        """Add a message to the given conversation, to a new one (""), or to that of a message which
        it names (None).
        """
        id_ = f"{next(self._ids):016x}"
        parsed = message_from_bytes(source, policy=policy.compat32)
        named = set(ID.findall(f"{parsed['References']} {parsed['In-Reply-To']}"))
        kin = next(
            (
                s
                for s in box.messages.values()
                if s.header("Message-ID").strip() in named
                and not (self.splits_subjects and topic_of(s.parsed) != topic_of(parsed))
            ),
            None,
        )
        stored = Stored(
            id=id_,
            thread=thread or id_ if thread is not None or kin is None else kin.thread,
            labels=labels,
            source=source,
            at=at or next(self._clock),
        )
        box.messages[id_] = stored
        return stored
