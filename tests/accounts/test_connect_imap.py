"""Opening IMAP and SMTP sessions: nothing secret is sent before TLS is up, and each failure has a
name.
"""

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
    LoginRefused,
    Unreachable,
    open_imap,
    open_smtp,
)
from accounts.infra import safe_hosts
from accounts.infra.safe_hosts import Endpoint, Security
from tests.accounts.certificates import Authority
from tests.services import free_port

USER, PASSWORD = "ada@lovelace.example", "canary-password"
SECONDS = 10
GREETING = {"imap": b"* OK ready\r\n", "smtp": b"220 mail.example ESMTP\r\n"}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.create(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def trusted(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> Iterator[Authority]:
    """Make the process trust the authority, as an administrator does with SSL_CERT_FILE."""
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    safe_hosts.tls_context.cache_clear()
    yield authority
    safe_hosts.tls_context.cache_clear()


class Script:
    """One connection of a mail server: its answers and the lines it received, before and inside
    TLS.
    """

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
    """A server for one connection; `heard` is every line that reached it, in clear or inside
    TLS.
    """

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


# STARTTLS


@pytest.mark.fault(48)
def test_imap_signs_in_only_inside_tls(trusted: Authority) -> None:
    with serving(imap(tls=trusted.server_context("127.0.0.1"))) as server:
        signed_in(server.access("starttls")).logout()
    names = [line.split(b" ")[1].strip() for line in server.heard if line]
    assert names.index(b"STARTTLS") < names.index(b"LOGIN")
    assert server.heard_a_secret


@pytest.mark.fault(48)
def test_smtp_signs_in_only_inside_tls(trusted: Authority) -> None:
    with serving(smtp(tls=trusted.server_context("127.0.0.1"))) as server:
        open_smtp(server.access("starttls")).quit()
    verbs = [line.split(b" ")[0].strip().lower() for line in server.heard if line]
    assert verbs == [b"ehlo", b"starttls", b"ehlo", b"auth", b"quit"]


@pytest.mark.fault(48)
@pytest.mark.parametrize(
    ("call", "talk"),
    [
        pytest.param(open_imap, imap(capability=b"IMAP4rev1 AUTH=PLAIN"), id="imap-no-starttls"),
        pytest.param(open_imap, imap(tls=None), id="imap-starttls-refused"),
        pytest.param(open_imap, imap(greeting=b"* PREAUTH welcome back"), id="imap-preauth"),
        pytest.param(open_imap, imap(greeting=b"* BYE overloaded"), id="imap-bye"),
        pytest.param(open_smtp, smtp(features=b"250-mail.example\r\n250 AUTH PLAIN\r\n"), id="smtp-no-starttls"),
        pytest.param(open_smtp, smtp(starttls=b"454 not now\r\n"), id="smtp-starttls-refused"),
        pytest.param(
            open_smtp, smtp(features=b"250-mail.example\r\n250-STARTTLS\r\n250 AUTH PLAIN\r\n", starttls=b"500 no\r\n"),
            id="smtp-starttls-refused-though-auth-is-offered",
        ),
        pytest.param(open_smtp, smtp(features=b"502 no EHLO here\r\n"), id="smtp-no-ehlo"),
    ],
)  # fmt: skip
def test_missing_starttls_gets_no_secret(
    trusted: Authority, call: Callable[[ImapAccess], Any], talk: Callable[[Script], None]
) -> None:
    with serving(talk) as server:
        error = refused(call, server.access("starttls"))
    assert isinstance(error, Unreachable)
    assert server.heard
    assert not server.heard_a_secret


@pytest.mark.fault(48)
@pytest.mark.parametrize("security", ["starttls", "tls"])
@pytest.mark.parametrize(
    "host", [["mail.example"], ["127.0.0.2"], "self-signed"], ids=["name", "address", "unsigned"]
)
@pytest.mark.parametrize(
    ("call", "kind"), [(open_imap, imap), (open_smtp, smtp)], ids=["imap", "smtp"]
)
def test_wrong_certificate_gets_no_secret(
    trusted: Authority, call: Callable[[ImapAccess], Any], kind: Any, host: Any, security: Security
) -> None:
    names = ["127.0.0.1"] if host == "self-signed" else host
    context = trusted.server_context(*names, self_signed=host == "self-signed")
    talk = kind(tls=context)

    def inside_tls(script: Script) -> None:
        script.start_tls(context)
        talk(script)

    with serving(inside_tls if security == "tls" else talk) as server:
        error = refused(call, server.access(security))
    assert isinstance(error, Unreachable)
    assert not server.heard_a_secret


@pytest.mark.fault(48)
def test_imap_answer_injected_before_tls_is_dropped(trusted: Authority) -> None:
    injected = b'* LIST (\\Sent) "/" "Injected"\r\n* CAPABILITY IMAP4rev1 LOGINDISABLED\r\n'
    context = trusted.server_context("127.0.0.1")
    with serving(imap(tls=context, before_tls=injected, after_tls_answer=injected)) as server:
        client = signed_in(server.access("starttls"))
        assert [name for _, _, name in client.list_folders()] == ["True"]
        client.logout()


@pytest.mark.fault(48)
def test_smtp_answers_injected_before_tls_are_dropped(trusted: Authority) -> None:
    context = trusted.server_context("127.0.0.1")
    with serving(
        smtp(tls=context, after_tls_answer=b"250-mail.example\r\n250 SIZE 1\r\n")
    ) as server:
        client = open_smtp(server.access("starttls"))
        assert set(client.esmtp_features) == {"auth"}
        client.quit()


# Signing in


@pytest.mark.parametrize(
    ("call", "talk", "error", "step"),
    [
        pytest.param(open_imap, imap(login=b"NO wrong"), LoginRefused, "imap_login", id="imap-no"),
        pytest.param(
            open_imap, imap(login=b"NO [AUTHENTICATIONFAILED] x"), LoginRefused, "imap_login", id="imap-failed"
        ),
        pytest.param(open_imap, imap(login=b"NO [UNAVAILABLE] x"), Unreachable, "imap_login", id="imap-unavailable"),
        pytest.param(open_imap, imap(login=b"NO [INUSE] locked"), Unreachable, "imap_login", id="imap-inuse"),
        pytest.param(open_imap, imap(login=b"NO [LIMIT] many"), Unreachable, "imap_login", id="imap-limit"),
        pytest.param(open_imap, imap(login=b"NO [SERVERBUG] oops"), Unreachable, "imap_login", id="imap-serverbug"),
        pytest.param(open_imap, imap(login=b""), Unreachable, "imap_login", id="imap-drop"),
        pytest.param(
            open_smtp, smtp(features=b"250 AUTH PLAIN\r\n", auth=b"535 5.7.8 no"), LoginRefused, "smtp_login",
            id="smtp-535",
        ),
        pytest.param(
            open_smtp, smtp(features=b"250 AUTH PLAIN\r\n", auth=b"454 4.7.0 later"), Unreachable, "smtp_login",
            id="smtp-454",
        ),
        pytest.param(
            open_smtp, smtp(features=b"250 AUTH PLAIN\r\n", auth=b"421 4.3.2 bye"), Unreachable, "smtp_login",
            id="smtp-421",
        ),
        pytest.param(
            open_smtp, smtp(features=b"250 AUTH PLAIN\r\n", auth=b"rubbish"), Unreachable, "smtp_login",
            id="smtp-rubbish",
        ),
        pytest.param(
            open_smtp, smtp(features=b"250 AUTH PLAIN\r\n", auth=b""), Unreachable, "smtp_login", id="smtp-drop"
        ),
        pytest.param(
            open_smtp, smtp(features=b"250 AUTH X-UNKNOWN\r\n"), Unreachable, "smtp_login", id="smtp-no-mechanism"
        ),
    ],
)  # fmt: skip
def test_refused_sign_in_differs_from_an_undecided_server(
    call: Callable[[ImapAccess], Any],
    talk: Callable[[Script], None],
    error: type[ConnectError],
    step: str,
) -> None:
    # EHLO's first line is the server's name, not a feature.
    with serving(_with_a_name(talk)) as server:
        raised = refused(call, server.access("plain"))
    assert (type(raised), raised.step) == (error, step)


def _with_a_name(talk: Callable[[Script], None]) -> Callable[[Script], None]:
    def named(script: Script) -> None:
        say = script.say

        def say_with_a_name(text: bytes) -> None:
            say(b"250-mail.example\r\n" + text if text.startswith(b"250 AUTH") else text)

        script.say = say_with_a_name  # type: ignore[method-assign]
        talk(script)

    return named


@pytest.mark.parametrize("call", [open_imap, open_smtp])
def test_password_that_cannot_be_sent_is_refused(call: Callable[[ImapAccess], Any]) -> None:
    talk = imap() if call is open_imap else _with_a_name(smtp(features=b"250 AUTH PLAIN\r\n"))
    with serving(talk) as server:
        access = server.access("plain")
        raised = refused(
            call,
            ImapAccess(
                imap=access.imap, smtp=access.smtp, username=USER, password="canary-password-é"
            ),
        )
    assert isinstance(raised, LoginRefused)


@pytest.mark.parametrize("call", [open_imap, open_smtp])
def test_port_without_a_listener_is_unreachable(call: Callable[[ImapAccess], Any]) -> None:
    endpoint = Endpoint(host="127.0.0.1", port=free_port(), security="plain")
    raised = refused(
        call, ImapAccess(imap=endpoint, smtp=endpoint, username=USER, password=PASSWORD)
    )
    assert isinstance(raised, Unreachable)
    assert str(raised) == "The host does not answer."


@pytest.mark.parametrize("call", [open_imap, open_smtp])
@pytest.mark.parametrize("host", ["10.0.0.1", "169.254.169.254", "::ffff:10.0.0.1"])
def test_blocked_address_is_unreachable_in_the_same_words(
    call: Callable[[ImapAccess], Any], host: str
) -> None:
    endpoint = Endpoint(host=host, port=993, security="tls")
    raised = refused(
        call, ImapAccess(imap=endpoint, smtp=endpoint, username=USER, password=PASSWORD)
    )
    assert isinstance(raised, Unreachable)
    assert str(raised) == "This host cannot be used."


@pytest.mark.parametrize("call", [open_imap, open_smtp])
@pytest.mark.parametrize(
    "greeting", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"554 go away\r\n", b"* NO\r\n"]
)
def test_server_without_mail_is_unreachable(
    call: Callable[[ImapAccess], Any], greeting: bytes
) -> None:
    def talk(script: Script) -> None:
        script.say(greeting)
        script.sock.shutdown(socket.SHUT_WR)

    with serving(talk) as server:
        assert isinstance(refused(call, server.access("plain")), Unreachable)
    assert not server.heard_a_secret


def test_small_writes_do_not_wait_for_acknowledgements() -> None:
    with serving(imap()) as server:
        client = signed_in(server.access("plain"))
        assert client.socket().getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        client.logout()


def test_access_does_not_show_its_password() -> None:
    endpoint = Endpoint(host="127.0.0.1", port=993, security="tls")
    access = ImapAccess(imap=endpoint, smtp=endpoint, username=USER, password=PASSWORD)
    assert PASSWORD not in repr(access)
    assert ImapAccess.from_secrets(access.as_secrets()) == access  # type: ignore[arg-type]
