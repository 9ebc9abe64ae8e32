"""A Gmail API and a Google token endpoint on loopback that fail on demand, with a ledger of what
was really sent.

Messages, drafts, labels, threads, search, batches and uploads, as far as a mail program needs them.
Tests read the ledger, the list of calls and the mailboxes; they do not use our database.
"""

import base64
import hashlib
import json
import re
import secrets
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

from tests.support.servers.gmail_data import Call, Dropped, Fault, NoToken, Refusal
from tests.support.servers.gmail_mailboxes import Mailboxes
from tests.support.servers.gmail_messages import mask_fields

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
        (r"POST /gmail/v1/users/me/messages/(?P<id>[^/]+)/(?P<verb>\w+)", "messages.{verb}"),
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


class GmailServer(Mailboxes):
    """The server, its mailboxes and its planned faults. Use as a context manager."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []
        self.faults: list[Fault] = []
        self.before: dict[str, Callable[[Call], None]] = {}
        self.cuts_unread: Callable[[str], bool] = lambda path: False
        self.chooser: Callable[[Call], Fault | None] = lambda call: None
        self.grant_ended = False
        self.ended: set[str] = set()  # the addresses whose grants have ended
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

    def end_sign_in(self, address: str) -> None:
        """End each grant of an account, with its access tokens, until it is removed from `ended`."""
        self.ended.add(address.lower())
        self._tokens = {
            token: owner for token, owner in self._tokens.items() if owner != address.lower()
        }

    def forget_tokens(self) -> None:
        self._tokens.clear()

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
        name = name.format(**match.groupdict())
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
        masked = mask_fields(answer, call.one("fields")) if call.one("fields") else answer
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
            raise NoToken(401 if "client" in self.token_error else 400, self.token_error)
        client_id = form.get("client_id", "")
        if client_id not in self.clients or form.get("client_secret") != self.clients[client_id]:
            raise NoToken(401, "invalid_client")  # desktop clients have a secret, too
        if form["grant_type"] == "authorization_code":
            code = self.codes.pop(form.get("code", ""), {})
            challenge = base64.urlsafe_b64encode(
                hashlib.sha256(form.get("code_verifier", "").encode()).digest()
            )
            if (client_id, challenge.decode().rstrip("=")) != (
                code.get("client_id"),
                code.get("code_challenge"),
            ):
                raise NoToken(400, "invalid_grant")
            if form.get("redirect_uri") != code["redirect_uri"]:
                raise NoToken(400, "redirect_uri_mismatch")
            address = code["address"]
            given["refresh_token"] = self.signed_in(address)
        else:
            address = self._refresh_tokens.get(form.get("refresh_token", ""), "")
            if not address or self.grant_ended or address in self.ended:
                raise NoToken(400, "invalid_grant")
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


def _go_wrong(fault: Fault) -> None:
    fault.pause()
    if fault.status == 200:
        return
    if not fault.status:
        raise Dropped
    raise Refusal(fault.status, fault.reason, fault.headers)


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
