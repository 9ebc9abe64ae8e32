"""IMAP and SMTP servers with a script, which record whether a secret reaches them without TLS."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from imapclient import IMAPClient

from accounts.connect.imap import (
    ConnectError,
    ImapAccess,
    open_imap,
)
from accounts.infra import safe_hosts
from accounts.infra.safe_hosts import Endpoint, Security
from tests.support.servers.certificates import Authority

USER, PASSWORD = "ada@lovelace.example", "canary-password"
SECONDS = 10
GREETING = {"imap": b"* OK ready\r\n", "smtp": b"220 mail.example ESMTP\r\n"}


@pytest.fixture
def trusted(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> Iterator[Authority]:
    """Make the process trust the authority, as an administrator does with SSL_CERT_FILE."""
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    safe_hosts.tls_context.cache_clear()
    yield authority
    safe_hosts.tls_context.cache_clear()


class Script:
    """One connection of a mail server: its answers and the lines it got, before and in TLS."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.lines = sock.makefile("rb")

    def say(self, text: bytes) -> None:
        self.sock.sendall(text)

    def hear(self) -> bytes:
        return self.lines.readline()

    def start_tls(self, context: ssl.SSLContext) -> None:
        self.lines.close()
        self.sock = context.wrap_socket(self.sock, server_side=True)
        self.lines = self.sock.makefile("rb")


class Server:
    """A server for one connection; `heard` is every line that reached it, in clear or in TLS."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.port = 0

    def access(self, security: Security) -> ImapAccess:
        endpoint = Endpoint(host="127.0.0.1", port=self.port, security=security)
        return ImapAccess(imap=endpoint, smtp=endpoint, username=USER, password=PASSWORD)

    @property
    def heard_a_secret(self) -> bool:
        everything = b"".join(self.heard)
        in_base64 = b"AGFkYUBsb3ZlbGFjZS5leGFtcGxlAGNhbmFyeS1wYXNzd29yZA=="
        return (
            PASSWORD.encode() in everything
            or in_base64 in everything
            or b"AUTH PLAIN" in everything
        )


@contextmanager
def serving(talk: Callable[[Script], None]) -> Iterator[Server]:
    server = Server()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(SECONDS)
        server.port = listener.getsockname()[1]

        def serve() -> None:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            sock.settimeout(SECONDS)
            script = Script(sock)
            plain_hear = script.hear

            def hear() -> bytes:
                line = plain_hear()
                server.heard.append(line)
                return line

            script.hear = hear  # type: ignore[method-assign]
            try:
                talk(script)
                while script.hear():
                    pass
            except (OSError, ValueError):
                pass  # the client disconnected, or TLS failed
            finally:
                script.lines.close()
                script.sock.close()
                sock.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            thread.join(SECONDS)
            assert not thread.is_alive()


def tag(line: bytes) -> bytes:
    return line.split(b" ")[0]


def imap(
    *,
    capability: bytes = b"IMAP4rev1 STARTTLS AUTH=PLAIN",
    tls: ssl.SSLContext | None = None,
    before_tls: bytes = b"",
    after_tls_answer: bytes = b"",
    login: bytes = b"OK welcome",
    greeting: bytes = b"* OK hi",
) -> Callable[[Script], None]:
    """Return an IMAP server. `before_tls` is injected before the answer to STARTTLS,
    `after_tls_answer` behind it.
    """

    def talk(script: Script) -> None:
        script.say(greeting + b"\r\n")
        while line := script.hear():
            command = line.split(b" ")[1].strip().upper()
            match command:
                case b"CAPABILITY":
                    script.say(
                        b"* CAPABILITY " + capability + b"\r\n" + tag(line) + b" OK done\r\n"
                    )
                case b"STARTTLS" if tls:
                    script.say(before_tls + tag(line) + b" OK go ahead\r\n" + after_tls_answer)
                    script.start_tls(tls)
                case b"LOGIN" if login == b"":
                    raise ConnectionError
                case b"LOGIN":
                    script.say(tag(line) + b" " + login + b"\r\n")
                case b"LIST":
                    script.say(b'* LIST () "/" "True"\r\n' + tag(line) + b" OK done\r\n")
                case b"LOGOUT":
                    script.say(b"* BYE\r\n" + tag(line) + b" OK done\r\n")
                case _:
                    script.say(tag(line) + b" BAD what\r\n")

    return talk


def smtp(
    *,
    features: bytes = b"250-mail.example\r\n250 STARTTLS\r\n",
    tls: ssl.SSLContext | None = None,
    inside: bytes = b"250-mail.example\r\n250 AUTH PLAIN\r\n",
    after_tls_answer: bytes = b"",
    auth: bytes = b"235 2.7.0 OK",
    starttls: bytes = b"220 go ahead\r\n",
) -> Callable[[Script], None]:
    """Return an SMTP server that offers AUTH only inside TLS, unless `features` say otherwise."""

    def talk(script: Script) -> None:
        script.say(GREETING["smtp"])
        offered = features
        while line := script.hear():
            match line.split(b" ")[0].strip().upper():
                case b"EHLO":
                    script.say(offered)
                case b"STARTTLS":
                    script.say(starttls + after_tls_answer)
                    if tls and starttls.startswith(b"220"):
                        script.start_tls(tls)
                        offered = inside
                case b"AUTH" if auth == b"":
                    raise ConnectionError
                case b"AUTH":
                    script.say(auth + b"\r\n")
                case b"QUIT":
                    script.say(b"221 bye\r\n")
                case _:
                    script.say(b"500 what\r\n")

    return talk


def refused(call: Callable[[ImapAccess], Any], access: ImapAccess) -> ConnectError:
    with pytest.raises(ConnectError) as caught:
        call(access)
    error = caught.value
    assert PASSWORD not in f"{error!r} {error} {error.sentence} {error.__cause__!r}"
    return error


def signed_in(access: ImapAccess) -> IMAPClient:
    client = open_imap(access)
    assert client.welcome == b"* OK hi"
    return client
