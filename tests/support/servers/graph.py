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
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from accounts.infra import credentials
from accounts.models import Mailbox
from tests.support.processes.programs import until
from tests.support.servers.graph_calls import Call, needed_scopes
from tests.support.servers.graph_data import (
    ALL,
    ON_DRAFTS,
    REQUEST_LIMIT,
    SECONDS,
    SENDING,
    Accepted,
    Cut,
    Fault,
    Held,
    Hit,
    Phase,
    Refusal,
    error_body,
)
from tests.support.servers.graph_store import BadRequest, Item, Store


class GraphServer:
    """The server and the interface of its tests. Safe from several threads."""

    def __init__(self) -> None:
        self.store = Store()
        self.deliver = self.store.deliver
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
        self.shows_html = False
        self.mime_bcc: int | None = None
        self.on_read: Callable[[Item], object] = lambda item: None
        self.delay = 0.0
        self.meet = 0  # calls that a mailbox gets at once before it answers the first
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

    def __exit__(self, *_: object) -> None:
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
            until(lambda: self.most_at_once[address] >= self.meet)
            if self.delay:
                time.sleep(self.delay)
            yield
        finally:
            with self._lock:
                self._busy[address] -= 1

    def accept(self, address: str, item: Item, endpoint: str, *, save: bool) -> None:
        """Send it: write it into the ledger, the inboxes of this server, and Sent."""
        with self._lock:
            marker = next(iter(item.extended.values()), item.shown["internetMessageId"])
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
                marker=marker,
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
        except Cut:
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
            raise Cut
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = self._read_body(raw)
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
            raise Cut
        if fault and fault.phase == "answer":
            return fault.status, error_body(fault.code), fault.headers
        status, answer = self._done(url.path, query, body, raw, action)
        if fault and fault.phase == "late":
            fault.ended()
        if fault and fault.phase in ("drop_after_effect", "answer_after_effect", "late_done"):
            fault.pause()
        if fault and fault.phase == "drop_after_effect":
            raise Cut
        if fault and fault.phase == "answer_after_effect":
            return (
                fault.status,
                None if fault.status < 300 else error_body(fault.code),
                fault.headers,
            )
        return status, answer, ()

    def _read_body(self, raw: bytes) -> Any:
        """Return the JSON, or the bytes of a mail, which are base64 in a text."""
        if not raw or self.command == "PUT":
            return None
        is_mime = self.headers.get("Content-Type", "").startswith("text/plain")
        return base64.b64decode(raw, validate=True) if is_mime else json.loads(raw)

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
            return 413, error_body("RequestBodyTooLarge")
        if path.startswith("/upload/"):
            return self._upload(path, raw)
        address, scopes = graph.tokens.get(
            self.headers.get("Authorization", "").removeprefix("Bearer "), ("", ())
        )
        if not address:
            return 401, error_body("InvalidAuthenticationToken")
        rest = unquote(re.sub(r"^/v1\.0", "", path))
        rest = re.sub(r"\('([^']*)'\)", r"/\1", rest)  # OData's other spelling of a key
        if rest.startswith("/users/"):
            named, _, rest = rest.removeprefix("/users/").partition("/")
            address, rest = named.lower(), f"/{rest}"
        elif rest.startswith("/me"):
            rest = rest.removeprefix("/me") or "/"
        needed = needed_scopes(self.command, action, rest)
        if not set(needed) & set(scopes):
            return 403, error_body("ErrorAccessDenied")
        with graph.counted(address):
            try:
                with graph.store.lock:
                    call = Call(
                        graph, address, query, body, self.path, self.headers.get("Prefer", "")
                    )
                    return call.done(self.command, rest.strip("/").split("/"))
            except Refusal as refusal:
                return refusal.status, error_body(refusal.code)
            except BadRequest as error:
                return 400, error_body(error.code)

    def _upload(self, path: str, raw: bytes) -> tuple[int, Any]:
        graph = self.server.graph
        item, given, content = graph._uploads[path]
        if self.headers.get("Authorization"):
            # a request with a token is refused there
            return 401, error_body("InvalidAuthenticationToken")
        if self.headers.get("Content-Type") != "application/octet-stream":
            return 415, error_body("UnsupportedMediaType")
        first, last, total = map(int, re.findall(r"[0-9]+", self.headers["Content-Range"]))
        if first != len(content) or last - first + 1 != len(raw):
            return 416, error_body("ErrorInvalidRange")
        content += raw
        if len(content) < total:
            return 202, {"nextExpectedRanges": [f"{len(content)}-"]}
        with graph.store.lock:
            graph.store.attach(
                item, {**given, "contentBytes": base64.b64encode(bytes(content)).decode()}
            )
        return 201, None


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
