"""Hosts that users name: the refused ones, the address of a connection, the certificates that TLS
accepts.
"""

import pickle
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from ipaddress import IPv4Address, IPv4Network, IPv6Address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accounts.infra import safe_hosts
from accounts.infra.safe_hosts import ConnectFailed, Endpoint, HostError, HostRefused, TlsFailed
from tests.accounts.certificates import Authority

WAIT = 10.0  # seconds; no passing test waits for it
SHORT = 0.3  # seconds; for the tests of the limit itself
NAME = "mail.example.com"
LONGEST_NAME = f"{'a' * 61}." * 4 + "abcde"  # 253 characters
REFUSAL = "This host cannot be used."


class Names:
    """A resolver that gives one prepared answer after another and records the questions."""

    def __init__(self, *answers: Sequence[str] | Exception) -> None:
        self.answers = list(answers)
        self.questions: list[tuple[str, int]] = []

    def __call__(self, host: str, port: int) -> Sequence[str]:
        self.questions.append((host, port))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Canary:
    """A listening socket on loopback that counts connections."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.port: int = sock.getsockname()[1]

    def connections(self) -> int:
        """Return the number of connections since the last call. On loopback a connect that returned
        is in the queue.
        """
        self.sock.settimeout(0)
        count = 0
        while True:
            try:
                self.sock.accept()[0].close()
            except BlockingIOError:
                return count
            count += 1


@pytest.fixture
def canary() -> Iterator[Canary]:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        yield Canary(sock)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.create(tmp_path_factory.mktemp("certificates"))


@contextmanager
def serving(talk: Callable[[socket.socket], bytes]) -> Iterator[tuple[int, Future[bytes]]]:
    """Serve one connection on loopback. Yield the port and a future of the bytes that `talk`
    returns.
    """
    heard: Future[bytes] = Future()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(WAIT)

        def serve() -> None:
            try:
                sock, _ = listener.accept()
                with sock:
                    sock.settimeout(WAIT)
                    heard.set_result(talk(sock))
            except Exception as error:
                heard.set_exception(error)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1], heard
        finally:
            thread.join(WAIT)
            assert not thread.is_alive()


def tls_server(context: ssl.SSLContext, *, banner: bytes = b"") -> Callable[[socket.socket], bytes]:
    """Return a server that does the TLS handshake, sends its banner, and returns the application
    bytes received.
    """

    def talk(sock: socket.socket) -> bytes:
        try:
            with context.wrap_socket(sock, server_side=True) as secure:
                secure.sendall(banner)
                return b"".join(iter(lambda: secure.recv(1000), b""))
        except (ssl.SSLError, ConnectionError):
            return b""  # the client broke off inside the handshake

    return talk


def endpoint(
    host: str = NAME, *, port: int = 993, security: safe_hosts.Security = "tls"
) -> Endpoint:
    return Endpoint(host=host, port=port, security=security)


CLOSED = [
    pytest.param("0.0.0.0", id="unspecified"),
    pytest.param("0.1.2.3", id="this network"),
    pytest.param("10.0.0.1", id="private 10"),
    pytest.param("172.16.0.1", id="private 172.16"),
    pytest.param("172.31.255.254", id="end of private 172.16"),
    pytest.param("192.168.1.1", id="private 192.168"),
    pytest.param("169.254.1.1", id="link-local"),
    pytest.param("169.254.169.254", id="metadata of most clouds"),
    pytest.param("100.100.100.200", id="metadata of Alibaba"),
    pytest.param("192.0.0.192", id="metadata of Oracle"),
    pytest.param("168.63.129.16", id="metadata of Azure"),
    pytest.param("100.64.0.1", id="carrier-grade NAT"),
    pytest.param("192.0.2.1", id="documentation"),
    pytest.param("192.88.99.1", id="6to4 relay"),
    pytest.param("198.18.0.1", id="benchmarks"),
    pytest.param("198.51.100.1", id="documentation 2"),
    pytest.param("203.0.113.1", id="documentation 3"),
    pytest.param("224.0.0.1", id="multicast"),
    pytest.param("240.0.0.1", id="reserved"),
    pytest.param("255.255.255.255", id="broadcast"),
    pytest.param("::", id="unspecified in IPv6"),
    pytest.param("fe80::1", id="link-local in IPv6"),
    pytest.param("fe80::1%lo", id="link-local with a zone"),
    pytest.param("fec0::1", id="site-local"),
    pytest.param("fc00::1", id="unique local"),
    pytest.param("fd00:ec2::254", id="metadata of AWS in IPv6"),
    pytest.param("fd20:ce::254", id="metadata of Google in IPv6"),
    pytest.param("ff02::1", id="multicast in IPv6"),
    pytest.param("100::1", id="discard"),
    pytest.param("2001:2::1", id="benchmarks in IPv6"),
    pytest.param("2001:db8::1", id="documentation in IPv6"),
    pytest.param("3fff::1", id="documentation 2 in IPv6"),
    pytest.param("5f00::1", id="segment routing"),
    pytest.param("::ffff:10.0.0.1", id="mapped private"),
    pytest.param("::ffff:127.0.0.1", id="mapped loopback"),
    pytest.param("::ffff:169.254.169.254", id="mapped metadata"),
    pytest.param("::127.0.0.1", id="IPv4-compatible loopback"),
    pytest.param("::ffff:0:127.0.0.1", id="translated loopback"),
    pytest.param("64:ff9b::10.0.0.1", id="NAT64 of private"),
    pytest.param("64:ff9b::127.0.0.1", id="NAT64 of loopback"),
    pytest.param("64:ff9b:1::1", id="local NAT64"),
    pytest.param("2002:7f00:1::1", id="6to4 of loopback"),
    pytest.param("2002:a00:1::1", id="6to4 of private"),
    pytest.param("2001:0:a00:1:0:0:f7f7:f7f7", id="Teredo through a private server"),
    pytest.param("2001:0:808:808:0:0:80ff:fffe", id="Teredo of loopback"),
    pytest.param("2620:fe::fe%lo", id="public with a zone"),
    pytest.param("not an address", id="no address at all"),
]

ODD_HOSTS = [
    pytest.param("", id="empty"),
    pytest.param(".", id="only a dot"),
    pytest.param("2130706433", id="decimal"),
    pytest.param("0x7f000001", id="hexadecimal"),
    pytest.param("0x7F.1", id="hexadecimal in capitals"),
    pytest.param("0177.0.0.1", id="octal"),
    pytest.param("127.1", id="two numbers"),
    pytest.param("127.0.0.1.", id="address with a dot at the end"),
    pytest.param("127.0.0.256", id="number too large"),
    pytest.param("example.0x", id="ends in an empty hexadecimal number"),
    pytest.param("\uff11\uff12\uff17.1", id="full-width digits"),
    pytest.param("127\u30020\u30020\u30021", id="ideographic dots"),
    pytest.param("[::1]", id="brackets"),
    pytest.param("::1%lo", id="zone id"),
    pytest.param("fe80::1%25lo", id="escaped zone id"),
    pytest.param("a..example.com", id="empty label"),
    pytest.param(".example.com", id="dot in front"),
    pytest.param("example.com..", id="two dots at the end"),
    pytest.param("-a.example.com", id="hyphen in front"),
    pytest.param("a_b.example.com", id="underscore"),
    pytest.param("mail example.com", id="space"),
    pytest.param("mail.example.com ", id="space at the end"),
    pytest.param("mail.example.com\n", id="new line at the end"),
    pytest.param("mail\x00.example.com", id="NUL"),
    pytest.param("mail\r\nA001 NOOP", id="command"),
    pytest.param("me@example.com", id="user name"),
    pytest.param("https://example.com/", id="URL"),
    pytest.param("example.com:993", id="port"),
    pytest.param(f"{'a' * 64}.example.com", id="label too long"),
    pytest.param(".".join(["a" * 49] * 6), id="name too long"),
    pytest.param(f"{LONGEST_NAME}a", id="one character too long"),
    pytest.param("\u00fc" * 10_000, id="far too long and not ASCII"),
    pytest.param("\u00fc" * 100 + ".example.com", id="label too long as an A-label"),
    pytest.param("\u2060\u00ad", id="nothing visible"),
]


@pytest.mark.fault(47)
@pytest.mark.parametrize("address", CLOSED)
def test_one_blocked_address_refuses_the_host(address: str, canary: Canary) -> None:
    # The canary's address is allowed, so a resolver that only skipped the other address would reach
    # it.
    for answer in ([address], [address, "127.0.0.1"], ["127.0.0.1", address]):
        with pytest.raises(HostRefused, match=f"^{REFUSAL}$"):
            safe_hosts.connect(
                endpoint(port=canary.port), timeout=WAIT, allow_loopback=True, resolve=Names(answer)
            )
    assert canary.connections() == 0


@pytest.mark.parametrize("address", CLOSED)
def test_blocked_address_is_refused_on_a_mail_port_too(address: str) -> None:
    with pytest.raises(HostRefused):
        safe_hosts.connect(endpoint(), timeout=WAIT, allow_loopback=True, resolve=Names([address]))
    with pytest.raises(HostRefused):
        safe_hosts.connect(
            endpoint(address), timeout=WAIT, allow_loopback=True, resolve=Names([address])
        )


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.9.10", "::1"])
@pytest.mark.parametrize("literal", [True, False])
def test_loopback_is_refused_unless_allowed(address: str, literal: bool, canary: Canary) -> None:
    host = endpoint(address if literal else "localhost", port=canary.port)
    with pytest.raises(HostRefused, match=f"^{REFUSAL}$"):
        safe_hosts.connect(
            host, timeout=WAIT, allow_loopback=False, resolve=Names([address]), ports={canary.port}
        )
    assert canary.connections() == 0
    judged = safe_hosts.judged_addresses(
        host, timeout=WAIT, allow_loopback=True, resolve=Names([address])
    )
    assert [str(each) for each in judged] == [address]


@pytest.mark.parametrize("host", ODD_HOSTS)
def test_invalid_host_name_is_refused_before_any_lookup(host: str, canary: Canary) -> None:
    names = Names(["127.0.0.1"])
    with pytest.raises(HostRefused, match=f"^{REFUSAL}$"):
        safe_hosts.connect(
            endpoint(host, port=canary.port), timeout=WAIT, allow_loopback=True, resolve=names
        )
    assert names.questions == []
    assert canary.connections() == 0


@pytest.mark.parametrize(
    ("host", "asked"),
    [
        pytest.param("Mail.Example.COM", "mail.example.com", id="capitals"),
        pytest.param("mail.example.com.", "mail.example.com", id="dot at the end"),
        pytest.param("b\u00fccher.example", "xn--bcher-kva.example", id="international name"),
        pytest.param(
            "B\u00dcCHER\u3002example", "xn--bcher-kva.example", id="international name in capitals"
        ),
        pytest.param("xn--bcher-kva.example", "xn--bcher-kva.example", id="A-label"),
        pytest.param("r3---sn-4g5e.example.com", "r3---sn-4g5e.example.com", id="hyphens inside"),
        pytest.param("localhost", "localhost", id="one label"),
        pytest.param(f"{LONGEST_NAME}.", LONGEST_NAME, id="longest name"),
        pytest.param("4711.example.com", "4711.example.com", id="number in front"),
    ],
)
def test_name_is_looked_up_in_canonical_form(host: str, asked: str) -> None:
    names = Names(["9.9.9.9"])
    safe_hosts.judged_addresses(endpoint(host), timeout=WAIT, allow_loopback=False, resolve=names)
    assert names.questions == [(asked, 993)]


@pytest.mark.parametrize(
    "address",
    [
        pytest.param("9.9.9.9", id="IPv4"),
        pytest.param("172.32.0.1", id="just after the private range"),
        pytest.param("100.128.0.1", id="just after carrier-grade NAT"),
        pytest.param("2620:fe::fe", id="IPv6"),
        pytest.param("::ffff:9.9.9.9", id="mapped"),
        pytest.param("64:ff9b::909:909", id="NAT64"),
        pytest.param("2002:909:909::1", id="6to4"),
        pytest.param("2001:0:808:808::f7f7:f7f7", id="Teredo"),
    ],
)
def test_public_addresses_can_be_used(address: str) -> None:
    names = Names([address])
    judged = safe_hosts.judged_addresses(
        endpoint(), timeout=WAIT, allow_loopback=False, resolve=names
    )
    assert judged == safe_hosts.judged_addresses(
        endpoint(address), timeout=WAIT, allow_loopback=False, resolve=names
    )
    assert names.questions == [(NAME, 993)]


@st.composite
def closed_ipv4(draw: st.DrawFn) -> IPv4Address:
    """Draw an address from the networks that matter most."""
    network = IPv4Network(
        draw(
            st.sampled_from(
                [
                    "0.0.0.0/8",
                    "10.0.0.0/8",
                    "100.64.0.0/10",
                    "127.0.0.0/8",
                    "169.254.0.0/16",
                    "172.16.0.0/12",
                    "192.168.0.0/16",
                    "224.0.0.0/3",
                ]
            )
        )
    )
    return network[draw(st.integers(min_value=0, max_value=network.num_addresses - 1))]


@settings(deadline=None)
@given(address=closed_ipv4())
def test_blocked_address_in_ipv6_stays_blocked(address: IPv4Address) -> None:
    number = int(address)
    forms = [
        IPv6Address(0xFFFF << 32 | number),
        IPv6Address(0x64FF9B << 96 | number),
        IPv6Address(0x2002 << 112 | number << 80 | 1),
        IPv6Address(0x20010000 << 96 | 0x08080808 << 64 | number ^ 0xFFFFFFFF),
    ]
    for form in forms:
        with pytest.raises(HostRefused):
            safe_hosts.judged_addresses(
                endpoint(str(form)), timeout=WAIT, allow_loopback=True, resolve=Names()
            )
    with pytest.raises(HostRefused):
        safe_hosts.judged_addresses(
            endpoint(str(address)), timeout=WAIT, allow_loopback=False, resolve=Names()
        )


@settings(deadline=None)
@given(host=st.text(max_size=300))
def test_any_host_text_is_looked_up_as_a_name_or_refused(host: str) -> None:
    names = Names(["10.0.0.1"])
    with pytest.raises(HostRefused):
        safe_hosts.judged_addresses(
            endpoint(host), timeout=WAIT, allow_loopback=True, resolve=names
        )
    for name, _ in names.questions:
        assert name.isascii()
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789.-")


@pytest.mark.fault(47)
@pytest.mark.parametrize(
    "names",
    [
        pytest.param(
            Names(socket.gaierror(socket.EAI_NONAME, "Name or service not known")), id="unknown"
        ),
        pytest.param(
            Names(socket.gaierror(socket.EAI_AGAIN, "Temporary failure")), id="name server down"
        ),
        pytest.param(Names([]), id="no address"),
        pytest.param(Names(["10.0.0.1"]), id="private"),
    ],
)
def test_refusal_does_not_say_why(names: Names) -> None:
    with pytest.raises(HostRefused) as refusal:
        safe_hosts.connect(endpoint(), timeout=WAIT, allow_loopback=False, resolve=names)
    assert str(refusal.value) == REFUSAL
    assert refusal.value.args == ()
    assert refusal.value.__cause__ is None
    assert refusal.value.__suppress_context__ or refusal.value.__context__ is None


@pytest.mark.parametrize("kind", [HostRefused, ConnectFailed, TlsFailed])
def test_error_survives_a_queue_with_its_class_and_text(kind: type[HostError]) -> None:
    copy = pickle.loads(pickle.dumps(kind()))
    assert type(copy) is kind
    assert str(copy) == kind.text


@pytest.mark.fault(47)
def test_filter_runs_once_at_each_connection(canary: Canary) -> None:
    names = Names(["127.0.0.1"], ["169.254.169.254"])
    host = endpoint(port=canary.port, security="starttls")
    with safe_hosts.connect(host, timeout=WAIT, allow_loopback=True, resolve=names) as sock:
        assert sock.getpeername() == ("127.0.0.1", canary.port)
    assert names.questions == [(NAME, canary.port)]
    assert canary.connections() == 1

    with pytest.raises(HostRefused):
        safe_hosts.connect(host, timeout=WAIT, allow_loopback=True, resolve=names)
    assert names.questions == [(NAME, canary.port)] * 2
    assert canary.connections() == 0


def test_literal_address_is_connected_without_a_lookup(canary: Canary) -> None:
    names = Names()
    host = endpoint("127.0.0.1", port=canary.port, security="starttls")
    safe_hosts.connect(host, timeout=WAIT, allow_loopback=True, resolve=names).close()
    assert names.questions == []
    assert canary.connections() == 1


def test_system_resolver_finds_loopback(canary: Canary) -> None:
    host = endpoint("localhost", port=canary.port, security="starttls")
    safe_hosts.connect(host, timeout=WAIT, allow_loopback=True).close()
    assert canary.connections() == 1


def test_next_address_is_tried_if_one_does_not_answer(canary: Canary) -> None:
    host = endpoint(port=canary.port, security="starttls")
    names = Names(["127.0.0.2", "127.0.0.1"])  # the canary listens only on the second
    with safe_hosts.connect(host, timeout=WAIT, allow_loopback=True, resolve=names) as sock:
        assert sock.gettimeout() == WAIT
    assert canary.connections() == 1


def test_no_answering_address_is_a_plain_connect_failure(canary: Canary) -> None:
    host = endpoint(port=canary.port, security="starttls")
    with pytest.raises(ConnectFailed) as failure:
        safe_hosts.connect(
            host, timeout=WAIT, allow_loopback=True, resolve=Names(["127.0.0.2", "127.0.0.3"])
        )
    assert str(failure.value) == "The host does not answer."
    assert failure.value.__context__ is None


@pytest.mark.parametrize(
    ("port", "allowed"),
    [
        pytest.param(143, True, id="IMAP"),
        pytest.param(993, True, id="IMAPS"),
        pytest.param(25, True, id="SMTP"),
        pytest.param(465, True, id="SMTPS"),
        pytest.param(587, True, id="submission"),
        pytest.param(2525, True, id="submission of the senders"),
        pytest.param(22, False, id="SSH"),
        pytest.param(80, False, id="HTTP"),
        pytest.param(443, False, id="HTTPS"),
        pytest.param(6379, False, id="Redis"),
    ],
)
@pytest.mark.parametrize("allow_loopback", [True, False])
def test_public_host_is_used_only_on_mail_ports(
    port: int, allowed: bool, allow_loopback: bool
) -> None:
    def judge() -> object:
        return safe_hosts.judged_addresses(
            endpoint(port=port),
            timeout=WAIT,
            allow_loopback=allow_loopback,
            resolve=Names(["9.9.9.9"]),
        )

    if allowed:
        assert judge()
    else:
        with pytest.raises(HostRefused, match=f"^{REFUSAL}$"):
            judge()


def test_caller_can_name_other_ports() -> None:
    assert safe_hosts.judged_addresses(
        endpoint(port=443),
        timeout=WAIT,
        allow_loopback=False,
        resolve=Names(["9.9.9.9"]),
        ports={443},
    )


def test_unencrypted_host_must_be_allowed_loopback(canary: Canary) -> None:
    host = endpoint(port=canary.port, security="plain")
    safe_hosts.connect(
        host, timeout=WAIT, allow_loopback=True, resolve=Names(["127.0.0.1"])
    ).close()
    assert canary.connections() == 1
    with pytest.raises(HostRefused):
        safe_hosts.connect(host, timeout=WAIT, allow_loopback=False, resolve=Names(["127.0.0.1"]))
    assert canary.connections() == 0
    for answer in (["9.9.9.9"], ["127.0.0.1", "9.9.9.9"]):
        with pytest.raises(HostRefused):
            safe_hosts.connect(
                endpoint(port=143, security="plain"),
                timeout=WAIT,
                allow_loopback=True,
                resolve=Names(answer),
            )


def test_valid_certificate_is_accepted(authority: Authority) -> None:
    asked_for: list[str | None] = []
    server = authority.server_context(NAME)
    server.sni_callback = lambda _sock, name, _context: asked_for.append(name)
    with serving(tls_server(server, banner=b"* OK\r\n")) as (port, heard):
        with safe_hosts.connect(
            endpoint(port=port),
            timeout=WAIT,
            allow_loopback=True,
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
            endpoint("127.0.0.1", port=port), timeout=WAIT, allow_loopback=True, context=context
        ).close()
    with serving(tls_server(authority.server_context(NAME))) as (port, heard):
        with pytest.raises(TlsFailed):
            safe_hosts.connect(
                endpoint("127.0.0.1", port=port), timeout=WAIT, allow_loopback=True, context=context
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
            allow_loopback=True,
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
    with serving(tls_server(authority.server_context(NAME))) as (port, heard):
        sock = safe_hosts.connect(
            endpoint(port=port, security="starttls"),
            timeout=WAIT,
            allow_loopback=True,
            resolve=Names(["127.0.0.1"]),
        )
        with safe_hosts.start_tls(
            sock, host=f"{NAME.upper()}.", context=authority.client_context()
        ) as secure:
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
                endpoint(port=port), timeout=WAIT, allow_loopback=True, resolve=Names(["127.0.0.1"])
            ).close()
        assert safe_hosts.tls_context() is safe_hosts.tls_context()
        assert safe_hosts.tls_context().minimum_version == ssl.TLSVersion.TLSv1_2
    finally:
        safe_hosts.tls_context.cache_clear()


def test_silent_name_server_ends_in_a_neutral_refusal() -> None:
    answered = threading.Event()

    def resolve(_host: str, _port: int) -> list[str]:
        answered.wait(WAIT)
        return ["127.0.0.1"]

    try:
        with pytest.raises(HostRefused, match=f"^{REFUSAL}$"):
            safe_hosts.connect(endpoint(), timeout=SHORT, allow_loopback=True, resolve=resolve)
    finally:
        answered.set()


@pytest.fixture
def silent(canary: Canary) -> Iterator[str]:
    """Yield an address that answers no connect on the canary's port: Linux drops them while the
    queue is full.
    """
    with ExitStack() as stack:
        address = "127.0.0.2"
        stack.enter_context(socket.create_server((address, canary.port), backlog=0))
        for _ in range(3):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex((address, canary.port))
        yield address


def test_silent_address_leaves_time_for_the_next(silent: str, canary: Canary) -> None:
    host = endpoint(port=canary.port, security="starttls")
    names = Names([silent, "127.0.0.1"])
    safe_hosts.connect(host, timeout=SHORT, allow_loopback=True, resolve=names).close()
    assert canary.connections() == 1


def test_silent_host_is_a_connect_failure_at_the_timeout(silent: str, canary: Canary) -> None:
    host = endpoint(silent, port=canary.port, security="starttls")
    with pytest.raises(ConnectFailed):
        safe_hosts.connect(host, timeout=SHORT, allow_loopback=True)


def test_nothing_is_connected_without_time_left(canary: Canary) -> None:
    with pytest.raises(ConnectFailed):
        safe_hosts.connect(endpoint("127.0.0.1", port=canary.port), timeout=0, allow_loopback=True)
    assert canary.connections() == 0


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
                    allow_loopback=True,
                    resolve=Names(["127.0.0.1"]),
                    context=authority.client_context(),
                )
        finally:
            gone.set()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("imap.example.com:993", ("imap.example.com", 993, "tls"), id="IMAPS"),
        pytest.param("smtp.example.com:465", ("smtp.example.com", 465, "tls"), id="SMTPS"),
        pytest.param("imap.example.com:143", ("imap.example.com", 143, "starttls"), id="IMAP"),
        pytest.param(
            "smtp.example.com:587", ("smtp.example.com", 587, "starttls"), id="submission"
        ),
        pytest.param(
            "mail.example.com:8993:tls", ("mail.example.com", 8993, "tls"), id="named TLS"
        ),
        pytest.param(
            "mail.example.com:993:starttls",
            ("mail.example.com", 993, "starttls"),
            id="named STARTTLS",
        ),
        pytest.param("localhost:1143:plain", ("localhost", 1143, "plain"), id="named plain"),
        pytest.param("127.0.0.1:1143:plain", ("127.0.0.1", 1143, "plain"), id="IPv4"),
        pytest.param("[::1]:993", ("::1", 993, "tls"), id="IPv6"),
        pytest.param(
            "[2620:FE:0::fe]:143:tls", ("2620:fe::fe", 143, "tls"), id="IPv6 with security"
        ),
        pytest.param(
            "B\u00fccher.example.:993", ("xn--bcher-kva.example", 993, "tls"), id="international"
        ),
    ],
)
def test_endpoint_is_parsed_from_text(
    text: str, expected: tuple[str, int, safe_hosts.Security]
) -> None:
    host, port, security = expected
    assert Endpoint.parse(text) == Endpoint(host=host, port=port, security=security)


@pytest.mark.parametrize(
    ("text", "security"),
    [("localhost:1143", "plain"), ("localhost:993", "plain"), ("localhost:993:tls", "tls")],
)
def test_default_security_applies_if_the_text_names_none(text: str, security: str) -> None:
    assert Endpoint.parse(text, default_security="plain").security == security


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("imap.example.com", id="no port"),
        pytest.param("imap.example.com:", id="empty port"),
        pytest.param(":993", id="no host"),
        pytest.param("imap.example.com:0", id="port 0"),
        pytest.param("imap.example.com:65536", id="port too large"),
        pytest.param("imap.example.com:-1", id="negative port"),
        pytest.param("imap.example.com:imaps", id="port by name"),
        pytest.param("imap.example.com:\u0669\u0669\u0663", id="digits that are not ASCII"),
        pytest.param("imap.example.com:993:ssl", id="unknown security"),
        pytest.param("imap.example.com:993:", id="empty security"),
        pytest.param("imap.example.com:993:TLS", id="security in capitals"),
        pytest.param("imap.example.com:993:tls:x", id="too much"),
        pytest.param("imap.example.com:993\n", id="new line"),
        pytest.param("::1:993", id="IPv6 without brackets"),
        pytest.param("[::1]", id="IPv6 without port"),
        pytest.param("[::1%lo]:993", id="zone id"),
        pytest.param("[]:993", id="empty brackets"),
        pytest.param("[127.0.0.1]:993", id="IPv4 in brackets"),
        pytest.param("[localhost]:993", id="name in brackets"),
        pytest.param("127.1:993", id="odd address"),
        pytest.param("\u2060:993", id="nothing visible"),
        pytest.param("\u00fc" * 100 + ".example:993", id="label too long as an A-label"),
        pytest.param("imaps://imap.example.com:993", id="URL"),
    ],
)
def test_invalid_endpoint_is_refused_in_words(text: str) -> None:
    with pytest.raises(ValueError) as error:
        Endpoint.parse(text)
    assert type(error.value) is ValueError
    assert str(error.value).endswith(".")


def test_unknown_security_cannot_make_a_plain_endpoint() -> None:
    with pytest.raises(ValueError, match="security"):
        Endpoint(host=NAME, port=993, security="TLS")  # type: ignore[arg-type]
