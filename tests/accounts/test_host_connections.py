"""The connection to a host that a user names: its addresses, its port, and its time limits."""

import socket
import threading
from collections.abc import Container, Iterator
from contextlib import ExitStack

import pytest

from accounts.infra import safe_hosts
from accounts.infra.safe_hosts import ConnectFailed, HostRefused
from tests.accounts.host_servers import NAME, REFUSAL, SHORT, WAIT, Canary, Names, canary, endpoint
from tests.support.loopback import EveryServer, on_ports

__all__ = ["canary"]


@pytest.mark.fault(47)
def test_filter_runs_once_at_each_connection(canary: Canary) -> None:
    names = Names(["127.0.0.1"], ["169.254.169.254"])
    host = endpoint(port=canary.port, security="starttls")
    with safe_hosts.connect(host, timeout=WAIT, loopback=EveryServer(), resolve=names) as sock:
        assert sock.getpeername() == ("127.0.0.1", canary.port)
    assert names.questions == [(NAME, canary.port)]
    assert canary.connections() == 1

    with pytest.raises(HostRefused):
        safe_hosts.connect(host, timeout=WAIT, loopback=EveryServer(), resolve=names)
    assert names.questions == [(NAME, canary.port)] * 2
    assert canary.connections() == 0


def test_literal_address_is_connected_without_a_lookup(canary: Canary) -> None:
    names = Names()
    host = endpoint("127.0.0.1", port=canary.port, security="starttls")
    safe_hosts.connect(host, timeout=WAIT, loopback=EveryServer(), resolve=names).close()
    assert names.questions == []
    assert canary.connections() == 1


def test_system_resolver_finds_loopback(canary: Canary) -> None:
    host = endpoint("localhost", port=canary.port, security="starttls")
    safe_hosts.connect(host, timeout=WAIT, loopback=EveryServer()).close()
    assert canary.connections() == 1


def test_next_address_is_tried_if_one_does_not_answer(canary: Canary) -> None:
    host = endpoint(port=canary.port, security="starttls")
    names = Names(["127.0.0.2", "127.0.0.1"])  # the canary listens only on the second
    with safe_hosts.connect(host, timeout=WAIT, loopback=EveryServer(), resolve=names) as sock:
        assert sock.gettimeout() == WAIT
    assert canary.connections() == 1


def test_no_answering_address_is_a_plain_connect_failure(canary: Canary) -> None:
    host = endpoint(port=canary.port, security="starttls")
    with pytest.raises(ConnectFailed) as failure:
        safe_hosts.connect(
            host, timeout=WAIT, loopback=EveryServer(), resolve=Names(["127.0.0.2", "127.0.0.3"])
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
@pytest.mark.parametrize("loopback", [EveryServer(), ()])
def test_public_host_is_used_only_on_mail_ports(
    port: int, allowed: bool, loopback: Container[str]
) -> None:
    def judge() -> object:
        return safe_hosts.check_addresses(
            endpoint(port=port),
            timeout=WAIT,
            loopback=loopback,
            resolve=Names(["9.9.9.9"]),
        )

    if allowed:
        assert judge()
    else:
        with pytest.raises(HostRefused, match=f"^{REFUSAL}$"):
            judge()


def test_caller_can_name_other_ports() -> None:
    assert safe_hosts.check_addresses(
        endpoint(port=443),
        timeout=WAIT,
        loopback=(),
        resolve=Names(["9.9.9.9"]),
        ports={443},
    )


def test_unencrypted_host_must_be_allowed_loopback(canary: Canary) -> None:
    host = endpoint(port=canary.port, security="plain")
    safe_hosts.connect(
        host, timeout=WAIT, loopback=EveryServer(), resolve=Names(["127.0.0.1"])
    ).close()
    assert canary.connections() == 1
    for others in ((), on_ports(canary.port + 1), {f"127.0.0.2:{canary.port}"}):
        with pytest.raises(HostRefused):
            safe_hosts.connect(host, timeout=WAIT, loopback=others, resolve=Names(["127.0.0.1"]))
    assert canary.connections() == 0
    for answer in (["9.9.9.9"], ["127.0.0.1", "9.9.9.9"]):
        with pytest.raises(HostRefused):
            safe_hosts.connect(
                endpoint(port=143, security="plain"),
                timeout=WAIT,
                loopback=EveryServer(),
                resolve=Names(answer),
            )


def test_silent_name_server_ends_in_a_neutral_refusal() -> None:
    answered = threading.Event()

    def resolve(_host: str, _port: int) -> list[str]:
        answered.wait(WAIT)
        return ["127.0.0.1"]

    try:
        with pytest.raises(HostRefused, match=f"^{REFUSAL}$"):
            safe_hosts.connect(endpoint(), timeout=SHORT, loopback=EveryServer(), resolve=resolve)
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
    # The silent one gets a half; the other half is enough on a busy machine too.
    safe_hosts.connect(host, timeout=6, loopback=EveryServer(), resolve=names).close()
    assert canary.connections() == 1


def test_silent_host_is_a_connect_failure_at_the_timeout(silent: str, canary: Canary) -> None:
    host = endpoint(silent, port=canary.port, security="starttls")
    with pytest.raises(ConnectFailed):
        safe_hosts.connect(host, timeout=SHORT, loopback=EveryServer())


def test_nothing_is_connected_without_time_left(canary: Canary) -> None:
    with pytest.raises(ConnectFailed):
        safe_hosts.connect(
            endpoint("127.0.0.1", port=canary.port), timeout=0, loopback=EveryServer()
        )
    assert canary.connections() == 0
