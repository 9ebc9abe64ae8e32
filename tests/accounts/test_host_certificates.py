"""The certificates that a connection to a host that a user names accepts."""

import socket
import ssl
import threading
from collections.abc import Callable

import pytest

from accounts.infra import safe_hosts
from accounts.infra.safe_hosts import TlsFailed
from tests.accounts.host_servers import (
    NAME,
    SHORT,
    WAIT,
    Canary,
    Names,
    canary,
    endpoint,
    serving,
    tls_server,
)
from tests.support.loopback import EveryServer
from tests.support.servers.certificates import Authority, authority

__all__ = ["authority", "canary"]


def test_valid_certificate_is_accepted(authority: Authority) -> None:
    asked_for: list[str | None] = []
    server = authority.server_context(NAME)
    server.sni_callback = lambda _sock, name, _context: asked_for.append(name)
    with serving(tls_server(server, banner=b"* OK\r\n")) as (port, heard):
        with safe_hosts.connect(
            endpoint(port=port),
            timeout=WAIT,
            loopback=EveryServer(),
            resolve=Names(["127.0.0.1"]),
            context=authority.client_context(),
        ) as sock:
            assert sock.recv(100) == b"* OK\r\n"
            assert sock.gettimeout() == WAIT
            sock.sendall(b"a1 LOGIN")
        assert heard.result(WAIT) == b"a1 LOGIN"
    assert asked_for == [NAME]


def test_literal_must_match_the_certificate_addresses(authority: Authority) -> None:
    context = authority.client_context()
    with serving(tls_server(authority.server_context("127.0.0.1"))) as (port, _):
        safe_hosts.connect(
            endpoint("127.0.0.1", port=port), timeout=WAIT, loopback=EveryServer(), context=context
        ).close()
    with serving(tls_server(authority.server_context(NAME))) as (port, heard):
        with pytest.raises(TlsFailed):
            safe_hosts.connect(
                endpoint("127.0.0.1", port=port),
                timeout=WAIT,
                loopback=EveryServer(),
                context=context,
            )
        assert heard.result(WAIT) == b""


def wrong_name(authority: Authority) -> Callable[[socket.socket], bytes]:
    return tls_server(authority.server_context("other.example.com"))


def self_signed(authority: Authority) -> Callable[[socket.socket], bytes]:
    return tls_server(authority.server_context(NAME, self_signed=True))


def no_tls(_authority: Authority) -> Callable[[socket.socket], bytes]:
    def talk(sock: socket.socket) -> bytes:
        sock.sendall(b"* OK an old server at 10.0.0.7 is ready\r\n")
        hello = sock.recv(10_000)
        # A record of type 22 is the client's hello; it holds no user data.
        return b"" if hello[:1] == b"\x16" else hello

    return talk


@pytest.mark.parametrize("server", [wrong_name, self_signed, no_tls])
@pytest.mark.parametrize("security", ["tls", "starttls"])
def test_invalid_certificate_gets_no_data(
    server: Callable[[Authority], Callable[[socket.socket], bytes]],
    security: safe_hosts.Security,
    authority: Authority,
) -> None:
    context = authority.client_context()

    def secured(port: int) -> socket.socket:
        sock = safe_hosts.connect(
            endpoint(port=port, security=security),
            timeout=WAIT,
            loopback=EveryServer(),
            resolve=Names(["127.0.0.1"]),
            context=context,
        )
        return (
            safe_hosts.start_tls(sock, host=NAME, context=context)
            if security == "starttls"
            else sock
        )

    with serving(server(authority)) as (port, heard):
        with pytest.raises(TlsFailed) as failure:
            secured(port)
        assert heard.result(WAIT) == b""
    assert str(failure.value) == "No secure connection to the host could be made."
    assert failure.value.__cause__ is None
    assert failure.value.__suppress_context__


def test_connection_upgrades_to_tls_for_the_name(authority: Authority) -> None:
    with serving(tls_server(authority.server_context(NAME), banner=b"220\r\n")) as (port, heard):
        sock = safe_hosts.connect(
            endpoint(port=port, security="starttls"),
            timeout=WAIT,
            loopback=EveryServer(),
            resolve=Names(["127.0.0.1"]),
        )
        with safe_hosts.start_tls(
            sock, host=f"{NAME.upper()}.", context=authority.client_context()
        ) as secure:
            assert secure.recv(100) == b"220\r\n"  # unread records would reset the connection
            secure.sendall(b"EHLO me")
        assert heard.result(WAIT) == b"EHLO me"


def unchecked_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    return context


def test_context_that_checks_nothing_is_a_caller_error(canary: Canary) -> None:
    with socket.create_connection(("127.0.0.1", canary.port), timeout=WAIT) as sock:
        with pytest.raises(ValueError, match="must check"):
            safe_hosts.start_tls(sock, host=NAME, context=unchecked_context())
        sock.settimeout(None)
        with pytest.raises(ValueError, match="timeout"):
            safe_hosts.start_tls(sock, host=NAME)


def test_one_tls_context_trusts_the_ssl_cert_file(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    safe_hosts.tls_context.cache_clear()
    try:
        with serving(tls_server(authority.server_context(NAME))) as (port, _):
            safe_hosts.connect(
                endpoint(port=port),
                timeout=WAIT,
                loopback=EveryServer(),
                resolve=Names(["127.0.0.1"]),
            ).close()
        assert safe_hosts.tls_context() is safe_hosts.tls_context()
        assert safe_hosts.tls_context().minimum_version == ssl.TLSVersion.TLSv1_2
    finally:
        safe_hosts.tls_context.cache_clear()


def test_slow_handshake_cannot_extend_the_timeout(authority: Authority) -> None:
    gone = threading.Event()

    def drip(sock: socket.socket) -> bytes:
        sock.recv(10_000)
        # a record of 16 kB, sent byte by byte, would take minutes
        sock.sendall(b"\x16\x03\x03\x40\x00")
        while not gone.wait(SHORT / 10):
            try:
                sock.sendall(b"\x02")
            except ConnectionError:
                break
        return b""

    with serving(drip) as (port, _):
        try:
            with pytest.raises(TlsFailed):
                safe_hosts.connect(
                    endpoint(port=port),
                    timeout=SHORT,
                    loopback=EveryServer(),
                    resolve=Names(["127.0.0.1"]),
                    context=authority.client_context(),
                )
        finally:
            gone.set()
