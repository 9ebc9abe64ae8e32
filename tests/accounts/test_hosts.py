"""Hosts that users name: the names and addresses that are refused."""

import pickle
import socket
from ipaddress import IPv4Address, IPv4Network, IPv6Address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accounts.infra import safe_hosts
from accounts.infra.safe_hosts import ConnectFailed, HostError, HostRefused, TlsFailed
from tests.accounts.host_servers import NAME, REFUSAL, WAIT, Canary, Names, canary, endpoint
from tests.support.loopback import EveryServer

__all__ = ["canary"]


LONGEST_NAME = f"{'a' * 61}." * 4 + "abcde"  # 253 characters
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
                endpoint(port=canary.port),
                timeout=WAIT,
                loopback=EveryServer(),
                resolve=Names(answer),
            )
    assert canary.connections() == 0


@pytest.mark.parametrize("address", CLOSED)
def test_blocked_address_is_refused_on_a_mail_port_too(address: str) -> None:
    with pytest.raises(HostRefused):
        safe_hosts.connect(
            endpoint(), timeout=WAIT, loopback=EveryServer(), resolve=Names([address])
        )
    with pytest.raises(HostRefused):
        safe_hosts.connect(
            endpoint(address), timeout=WAIT, loopback=EveryServer(), resolve=Names([address])
        )


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.9.10", "::1"])
@pytest.mark.parametrize("literal", [True, False])
def test_loopback_is_refused_unless_allowed(address: str, literal: bool, canary: Canary) -> None:
    host = endpoint(address if literal else "localhost", port=canary.port)
    with pytest.raises(HostRefused, match=f"^{REFUSAL}$"):
        safe_hosts.connect(
            host, timeout=WAIT, loopback=(), resolve=Names([address]), ports={canary.port}
        )
    assert canary.connections() == 0
    judged = safe_hosts.check_addresses(
        host, timeout=WAIT, loopback=EveryServer(), resolve=Names([address])
    )
    assert [str(each) for each in judged] == [address]


@pytest.mark.parametrize("host", ODD_HOSTS)
def test_invalid_host_name_is_refused_before_any_lookup(host: str, canary: Canary) -> None:
    names = Names(["127.0.0.1"])
    with pytest.raises(HostRefused, match=f"^{REFUSAL}$"):
        safe_hosts.connect(
            endpoint(host, port=canary.port), timeout=WAIT, loopback=EveryServer(), resolve=names
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
    safe_hosts.check_addresses(endpoint(host), timeout=WAIT, loopback=(), resolve=names)
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
    judged = safe_hosts.check_addresses(endpoint(), timeout=WAIT, loopback=(), resolve=names)
    assert judged == safe_hosts.check_addresses(
        endpoint(address), timeout=WAIT, loopback=(), resolve=names
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
            safe_hosts.check_addresses(
                endpoint(str(form)), timeout=WAIT, loopback=EveryServer(), resolve=Names()
            )
    with pytest.raises(HostRefused):
        safe_hosts.check_addresses(
            endpoint(str(address)), timeout=WAIT, loopback=(), resolve=Names()
        )


@settings(deadline=None)
@given(host=st.text(max_size=300))
def test_any_host_text_is_looked_up_as_a_name_or_refused(host: str) -> None:
    names = Names(["10.0.0.1"])
    with pytest.raises(HostRefused):
        safe_hosts.check_addresses(
            endpoint(host), timeout=WAIT, loopback=EveryServer(), resolve=names
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
        safe_hosts.connect(endpoint(), timeout=WAIT, loopback=(), resolve=names)
    assert str(refusal.value) == REFUSAL
    assert refusal.value.args == ()
    assert refusal.value.__cause__ is None
    assert refusal.value.__suppress_context__ or refusal.value.__context__ is None


@pytest.mark.parametrize("kind", [HostRefused, ConnectFailed, TlsFailed])
def test_error_survives_a_queue_with_its_class_and_text(kind: type[HostError]) -> None:
    copy = pickle.loads(pickle.dumps(kind()))
    assert type(copy) is kind
    assert str(copy) == kind.text
