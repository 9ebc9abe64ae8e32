"""Microsoft Graph on loopback, with a ledger of what was really sent and faults by phase.

with GraphServer() as graph:
    token = graph.token(ADA)                      # opaque; optional scopes
    graph.fault("drop_after_effect", on="send")   # the next call of that kind
    graph.ledger                                  # sent mail, whatever the answer was
"""

import base64
import contextlib
import hashlib
import json
import os
import re
import socket
import struct
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, ClassVar, Literal, Self
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from accounts.infra import credentials
from accounts.models import Mailbox
from tests.graphstore import (
    BadRequest,
    Item,
    Store,
    file_row,
    matching,
    selected,
)
from tools.mail.html.clean import text_of

ALL = ("Mail.Read", "Mail.ReadWrite", "Mail.Send", "User.Read")
SECONDS = 10
SENDING = ("sendMail", "send", "reply", "replyAll", "forward")
ON_DRAFTS = (
    "createReply", "createReplyAll", "createForward", "createUploadSession", "attachments", "permanentDelete",
)  # fmt: skip
REQUEST_LIMIT = 4 * 1024 * 1024
Phase = Literal[
    "drop_before",
    "drop_after",
    "drop_after_effect",
    "answer",
    "answer_after_effect",
    "late",
    "late_done",
]


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """One sent mail, recorded independently of the answer to the client."""

    sender: str
    recipients: tuple[str, ...]
    message_id: str
    subject: str
    endpoint: str
    source: bytes
    saved: bool
    marker: str
    at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.source).hexdigest()


@dataclass(frozen=True)
class Held:
    """A call that waits in the server until the test releases it."""

    reached: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    done: threading.Event = field(default_factory=threading.Event)

    def wait(self) -> None:
        assert self.reached.wait(SECONDS * 6)

    def release(self) -> None:
        self.released.set()

    def here(self) -> None:
        self.reached.set()
        self.released.wait(SECONDS * 6)


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault by its phase: `drop_*` cut the connection before the request was read, after it, or
    after its effect.

    `answer*` returns `status` instead of, or after, the effect. `late*` answers correctly, after a
    pause before or after its effect. The others may also pause where they strike, except for the
    one before the request was read.
    """

    phase: Phase
    status: int = 503
    code: str = "ErrorInternalServerError"
    headers: tuple[tuple[str, str], ...] = ()
    pause: Callable[[], object] = lambda: None
    ended: Callable[[], object] = lambda: None  # called after the effect of a late call


@dataclass(frozen=True, kw_only=True)
class Hit:
    method: str
    path: str
    query: dict[str, str]
    body: Any
    action: str
    prefer: str


class GraphServer:
    """The server and the interface of its tests. Safe from several threads."""

    def __init__(self) -> None:
        self.store = Store()
        self.ledger: list[Accepted] = []
        self.hits: list[Hit] = []
        self.tokens: dict[str, tuple[str, tuple[str, ...]]] = {}
        self.aliases: dict[str, str] = {}
        self.index_lags = self.ignores_filters = False
        self.most_per_page = 1000  # whatever `$top` is
        self.empty_pages = 0  # at the beginning of each list
        # The form of the path in a nextLink.
        self.spell_link: Callable[[str], str] = lambda path: path
        self.refuses_recipients: set[str] = set()
        self.renames = False
        self.destroys = True
        self.answers_in_html = False
        self.shows_html = False
        self.mime_bcc: int | None = None
        self.on_read: Callable[[Item], object] = lambda item: None
        self.delay = 0.0
        self.most_at_once: Counter[str] = Counter()
        self.on_accept: Callable[[Accepted], object] = lambda accepted: None
        self.tamper: Callable[[Item], object] = lambda item: None
        self.on_attach: Callable[[Item], object] = lambda item: None
        self.chooser: Callable[[str], Fault | None] = lambda action: None
        self._faults: dict[str, deque[Fault]] = {}
        self._uploads: dict[str, tuple[Item, dict[str, Any], bytearray]] = {}
        self._busy: Counter[str] = Counter()
        self._lock = threading.RLock()
        self._http = _Server(("127.0.0.1", 0), _Handler)
        self._http.graph = self
        self.port: int = self._http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/v1.0"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(SECONDS)

    def token(self, address: str, *scopes: str) -> str:
        """Return an access token; it has all scopes if no scope is named."""
        token = f"opaque.{len(self.tokens)}.{hashlib.sha256(address.encode()).hexdigest()[:8]}"
        self.tokens[token] = (address.lower(), scopes or ALL)
        return token

    def fault(
        self,
        phase: Phase,
        *,
        on: str = "send",
        status: int = 503,
        code: str = "ErrorInternalServerError",
        times: int = 1,
        **headers: str,
    ) -> None:
        """Make the next `times` calls of a kind fail. `on` is the last word of the address, `get`
        for reads of a message, `list` for lists, `send` for everything that sends.
        """
        said = tuple((name.replace("_", "-"), value) for name, value in headers.items())
        queue = self._faults.setdefault(on, deque())
        queue.extend([Fault(phase=phase, status=status, code=code, headers=said)] * times)

    def hold(self, *, after_effect: bool, on: str = "send") -> Held:
        """Stop the next call of a kind before or after its effect; once released, its connection is
        cut.
        """
        held = Held()
        phase: Phase = "drop_after_effect" if after_effect else "drop_after"
        self._faults.setdefault(on, deque()).append(Fault(phase=phase, pause=held.here))
        return held

    def heal(self) -> None:
        self.chooser = lambda action: None
        self._faults.clear()
        self.index_lags = False
        self.tamper = lambda item: None

    def deliver(
        self, address: str, source: bytes, *, folder: str = "inbox", unread: bool = True
    ) -> Item:
        return self.store.deliver(address, source, folder=folder, unread=unread)

    def sends(self) -> list[Hit]:
        """Return every call to a sending endpoint that reached the server, whatever its result."""
        return [hit for hit in self.hits if hit.action in SENDING]

    def drafts(self, address: str) -> list[Item]:
        return self.store.in_folder(address, "drafts")

    def sent(self, address: str) -> list[Item]:
        return self.store.in_folder(address, "sentitems")

    def next_fault(self, action: str) -> Fault | None:
        with self._lock:
            for name in (action, "send" if action in SENDING else ""):
                if self._faults.get(name):
                    return self._faults[name].popleft()
        return self.chooser(action)

    @contextlib.contextmanager
    def counted(self, address: str) -> Iterator[None]:
        with self._lock:
            self._busy[address] += 1
            self.most_at_once[address] = max(self.most_at_once[address], self._busy[address])
        try:
            if self.delay:
                time.sleep(self.delay)
            yield
        finally:
            with self._lock:
                self._busy[address] -= 1

    def accept(self, address: str, item: Item, endpoint: str, *, save: bool) -> None:
        """Send it: write it into the ledger, the inboxes of this server, and Sent."""
        with self._lock:
            if self.renames:
                item.shown["internetMessageId"] = (
                    f"<{hashlib.sha256(item.id.encode()).hexdigest()[:16]}@exchange.example>"
                )
            item.shown["isDraft"] = False
            accepted = Accepted(
                sender=address,
                recipients=item.recipients(),
                message_id=item.shown["internetMessageId"],
                subject=item.shown["subject"],
                endpoint=endpoint,
                source=item.mime(),
                saved=save,
                marker=next(iter(item.extended.values()), ""),
            )
            self.ledger.append(accepted)
            if save:
                self.store.move(address, item, "sentitems")
            else:
                self.store.of(address).pop(item.id, None)
            connected = {owner for owner, _ in self.tokens.values()}
            for recipient in item.recipients():
                if recipient.lower() in connected:
                    self.store.deliver(recipient, accepted.source)
        self.on_accept(accepted)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    graph: GraphServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Do nothing: a client may disconnect."""


class _Refusal(Exception):
    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.status, self.code = status, code


class _Cut(Exception):
    """The end of the connection."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_PATCH(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def do_PUT(self) -> None:
        self._serve()

    def _serve(self) -> None:
        try:
            status, body, headers = self._answer()
        except _Cut:
            with contextlib.suppress(OSError):  # a reset, not an orderly end
                self.connection.setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                )
                os.close(self.connection.detach())
            self.close_connection = True
            return
        content = (
            body
            if isinstance(body, bytes)
            else json.dumps(body).encode()
            if body is not None
            else b""
        )
        with contextlib.suppress(OSError):
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            for name, value in headers:
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

    def _answer(self) -> tuple[int, Any, tuple[tuple[str, str], ...]]:
        graph, url = self.server.graph, urlsplit(self.path)
        query = dict(parse_qsl(url.query, keep_blank_values=True))
        action = self._action(url.path)
        fault = graph.next_fault(action)
        if fault and fault.phase == "drop_before":
            raise _Cut
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = json.loads(raw) if raw and self.command != "PUT" else None
        graph.hits.append(
            Hit(
                method=self.command,
                path=url.path,
                query=query,
                body=body,
                action=action,
                prefer=self.headers.get("Prefer", ""),
            )
        )
        if fault and fault.phase in ("drop_after", "answer", "late"):
            fault.pause()
        if fault and fault.phase == "drop_after":
            raise _Cut
        if fault and fault.phase == "answer":
            return fault.status, _error(fault.code), fault.headers
        status, answer = self._done(url.path, query, body, raw, action)
        if fault and fault.phase == "late":
            fault.ended()
        if fault and fault.phase in ("drop_after_effect", "answer_after_effect", "late_done"):
            fault.pause()
        if fault and fault.phase == "drop_after_effect":
            raise _Cut
        if fault and fault.phase == "answer_after_effect":
            return fault.status, None if fault.status < 300 else _error(fault.code), fault.headers
        return status, answer, ()

    def _action(self, path: str) -> str:
        last = path.rstrip("/").rpartition("/")[2]
        if self.command == "GET":
            return "list" if last in ("messages", "attachments") or "mailFolders" in path else "get"
        if last in (*SENDING, *ON_DRAFTS):
            return last
        return {"POST": "create", "PATCH": "patch", "DELETE": "delete", "PUT": "upload"}[
            self.command
        ]

    def _done(
        self, path: str, query: dict[str, str], body: Any, raw: bytes, action: str
    ) -> tuple[int, Any]:
        graph = self.server.graph
        if len(raw) > REQUEST_LIMIT:
            return 413, _error("RequestBodyTooLarge")
        if path.startswith("/upload/"):
            return self._upload(path, raw)
        address, scopes = graph.tokens.get(
            self.headers.get("Authorization", "").removeprefix("Bearer "), ("", ())
        )
        if not address:
            return 401, _error("InvalidAuthenticationToken")
        rest = unquote(re.sub(r"^/v1\.0", "", path))
        rest = re.sub(r"\('([^']*)'\)", r"/\1", rest)  # OData's other spelling of a key
        if rest.startswith("/users/"):
            named, _, rest = rest.removeprefix("/users/").partition("/")
            address, rest = named.lower(), f"/{rest}"
        elif rest.startswith("/me"):
            rest = rest.removeprefix("/me") or "/"
        needed = _needed(self.command, action, rest)
        if not set(needed) & set(scopes):
            return 403, _error("ErrorAccessDenied")
        with graph.counted(address):
            try:
                with graph.store.lock:
                    call = _Call(
                        graph, address, query, body, self.path, self.headers.get("Prefer", "")
                    )
                    return call.done(self.command, rest.strip("/").split("/"))
            except _Refusal as refusal:
                return refusal.status, _error(refusal.code)
            except BadRequest as error:
                return 400, _error(error.code)

    def _upload(self, path: str, raw: bytes) -> tuple[int, Any]:
        graph = self.server.graph
        item, given, content = graph._uploads[path]
        if self.headers.get("Authorization"):
            # a request with a token is refused there
            return 401, _error("InvalidAuthenticationToken")
        if self.headers.get("Content-Type") != "application/octet-stream":
            return 415, _error("UnsupportedMediaType")
        first, last, total = map(int, re.findall(r"[0-9]+", self.headers["Content-Range"]))
        if first != len(content) or last - first + 1 != len(raw):
            return 416, _error("ErrorInvalidRange")
        content += raw
        if len(content) < total:
            return 202, {"nextExpectedRanges": [f"{len(content)}-"]}
        with graph.store.lock:
            graph.store.attach(
                item, {**given, "contentBytes": base64.b64encode(bytes(content)).decode()}
            )
        return 201, None


class _Call:
    """One call on a mailbox."""

    ACTIONS: ClassVar[dict[str, str]] = {
        "createReply": "reply",
        "createReplyAll": "replyAll",
        "createForward": "forward",
    }

    def __init__(
        self,
        graph: GraphServer,
        address: str,
        query: dict[str, str],
        body: Any,
        address_line: str,
        prefer: str,
    ) -> None:
        self.graph, self.address, self.query, self.body = graph, address, query, body or {}
        self._line, self.prefer = address_line, prefer

    def done(self, method: str, parts: list[str]) -> tuple[int, Any]:
        match method, parts:
            case "GET", [""]:
                return 200, {
                    "mail": self.address,
                    "userPrincipalName": self.graph.aliases.get(self.address, self.address),
                }
            case "GET", ["mailFolders"]:
                return 200, self._paged(self.graph.store.folders(self.address))
            case "GET", ["mailFolders", folder]:
                return 200, self.graph.store.folder(self.address, self._folder(folder))
            case "GET", ["mailFolders", folder, "childFolders"]:
                return 200, self._paged(
                    self.graph.store.folders(self.address, inside=self._folder(folder))
                )
            case "GET", ["mailFolders", folder, "messages"]:
                return 200, self._list(
                    self.graph.store.in_folder(self.address, self._folder(folder))
                )
            case "GET", ["messages"]:
                return 200, self._list(list(self.graph.store.of(self.address).values()))
            case "POST", ["messages"]:
                item = self.graph.store.new(self.address, "drafts", self.body)
                self.graph.tamper(item)
                return 201, item.shown
            case "POST", ["sendMail"]:
                message = self.body["message"]
                item = self.graph.store.new(self.address, "outbox", message)
                return self._leaves(item, "sendMail", save=self.body.get("saveToSentItems", True))
            case "POST", ["mailFolders", folder, "messages", message, "permanentDelete"]:
                item = self._item(message)
                if item.folder != self._folder(folder):
                    raise _Refusal(404, "ErrorItemNotFound")
                return self._on_message(method, item, ["permanentDelete"])
            case _, ["messages", message, *rest]:
                return self._on_message(method, self._item(message), rest)
        raise _Refusal(404, "ResourceNotFound")

    def _on_message(self, method: str, item: Item, rest: list[str]) -> tuple[int, Any]:
        store = self.graph.store
        match method, rest:
            case "GET", []:
                self.graph.on_read(item)
                return 200, self._shown(self._selected(item))
            case "GET", ["$value"]:
                return 200, item.mime(bcc=self.graph.mime_bcc)
            case "PATCH", []:
                store.patch(item, self.body)
                self.graph.tamper(item)
                return 200, item.shown
            case "DELETE", []:
                if item.folder == "deleteditems":
                    store.purged[item.id] = store.of(self.address).pop(item.id)
                else:
                    store.move(self.address, item, "deleteditems")
                return 204, None
            case "POST", ["permanentDelete"]:
                # Into the purges folder, which no client can reach: its id finds nothing any more.
                # https://learn.microsoft.com/en-us/graph/api/message-permanentdelete
                if not self.graph.destroys:
                    # this call exists only in the global cloud
                    raise _Refusal(404, "ResourceNotFound")
                store.purged[item.id] = store.of(self.address).pop(item.id)
                return 204, None
            case "POST", ["createReply" | "createReplyAll" | "createForward" as action]:
                draft = self._derived(item, self.ACTIONS[action], "drafts")
                return 201, draft.shown
            case "POST", ["send"]:
                if not item.shown["isDraft"]:
                    raise _Refusal(400, "ErrorInvalidOperation")
                return self._leaves(item, "send", save=True)
            case "POST", ["reply" | "replyAll" | "forward" as action]:
                if "comment" in self.body and (self.body.get("message") or {}).get("body"):
                    raise _Refusal(400, "ErrorInvalidRequest")
                return self._leaves(self._derived(item, action, "outbox"), action, save=True)
            case "GET", ["attachments"]:
                return 200, self._paged([file_row(file) for file in item.files])
            case "POST", ["attachments"]:
                row = file_row(store.attach(item, self.body))
                self.graph.on_attach(item)
                return 201, row
            case "POST", ["attachments", "createUploadSession"]:
                path = f"/upload/{len(self.graph._uploads)}"
                given = {
                    name: value
                    for name, value in self.body["AttachmentItem"].items()
                    if name != "attachmentType"
                }
                self.graph._uploads[path] = (item, given, bytearray())
                return 201, {"uploadUrl": f"http://127.0.0.1:{self.graph.port}{path}"}
            case _, ["attachments", attachment, *more]:
                return self._on_file(method, item, attachment, more)
        raise _Refusal(405, "ErrorInvalidRequest")

    def _on_file(
        self, method: str, item: Item, attachment: str, more: list[str]
    ) -> tuple[int, Any]:
        file = next((each for each in item.files if each["id"] == attachment), None)
        if file is None:
            raise _Refusal(404, "ErrorItemNotFound")
        match method, more:
            case "GET", []:
                return 200, file
            case "GET", ["$value"]:
                return 200, base64.b64decode(file["contentBytes"])
            case "DELETE", []:
                item.files.remove(file)
                item.changed()
                return 204, None
        raise _Refusal(405, "ErrorInvalidRequest")

    def _shown(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return its body as `Prefer` asks for it.

        The page of `get message` says that it is HTML otherwise. Without `shows_html` this server
        returns the stored type.
        """
        body = row.get("body")
        if body and body["contentType"] == "html" and 'body-content-type="text"' in self.prefer:
            row["body"] = {"contentType": "text", "content": text_of(body["content"])}
        elif (
            body
            and body["contentType"] == "text"
            and self.graph.shows_html
            and "body-content" not in self.prefer
        ):
            linked = re.sub(
                r"https?://\S+", r'<a href="\g<0>">\g<0></a>', escape(body["content"], quote=False)
            )
            lines = linked.replace("\n", "<br>\r\n")
            row["body"] = {
                "contentType": "html",
                "content": f"<html><head></head><body>{lines}</body></html>",
            }
        return row

    def _list(self, items: list[Item]) -> dict[str, Any]:
        if self.graph.index_lags and "$filter" in self.query and "eq" in self.query["$filter"]:
            items = []
        if not self.graph.ignores_filters:
            items = matching(items, self.query)
        return self._paged([self._selected(item) for item in items])

    def _selected(self, item: Item) -> dict[str, Any]:
        row = selected(item, self.query)
        if len(row.get("attachments", [])) > self.graph.most_per_page:
            row["attachments"] = row["attachments"][: self.graph.most_per_page]
            row["attachments@odata.nextLink"] = self._link({})
        return row

    def _paged(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        """Return one page; more follow as long as there is a nextLink, however few rows a page
        has.
        """
        top = min(int(self.query.get("$top", 10)), self.graph.most_per_page)
        skip, empty = int(self.query.get("$skip", 0)), int(self.query.get("$skiptoken", 0))
        if empty < self.graph.empty_pages:
            return {"value": [], "@odata.nextLink": self._link({"$skiptoken": str(empty + 1)})}
        page: dict[str, Any] = {"value": rows[skip : skip + top]}
        if len(rows) > skip + top:
            page["@odata.nextLink"] = self._link({"$skip": str(skip + top)})
        return page

    def _link(self, more: dict[str, str]) -> str:
        query = "&".join(f"{name}={quote(value)}" for name, value in {**self.query, **more}.items())
        return f"http://127.0.0.1:{self.graph.port}{self.graph.spell_link(urlsplit(self._line).path)}?{query}"

    def _derived(self, original: Item, action: str, folder: str) -> Item:
        """Return a reply or a forward as Exchange writes it: its own subject, its own quote."""
        shown, message = original.shown, self.body.get("message") or {}
        comment = self.body.get("comment", "")
        prefix = "FW" if action == "forward" else "RE"
        quote_ = f"________________\r\nFrom: {shown['from']}\r\n\r\n{shown['body']['content']}"
        kind = shown["body"]["contentType"]
        # No documentation says how Exchange treats a text.
        if kind == "text" and self.graph.answers_in_html:
            kind, quote_ = "html", f"<pre>{escape(quote_)}</pre>"
        given = {
            "subject": f"{prefix}: {shown['subject']}",
            "body": {
                "contentType": kind,
                "content": f"{comment}\r\n{quote_}",
            },  # the comment is inserted unchanged
            "toRecipients": self.body.get("toRecipients") or message.get("toRecipients") or [],
            **({"conversationId": shown["conversationId"]} if action != "forward" else {}),
            **{name: value for name, value in message.items() if name != "toRecipients"},
        }
        if action != "forward":
            sender = shown["replyTo"] or [shown["from"]]
            others = (
                [*shown["toRecipients"], *shown["ccRecipients"]] if action == "replyAll" else []
            )
            others = [
                each for each in others if each["emailAddress"]["address"].lower() != self.address
            ]
            given |= {"toRecipients": sender, "ccRecipients": others}
        known = (*original.references, shown["internetMessageId"]) if action != "forward" else ()
        item = self.graph.store.new(
            self.address, folder, given, references=tuple(filter(None, known))
        )
        if action == "forward":
            for file in original.files:
                self.graph.store.attach(
                    item, {name: value for name, value in file.items() if name != "id"}
                )
        self.graph.tamper(item)
        return item

    def _leaves(self, item: Item, endpoint: str, *, save: bool) -> tuple[int, Any]:
        if not item.recipients() or self.graph.refuses_recipients & set(item.recipients()):
            raise _Refusal(400, "ErrorInvalidRecipients")
        self.graph.accept(self.address, item, endpoint, save=save)
        return 202, None

    def _item(self, message: str) -> Item:
        item = self.graph.store.of(self.address).get(message)
        if item is None:
            raise _Refusal(404, "ErrorItemNotFound")
        return item

    def _folder(self, named: str) -> str:
        try:
            return self.graph.store.known_folder(self.address, named)
        except KeyError:
            raise _Refusal(404, "ErrorFolderNotFound") from None


def graph_mailbox(server: GraphServer, address: str, *scopes: str, **secrets: Any) -> Mailbox:
    """Return a mailbox that is connected with a token of this server, valid for an hour."""
    mailbox_id = uuid.uuid4()
    token = {
        "access_token": server.token(address, *scopes),
        "expires_at": time.time() + 3600,
        "refresh_token": "r",
    }
    return Mailbox.objects.create(
        id=mailbox_id,
        address=address,
        provider="microsoft",
        credentials=credentials.encrypt({**token, **secrets}, mailbox_id=mailbox_id),
        scopes=list(scopes or ("Mail.ReadWrite", "Mail.Send")),
    )


def _needed(method: str, action: str, rest: str) -> tuple[str, ...]:
    if action in SENDING:
        return ("Mail.Send",)
    if rest == "/":
        return ("User.Read",)
    return ("Mail.Read", "Mail.ReadWrite") if method == "GET" else ("Mail.ReadWrite",)


def _error(code: str) -> dict[str, Any]:
    """Return an error in Graph's form; no code may branch on its text or show it."""
    return {
        "error": {
            "code": code,
            "message": f"PROVIDER TEXT {code}",
            "innerError": {"request-id": "0"},
        }
    }
