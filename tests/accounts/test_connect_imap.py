"""Opening IMAP and SMTP sessions: nothing secret leaves before TLS, and each failure has a name."""

import socket
from collections.abc import Callable
from typing import Any

import pytest

from accounts.connect.imap import (
    ConnectError,
    ImapAccess,
    LoginRefused,
    Unreachable,
    open_imap,
    open_smtp,
)
from accounts.infra.safe_hosts import Endpoint, Security
from tests.accounts.scripted_servers import (
    PASSWORD,
    USER,
    Script,
    imap,
    refused,
    serving,
    signed_in,
    smtp,
    trusted,
)
from tests.support.servers.certificates import Authority, authority
from tests.support.servers.services import free_port

__all__ = ["authority", "trusted"]


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
        pytest.param(
            open_imap, imap(login=b"NO [ALERT] Too many simultaneous connections. (Failure)"), Unreachable,
            "imap_login", id="imap-too-many",
        ),
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
        pytest.param(
            open_smtp, smtp(features=b"250 AUTH PLAIN\r\n", auth=b"334 A"), Unreachable, "smtp_login",
            id="smtp-half-of-base64",
        ),
        pytest.param(
            open_imap, imap(capability=b"IMAP4rev1 \xff"), Unreachable, "imap_connect", id="imap-no-ascii"
        ),
        pytest.param(
            open_imap, imap(capability=b"{5}\r\nhello IMAP4rev1"), Unreachable, "imap_login", id="imap-literal"
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
