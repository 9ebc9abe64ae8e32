"""A Gmail API and a Google token endpoint on loopback that fail on demand, with a ledger of what
was really sent.

Messages, drafts, labels, threads, search, batches and uploads, as far as a mail program needs them.
Tests read the ledger, the list of calls and the mailboxes; they do not use our database.
"""

import base64
import hashlib
import html
import itertools
import json
import re
import secrets
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage, Message
from email.utils import getaddresses
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Self, cast
from urllib.parse import parse_qs, unquote, urlsplit

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
ROUTES = [
    (re.compile(pattern), name)
    for pattern, name in (
        (r"GET /gmail/v1/users/me/profile", "getProfile"),
        (r"GET /gmail/v1/users/me/labels", "labels.list"),
        (r"GET /gmail/v1/users/me/labels/(?P<id>[^/]+)", "labels.get"),
        (r"GET /gmail/v1/users/me/messages", "messages.list"),
        (r"POST (/upload)?/gmail/v1/users/me/messages/send", "messages.send"),
        (r"GET /gmail/v1/users/me/messages/(?P<id>[^/]+)", "messages.get"),
        (
            r"GET /gmail/v1/users/me/messages/(?P<id>[^/]+)/attachments/(?P<part>[^/]+)",
            "attachments.get",
        ),
        (r"POST /gmail/v1/users/me/messages/(?P<id>[^/]+)/trash", "messages.trash"),
        (r"GET /gmail/v1/users/me/threads/(?P<id>[^/]+)", "threads.get"),
        (r"GET /gmail/v1/users/me/drafts", "drafts.list"),
        (r"GET /gmail/v1/users/me/drafts/(?P<id>[^/]+)", "drafts.get"),
        (r"POST (/upload)?/gmail/v1/users/me/drafts", "drafts.create"),
        (r"PUT (/upload)?/gmail/v1/users/me/drafts/(?P<id>[^/]+)", "drafts.update"),
        (r"DELETE /gmail/v1/users/me/drafts/(?P<id>[^/]+)", "drafts.delete"),
        (r"POST (/upload)?/gmail/v1/users/me/drafts/send", "drafts.send"),
        (r"POST /batch(/gmail/v1)?", "batch"),
        (r"POST /token", "token"),
    )
]
ID = re.compile(r"<[^<>\s]+>")
TERM = re.compile(r'(-?)(?:(\w+):)?("[^"]*"|[^\s"]+)')


@dataclass(kw_only=True)
class Stored:
    """A message in a mailbox; `at` is its internal date in milliseconds."""

    id: str
    thread: str
    labels: set[str]
    source: bytes
    at: int

    @property
    def parsed(self) -> Message:
        return message_from_bytes(self.source, policy=policy.compat32)

    def header(self, name: str) -> str:
        return str(self.parsed[name] or "")


@dataclass(frozen=True, kw_only=True)
class Sent:
    """A sent mail: to everybody in `recipients`, as `content`, at `at` (Unix time).

    The id and the content are those of the draft, whatever Message-ID the copies have.
    """

    sender: str
    recipients: tuple[str, ...]
    message_id: str
    content: bytes
    at: float

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


@dataclass(kw_only=True)
class Box:
    """One account."""

    address: str
    messages: dict[str, Stored] = field(default_factory=dict)
    drafts: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call as it came in: `name` is the API's; `inside` is True if it came inside a batch."""

    name: str
    address: str
    arguments: Mapping[str, list[str]]
    id: str = ""
    inside: bool = False
    content: bytes = b""

    def one(self, name: str) -> str:
        return self.arguments.get(name, [""])[0]

    @property
    def draft(self) -> str:
        """Return the id of the draft that is to be sent."""
        return str(json.loads(self.content)["id"])


@dataclass(kw_only=True)
class Fault:
    """A fault of the next `times` calls of a name (None: all): a status, or no answer at all.

    `after`: it strikes after the effect. `pause` comes first; with the status 200 it is the only
    fault.
    """

    name: str
    times: int | None = 1
    status: int = 0
    reason: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    after: bool = False
    only: Callable[[Call], bool] = lambda call: True
    pause: Callable[[], object] = lambda: None


class Refusal(Exception):
    def __init__(
        self, status: int, reason: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(status)
        self.status, self.reason, self.headers = status, reason, dict(headers or {})

    def body(self) -> bytes:
        told = {
            "message": "canary-reply in words",
            "domain": "global",
            "reason": self.reason or "backendError",
        }
        error = {"code": self.status, "message": told["message"], "errors": [told]}
        return json.dumps({"error": error}).encode()


class Dropped(Exception):
    pass


class GmailServer:
    """The server, its mailboxes and its planned faults. Use as a context manager."""

    def __init__(self) -> None:
        self.boxes: dict[str, Box] = {}
        self.ledger: list[Sent] = []
        self.calls: list[Call] = []
        self.faults: list[Fault] = []
        self.page_size = 500
        self.page_overlap = 0
        self.lists_more_than_asked = False
        self.search_lags = self.lists_lag = False
        # The treatment of the Message-ID of a sent mail. The real service was seen to replace it
        # and to keep no copy (FlowCrypt/flowcrypt-browser#4273, gauteh/lieer#198), and in other
        # years to note it or to keep it.
        self.message_ids: Literal["replaced", "noted", "kept"] = "replaced"
        self.tampers: Callable[[bytes], bytes] | None = None
        self.before: dict[str, Callable[[Call], None]] = {}
        self.cuts_unread: Callable[[str], bool] = lambda path: False
        self.chooser: Callable[[Call], Fault | None] = lambda call: None
        self.on_sent: Callable[[Sent], object] = lambda sent: None
        self.grant_ended = False
        self.new_refresh_token = ""
        self.garbles: set[str] = set()
        self.granted_scope = "https://www.googleapis.com/auth/gmail.readonly https://www.googleapis.com/auth/gmail.compose"
        self.token_seconds = 3600
        self.delay = 0.0
        self.most_at_once = 0
        self.codes: dict[str, dict[str, str]] = {}
        self.clients: dict[str, str] = {}
        self.token_error = ""
        self._now_in = 0
        self._tokens: dict[str, str] = {}
        self._refresh_tokens: dict[str, str] = {}
        self._pages: set[str] = set()
        self._ids = itertools.count(0x18C0000000000001)
        self._clock = itertools.count(1_790_000_000_000)
        self._lock = threading.RLock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(10)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def token_uri(self) -> str:
        return f"{self.url}/token"

    # Direct access for tests

    def box(self, address: str) -> Box:
        return self.boxes.setdefault(address.lower(), Box(address=address))

    def signed_in(self, address: str) -> str:
        """Return a refresh token of an account."""
        self.box(address)
        token = f"1//{secrets.token_hex(8)}"
        self._refresh_tokens[token] = address.lower()
        return token

    def access_token(self, address: str) -> str:
        self.box(address)
        token = f"ya29.{secrets.token_hex(8)}"
        self._tokens[token] = address.lower()
        return token

    def code(self, address: str, asked: Mapping[str, str]) -> str:
        """Return the code that a person gets to paste after allowing the access of the link. Only
        the creator of that link can use it.
        """
        code = f"4/0A{secrets.token_hex(8)}"
        self.codes[code] = {"address": address.lower(), **asked}
        return code

    def forget_tokens(self) -> None:
        self._tokens.clear()

    def deliver(
        self,
        address: str,
        source: bytes,
        *,
        labels: tuple[str, ...] = ("INBOX", "UNREAD"),
        at: int | None = None,
    ) -> Stored:
        with self._lock:
            return self._add(self.box(address), source, set(labels), at=at)

    def sources(self, address: str, label: str) -> list[bytes]:
        """Return the messages with a label, oldest first."""
        return [
            stored.source for stored in self._newest(self.box(address)) if label in stored.labels
        ][::-1]

    def fail(self, name: str, status: int, reason: str = "", **more: Any) -> None:
        self.faults.append(Fault(name=name, status=status, reason=reason, **more))

    def drop(self, name: str, *, after: bool = False, times: int | None = 1) -> None:
        self.faults.append(Fault(name=name, after=after, times=times))

    def heal(self) -> None:
        self.faults.clear()
        self.chooser, self.cuts_unread = (lambda call: None), (lambda path: False)

    def count(self, name: str) -> int:
        """Return how often a call came in by itself; the calls inside a batch count as one
        `batch`.
        """
        return sum(call.name == name and not call.inside for call in self.calls)

    def requests(self) -> Counter[str]:
        """Count the calls of the API that were their own requests."""
        return Counter(call.name for call in self.calls if not call.inside and call.name != "token")

    def put_draft(self, address: str, source: bytes, draft_id: str = "") -> str:
        """Store a draft as a person does in Gmail; a changed draft gets another message."""
        with self._lock:
            return self._put_draft(self.box(address), source, "", draft_id)

    def delete_draft(self, address: str, draft_id: str) -> None:
        box = self.box(address)
        del box.messages[box.drafts.pop(draft_id)]

    # Requests over the wire

    def answer(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        with self._lock:
            self._now_in += 1
            self.most_at_once = max(self.most_at_once, self._now_in)
        try:
            if self.delay:
                time.sleep(self.delay)
            return self._answer(method, target, headers, body)
        finally:
            with self._lock:
                self._now_in -= 1

    def _answer(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes, *, inside: str = ""
    ) -> tuple[int, Mapping[str, str], bytes]:
        parts = urlsplit(target)
        found = (
            (pattern.fullmatch(f"{method} {parts.path}"), name)
            for pattern, name in reversed(ROUTES)
        )
        match, name = next(((match, name) for match, name in found if match), (None, ""))
        if match is None:
            return 404, {}, Refusal(404, "notFound").body()
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        address = inside or self._tokens.get(bearer, "")
        call = Call(
            name=name,
            address=address,
            arguments=parse_qs(parts.query),
            inside=bool(inside),
            content=body,
            id=unquote(match.groupdict().get("id") or ""),
        )
        with self._lock:
            self.calls.append(call)
        if name in self.before:
            self.before[name](call)
        try:
            fault = self._fault(call)
            if fault and not fault.after:
                _go_wrong(fault)
            if name == "token":
                return (
                    200,
                    {"content-type": "application/json"},
                    json.dumps(self._token(body)).encode(),
                )
            if not address:
                raise Refusal(401, "authError")
            if name == "batch" and name not in self.garbles:
                return self._batch(call, headers)
            with self._lock:
                answer = self._do(call, match.groupdict(), headers)
            if fault and fault.after:
                _go_wrong(fault)
        except Refusal as refusal:
            return (
                refusal.status,
                {"content-type": "application/json", **refusal.headers},
                refusal.body(),
            )
        if name in self.garbles:
            return 200, {"content-type": "text/html"}, b"<html>canary-reply"
        masked = _masked(answer, call.one("fields")) if call.one("fields") else answer
        extra = dict(fault.headers) if fault else {}
        return (
            200,
            {"content-type": "application/json; charset=UTF-8", **extra},
            json.dumps(masked).encode(),
        )

    def _fault(self, call: Call) -> Fault | None:
        with self._lock:
            for fault in self.faults:
                if fault.name == call.name and fault.only(call) and fault.times != 0:
                    if fault.times is not None:
                        fault.times -= 1
                    return fault
        return self.chooser(call)

    def _token(self, body: bytes) -> dict[str, Any]:
        form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        given: dict[str, Any] = {}
        if self.token_error:
            raise _NoToken(401 if "client" in self.token_error else 400, self.token_error)
        client_id = form.get("client_id", "")
        if client_id not in self.clients or form.get("client_secret") != self.clients[client_id]:
            raise _NoToken(401, "invalid_client")  # desktop clients have a secret, too
        if form["grant_type"] == "authorization_code":
            code = self.codes.pop(form.get("code", ""), {})
            challenge = base64.urlsafe_b64encode(
                hashlib.sha256(form.get("code_verifier", "").encode()).digest()
            )
            if (client_id, challenge.decode().rstrip("=")) != (
                code.get("client_id"),
                code.get("code_challenge"),
            ):
                raise _NoToken(400, "invalid_grant")
            if form.get("redirect_uri") != code["redirect_uri"]:
                raise _NoToken(400, "redirect_uri_mismatch")
            address = code["address"]
            given["refresh_token"] = self.signed_in(address)
        else:
            address = self._refresh_tokens.get(form.get("refresh_token", ""), "")
            if not address or self.grant_ended:
                raise _NoToken(400, "invalid_grant")
            if self.new_refresh_token:
                # The old one is no longer valid.
                self._refresh_tokens = {self.new_refresh_token: address}
                given["refresh_token"] = self.new_refresh_token
        token = self.access_token(address)
        return {
            **given,
            "access_token": token,
            "expires_in": self.token_seconds,
            "scope": self.granted_scope,
            "token_type": "Bearer",
        }

    def _batch(
        self, call: Call, headers: Mapping[str, str]
    ) -> tuple[int, Mapping[str, str], bytes]:
        kind = f"content-type: {headers['content-type']}\r\n\r\n".encode()
        pieces = []
        for part in message_from_bytes(kind + call.content).walk():
            if part.get_content_type() != "application/http":
                continue
            inner = part.get_payload(decode=True)
            assert isinstance(inner, bytes)
            method, target, _ = inner.decode().split("\n", 1)[0].split(" ", 2)
            status, extra, body = self._answer(method, target, {}, b"", inside=call.address)
            lines = [f"{name}: {value}" for name, value in extra.items()]
            head = "\r\n".join([f"HTTP/1.1 {status} Some Words", *lines])
            number = str(part["Content-ID"]).replace("<", "<response-", 1)
            pieces.append(
                f"--batch_x\r\nContent-Type: application/http\r\nContent-ID: {number}\r\n\r\n{head}\r\n\r\n".encode()
                + body
                + b"\r\n"
            )
        return (
            200,
            {"content-type": "multipart/mixed; boundary=batch_x"},
            b"".join([*pieces, b"--batch_x--\r\n"]),
        )

    def _do(self, call: Call, named: Mapping[str, Any], headers: Mapping[str, str]) -> Any:
        box = self.box(call.address)
        match call.name:
            case "batch":
                return {}
            case "getProfile":
                return {"emailAddress": box.address, "messagesTotal": len(box.messages)}
            case "labels.list":
                own = [
                    {"id": id_, "name": name, "type": "user"} for id_, name in box.labels.items()
                ]
                return {
                    "labels": [
                        *({"id": id_, "name": id_, "type": "system"} for id_ in SYSTEM_LABELS),
                        *own,
                    ]
                }
            case "labels.get":
                under = [stored for stored in box.messages.values() if call.id in stored.labels]
                unread = sum("UNREAD" in stored.labels for stored in under)
                return {"id": call.id, "messagesTotal": len(under), "messagesUnread": unread}
            case "messages.list":
                return self._listed(call, box)
            case "messages.get":
                return _shown(self._message(box, call.id), call)
            case "attachments.get":
                return self._attachment(box, call.id, unquote(named["part"]))
            case "threads.get":
                thread = sorted(
                    (s for s in box.messages.values() if s.thread == call.id),
                    key=lambda s: (s.at, s.id),
                )
                if not thread:
                    raise Refusal(404, "notFound")
                return {"id": call.id, "messages": [_shown(stored, call) for stored in thread]}
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
            and _matches(stored, query, box)
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
        for name, part in _numbered(self._message(box, id_).parsed):
            if name == number:
                content = _bytes_of(part)
                return {"size": len(content), "data": base64.urlsafe_b64encode(content).decode()}
        raise Refusal(404, "notFound")

    def _draft_id(self, box: Box, id_: str) -> str:
        if id_ not in box.drafts:
            raise Refusal(404, "notFound")
        return id_

    def _draft(self, box: Box, call: Call) -> dict[str, Any]:
        id_ = self._draft_id(box, call.id)
        return {"id": id_, "message": _shown(box.messages[box.drafts[id_]], call)}

    def _write_draft(self, call: Call, box: Box, headers: Mapping[str, str]) -> dict[str, Any]:
        if call.name == "drafts.update":
            self._draft_id(box, call.id)
        given, source = _uploaded(call, headers)
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
            box, source, {"DRAFT"}, thread=thread if _belongs(source, box, thread) else ""
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
            content=_without_bcc(draft.source),
            at=time.time(),
        )
        self.ledger.append(out)
        self.on_sent(out)
        source = self._named_anew(draft.source)
        sent = self._add(box, source, {"SENT"}, thread=draft.thread)
        for address in recipients:
            if address.lower() in self.boxes:
                self._add(self.boxes[address.lower()], _without_bcc(source), {"INBOX", "UNREAD"})
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
            (s for s in box.messages.values() if named and s.header("Message-ID").strip() in named),
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


def _belongs(source: bytes, box: Box, thread: str) -> bool:
    """Return True if a draft belongs to the named conversation.

    Only a threadId brings it there, and only with References and In-Reply-To to one of its messages
    and with the same subject, answered or not.

    https://developers.google.com/workspace/gmail/api/guides/threads
    """
    there = [stored for stored in box.messages.values() if stored.thread == thread]
    if not there:
        return True  # the draft's own
    told = message_from_bytes(source, policy=policy.compat32)
    ids = {stored.header("Message-ID").strip() for stored in there}
    named = (
        ids & set(ID.findall(str(told["References"]))) & set(ID.findall(str(told["In-Reply-To"])))
    )
    return bool(named) and _topic(told) in {_topic(stored.parsed) for stored in there}


def _topic(parsed: Message) -> str:
    return re.sub(r"(?i)^(re:\s*)+", "", " ".join(_readable(parsed, "subject").split()))


class _NoToken(Refusal):
    """A refusal in the words of the token endpoint (RFC 6749 5.2)."""

    def body(self) -> bytes:
        return json.dumps({"error": self.reason, "error_description": "canary-reply"}).encode()


def _go_wrong(fault: Fault) -> None:
    fault.pause()
    if fault.status == 200:
        return
    if not fault.status:
        raise Dropped
    raise Refusal(fault.status, fault.reason, fault.headers)


def _shown(stored: Stored, call: Call) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": stored.id,
        "threadId": stored.thread,
        "labelIds": sorted(stored.labels),
        "internalDate": str(stored.at),
    }
    form = call.one("format") or "full"
    if form == "minimal":
        return shown
    shown |= {"snippet": _snippet(stored.parsed), "sizeEstimate": len(stored.source)}
    if form == "raw":
        return shown | {"raw": base64.urlsafe_b64encode(stored.source).decode()}
    wanted = {name.lower() for name in call.arguments.get("metadataHeaders", ())}
    if form == "metadata":
        headers = [h for h in _headers(stored.parsed) if not wanted or h["name"].lower() in wanted]
        return shown | {
            "payload": {"mimeType": stored.parsed.get_content_type(), "headers": headers}
        }
    return shown | {"payload": _payload(stored.parsed, "")}


def _payload(part: Message, number: str) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "partId": number,
        "mimeType": part.get_content_type(),
        "filename": part.get_filename() or "",
        "headers": _headers(part),
        "body": {"size": 0},
    }
    if part.get_content_maintype() == "multipart":
        shown["parts"] = [
            _payload(child, _inner(number, place)) for place, child in enumerate(_inside(part))
        ]
        return shown
    content = _bytes_of(part)
    shown["body"] = {"size": len(content)}
    if part.get_content_maintype() == "text" and not shown["filename"] and len(content) < 20_000:
        shown["body"]["data"] = base64.urlsafe_b64encode(content).decode()
    elif content:
        shown["body"]["attachmentId"] = (
            f"{number or '0'}-{secrets.token_hex(20)}"  # a different one every time
        )
    if part.get_content_type() == "message/rfc822":
        shown["parts"] = [_payload(child, _inner(number, 0)) for child in _inside(part)]
    return shown


def _inside(part: Message) -> list[Message]:
    return cast(list[Message], part.get_payload()) if part.is_multipart() else []


def _numbered(part: Message, number: str = "") -> Iterator[tuple[str, Message]]:
    yield number or "0", part
    if part.get_content_maintype() == "multipart":
        for place, child in enumerate(_inside(part)):
            yield from _numbered(child, _inner(number, place))


def _inner(number: str, place: int) -> str:
    return f"{number}.{place}" if number else str(place)


def _bytes_of(part: Message) -> bytes:
    if part.get_content_type() == "message/rfc822":
        return b"".join(child.as_bytes() for child in _inside(part))
    content = part.get_payload(decode=True)
    return content if isinstance(content, bytes) else b""


def _headers(part: Message) -> list[dict[str, str]]:
    return [
        {
            "name": name,
            "value": re.sub(r"\r?\n[ \t]+", " ", str(value))
            .encode("utf-8", "surrogateescape")
            .decode("utf-8", "replace"),
        }
        for name, value in part.raw_items()
    ]


def _snippet(parsed: Message) -> str:
    """Return the first words, escaped for HTML as Gmail does."""
    for kind in ("text/plain", "text/html"):
        for _, part in _numbered(parsed):
            if part.get_content_type() == kind and not part.get_filename():
                text = _bytes_of(part).decode("utf-8", "replace")
                if kind == "text/html":
                    text = html.unescape(re.sub(r"(?s)<style.*?</style>|<[^>]*>", " ", text))
                return html.escape(" ".join(text.split())[:200])
    return ""


def _matches(stored: Stored, query: str, box: Box) -> bool:
    parsed = stored.parsed
    everything = (
        "\n".join(part.get("value", "") for part in _headers(parsed)).lower()
        + html.unescape(_snippet(parsed)).lower()
    )
    own = {name.lower().replace(" ", "-"): id_ for id_, name in box.labels.items()}
    for minus, key, raw in TERM.findall(query):
        value = raw.strip('"')
        match key:
            case "from" | "to" | "subject":
                holds = value.lower() in _readable(parsed, key).lower()
            case "label" | "in":
                holds = (
                    value == "anywhere" or own.get(value.lower(), value.upper()) in stored.labels
                )
            case "newer_than":
                holds = stored.at >= (time.time() - int(value.rstrip("d")) * 86400) * 1000
            case "after":
                holds = stored.at > int(value) * 1000
            case "before":
                holds = stored.at < int(value) * 1000
            case "has":
                holds = any(part.get_filename() for _, part in _numbered(parsed))
            case "is":
                holds = ("UNREAD" in stored.labels) is (value == "unread")
            case "rfc822msgid":
                holds = stored.header("Message-ID").strip() == f"<{value}>"
            case _:
                holds = value.lower() in everything
        if holds is bool(minus):
            return False
    return True


def _readable(parsed: Message, name: str) -> str:
    value = next((h["value"] for h in _headers(parsed) if h["name"].lower() == name), "")
    read = message_from_bytes(f"Subject: {value}\r\n\r\n".encode(), policy=policy.default)
    return str(read["Subject"])


def _uploaded(call: Call, headers: Mapping[str, str]) -> tuple[dict[str, Any], bytes]:
    """Return the fields beside the message, and the message: from the JSON or the second part of an
    upload.
    """
    if "uploadType" not in call.arguments:
        given = json.loads(call.content)
        return given, _decoded(given.get("raw") or given.get("message", {}).get("raw", ""))
    boundary = re.search(r'boundary="([^"]+)"', headers["content-type"])
    assert boundary is not None
    _, beside, media, _ = call.content.split(b"--" + boundary[1].encode())
    return json.loads(beside.partition(b"\n\n")[2]), media.partition(b"\n\n")[2].removesuffix(b"\n")


def _decoded(raw: str) -> bytes:
    return base64.urlsafe_b64decode(raw + "=" * (-len(raw) % 4))


def _without_bcc(source: bytes) -> bytes:
    head, blank, body = source.partition(b"\r\n\r\n")
    return (
        re.sub(rb"(?im)^Bcc:.*(?:\r\n[ \t].*)*\r\n", b"", head + b"\r\n").removesuffix(b"\r\n")
        + blank
        + body
    )


def _masked(answer: Any, fields: str) -> Any:
    """Return the members that a mask such as `id,payload(headers,parts(partId))` names."""
    return _cut(answer, _mask(iter(re.findall(r"[\w]+|[(),]", fields))))


def _mask(tokens: Iterator[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    last = ""
    for token in tokens:
        if token == ")":
            break
        if token == "(":
            found[last] = _mask(tokens)
        elif token != ",":
            last = token
            found[last] = {}
    return found


def _cut(answer: Any, mask: dict[str, Any]) -> Any:
    if isinstance(answer, list):
        return [_cut(each, mask) for each in answer]
    if not isinstance(answer, dict) or not mask:
        return answer
    return {name: _cut(value, mask[name]) for name, value in answer.items() if name in mask}


def _handler(server: GmailServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 60
        disable_nagle_algorithm = True

        def _respond(self) -> None:
            given = {name.lower(): value for name, value in self.headers.items()}
            try:
                if server.cuts_unread(self.path):
                    raise Dropped
                body = self.rfile.read(int(given.get("content-length") or 0))
                status, headers, content = server.answer(self.command, self.path, given, body)
            except Dropped:
                # A reset instead of an orderly end, as on a dying connection.
                self.connection.setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                )
                self.close_connection = True
                self.connection.close()
                return
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_DELETE = _respond

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


def parsed(source: bytes) -> EmailMessage:
    return message_from_bytes(source, policy=policy.default)
