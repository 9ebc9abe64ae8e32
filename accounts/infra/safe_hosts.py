"""The host filter and pinned TLS connections, for hosts that users name.

A user may type any host, and so could make the server reach hosts that only it can reach (SSRF).
Therefore:

1. The host must be a proper host name or IP literal.
2. It is resolved once, and every address of the answer is checked; one closed address refuses the
   host.
3. The connection goes to a checked address, without asking the resolver again; TLS is checked for
   the name.

Nothing is cached between calls: a reconnect takes the same three steps.
"""

import functools
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Collection, Container, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Literal, Self, get_args

from accounts.infra.database import give_back_connection
from accounts.infra.idn import ascii_domain
from accounts.infra.texts import translatable


class HostError(Exception):
    """No usable connection; the text may be shown and holds no cause, address or banner."""

    text = translatable("The host cannot be reached.")

    def __str__(self) -> str:
        return self.text


class HostRefused(HostError):
    """Refused host, or one without an address; with one text, as different ones map our network."""

    text = translatable("This host cannot be used.")


class ConnectFailed(HostError):
    """Allowed host, but no TCP connection in time."""

    text = translatable("The host does not answer.")


class TlsFailed(HostError):
    """TCP connection without TLS, or with a certificate that is not valid for the host."""

    text = translatable("No secure connection to the host could be made.")


Address = IPv4Address | IPv6Address
Resolver = Callable[[str, int], Sequence[str]]
Security = Literal["tls", "starttls", "plain"]

# IMAP, IMAPS, SMTP, SMTPS, submission, and 2525, which senders offer where providers block 25.
MAIL_PORTS = frozenset({143, 993, 25, 465, 587, 2525})
_TLS_PORTS = frozenset({993, 465})

# All networks that are not plain public unicast in
# https://www.iana.org/assignments/iana-ipv4-special-registry. Clouds keep their metadata services
# in 169.254/16 (most), 100.64/10 (Alibaba), 192.0.0/24 (Oracle).
_CLOSED_V4 = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        # A public address, but inside Azure it is a service of the host:
        # https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16
        "168.63.129.16/32",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
# All networks outside 2000::/3 are closed: ::, ::1, ::a.b.c.d, fe80::/10, ff00::/8, fc00::/7 (AWS:
# fd00:ec2::254).
_UNICAST_V6 = IPv6Network("2000::/3")
_CLOSED_V6 = tuple(IPv6Network(network) for network in ("2001::/23", "2001:db8::/32", "3fff::/20"))
_NAT64 = IPv6Network("64:ff9b::/96")

_LABEL = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)")
# Resolvers read a name with such an ending as an IPv4 address: 2130706433, 0x7f.1, 127.1,
# 0177.0.0.1.
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_ENDPOINT = re.compile(r"(\[[^\[\]]*\]|[^\[\]:]*):([0-9]{1,5})(?::(tls|starttls|plain))?")


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """A host as a user gave it (IPv6 without brackets), its port, and how the line is secured."""

    host: str
    port: int
    security: Security

    def __post_init__(self) -> None:
        if not 0 < self.port < 65536:
            raise ValueError(translatable("The port must be a number from 1 to 65535."))
        # A type does not check values from a form or a row, and an unknown word would mean "no
        # TLS".
        if self.security not in get_args(Security):
            raise ValueError(translatable("The encryption must be tls, starttls or plain."))

    @classmethod
    def parse(cls, text: str, *, default_security: Security | None = None) -> Self:
        """Read `HOST:PORT[:tls|starttls|plain]`, with brackets around an IPv6 literal.

        Without a default, ports 993 and 465 mean tls and all others starttls. Each connection, not
        this method, checks whether the host may be used. Raises ValueError with a sentence for the
        user.
        """
        match = _ENDPOINT.fullmatch(text)
        if match is None:
            raise ValueError(
                translatable("Write the server as HOST:PORT or HOST:PORT:tls, :starttls or :plain.")
            )
        host, port = match[1], int(match[2])
        bracketed = host.startswith("[")
        host = _canonical_host(host[1:-1] if bracketed else host)
        if bracketed and ":" not in host:
            raise ValueError(translatable("Only an IPv6 address is written in brackets."))
        usual: Security = "tls" if port in _TLS_PORTS else "starttls"
        named = next((word for word in get_args(Security) if word == match[3]), None)
        return cls(host=host, port=port, security=named or default_security or usual)


def resolve_host(host: str, port: int) -> list[str]:
    """Return the addresses of a host from the system's resolver, in its order; raise OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(sockaddr[0]) for *_, sockaddr in found]


def connect(
    endpoint: Endpoint,
    *,
    timeout: float,
    loopback: Container[str],
    resolve: Resolver = resolve_host,
    ports: Collection[int] = MAIL_PORTS,
    context: ssl.SSLContext | None = None,
) -> socket.socket:
    """Return a TCP socket connected to a checked address, already inside TLS if the endpoint says
    "tls".

    `timeout` (seconds) bounds resolving, connecting and handshake together, and stays on the socket
    as the limit of each single operation. With "starttls" the socket is not encrypted yet: no
    secret may be sent before `start_tls`. Raises HostRefused, ConnectFailed or TlsFailed.
    """
    give_back_connection()
    deadline = time.monotonic() + timeout
    addresses = check_addresses(
        endpoint, timeout=timeout, loopback=loopback, resolve=resolve, ports=ports
    )
    sock = _connect_first(addresses, port=endpoint.port, deadline=deadline)
    if endpoint.security == "tls":
        sock.settimeout(max(deadline - time.monotonic(), 0.001))
        sock = start_tls(sock, host=endpoint.host, context=context)
    sock.settimeout(timeout)
    return sock


def start_tls(
    sock: socket.socket, *, host: str, context: ssl.SSLContext | None = None
) -> ssl.SSLSocket:
    """Wrap a connected socket in TLS, with SNI and a certificate valid for the host (name or
    address).

    The socket's own timeout bounds the whole handshake. The caller must discard data that it has
    read before TLS. Raises TlsFailed, with the socket closed.
    """
    context = context or tls_context()
    # Python does not let a context check the name without the certificate.
    if not context.check_hostname:
        raise ValueError("The TLS context must check certificates and names.")
    if sock.gettimeout() is None:
        raise ValueError("The socket needs a timeout.")
    try:
        return context.wrap_socket(sock, server_hostname=_canonical_host(host))
    except (OSError, ValueError):
        # The cause names addresses and certificates, so the traceback must not contain it.
        sock.close()
        raise TlsFailed from None


@functools.cache
def tls_context() -> ssl.SSLContext:
    """Return the TLS context: TLS 1.2 or newer, authorities of the system or of SSL_CERT_FILE."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def check_addresses(
    endpoint: Endpoint,
    *,
    timeout: float,
    loopback: Container[str],
    resolve: Resolver = resolve_host,
    ports: Collection[int] = MAIL_PORTS,
) -> list[Address]:
    """Resolve a host once, within `timeout` seconds, and return its addresses; all of them may be
    used.

    `loopback` lists the servers of this machine that may be reached, as ADDRESS:PORT, also without
    TLS. Every other address must be public, on one of `ports`, and use TLS. Raises HostRefused.
    """
    try:
        host = _canonical_host(endpoint.host)
        literal = _address(host)
        answer = [host] if literal else _resolve_within(timeout, resolve, host, endpoint.port)
        addresses = [ip_address(text) for text in answer]
    except (OSError, ValueError):
        raise HostRefused from None
    open_to_all = endpoint.port in ports and endpoint.security != "plain"
    if not addresses or not all(
        f"{address}:{endpoint.port}" in loopback or (open_to_all and _is_public(address))
        for address in addresses
    ):
        raise HostRefused
    return addresses


def _canonical_host(text: str) -> str:
    """Return an IP literal in canonical form, or a name in lower A-labels; raise ValueError."""
    if literal := _address(text):
        return str(literal)
    # 253 is the longest possible name. The length is checked before IDNA, because its work grows
    # with the length.
    if len(text) <= 254:
        try:
            name = ascii_domain(text)
        except ValueError:
            name = ""  # refused below, with our own sentence
        labels = name.split(".")
        if (
            len(name) <= 253
            and all(map(_LABEL.fullmatch, labels))
            and not _NUMBER.fullmatch(labels[-1])
        ):
            return name
    raise ValueError(translatable("That is not a host name or an IP address."))


def _address(text: str) -> Address | None:
    """Return the address of an IP literal; None for other texts and for a zone id (%eth0)."""
    try:
        return None if "%" in text else ip_address(text)
    except ValueError:
        return None


def _resolve_within(seconds: float, resolve: Resolver, host: str, port: int) -> Sequence[str]:
    """Resolve in a thread, because getaddrinfo has no timeout; raise TimeoutError (an OSError)."""
    give_back_connection()
    answer: Future[Sequence[str]] = Future()

    def ask() -> None:
        try:
            answer.set_result(resolve(host, port))
        except Exception as error:
            answer.set_exception(error)

    # A daemon, so that a name server that does not answer cannot delay the end of the process.
    threading.Thread(target=ask, name="resolve-host", daemon=True).start()
    return answer.result(timeout=seconds)


def _is_public(address: Address) -> bool:
    """Return True if an address is public unicast; embedded IPv4 addresses decide for it."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _CLOSED_V4)
    if address.scope_id is not None:
        return False
    if embedded := _embedded_addresses(address):
        return all(map(_is_public, embedded))
    return address in _UNICAST_V6 and not any(address in network for network in _CLOSED_V6)


def _embedded_addresses(address: Address) -> tuple[IPv4Address, ...]:
    """Return the IPv4 addresses inside a mapped, NAT64, 6to4 or Teredo address (Teredo: server and
    client).
    """
    if isinstance(address, IPv4Address):
        return ()
    if address in _NAT64:
        return (IPv4Address(address.packed[-4:]),)
    if address.teredo:
        return address.teredo
    carried = address.ipv4_mapped or address.sixtofour
    return (carried,) if carried else ()


def _connect_first(addresses: Sequence[Address], *, port: int, deadline: float) -> socket.socket:
    """Return a connection to the first address that answers; each gets an even share of time."""
    for index, address in enumerate(addresses):
        share = (deadline - time.monotonic()) / (len(addresses) - index)
        if share <= 0:
            break
        try:
            # With an address, create_connection resolves nothing; it closes the socket if it
            # fails.
            return socket.create_connection((str(address), port), timeout=share)
        except OSError:
            continue
    raise ConnectFailed
