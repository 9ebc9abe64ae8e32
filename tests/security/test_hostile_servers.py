"""Hostile mail servers: a conversation with them ends in time, and uses little memory."""

import threading
import tracemalloc
import uuid
from typing import Any

import pytest

from accounts.connect.imap import (
    CONNECT_SECONDS,
    ImapAccess,
    Unreachable,
    open_imap,
    open_smtp,
    prove,
)
from accounts.models import Mailbox, User
from tests.support.loopback import EveryServer
from tests.support.people.browser import browser
from tests.support.servers.hostile import Harm, HostileImap, HostileSmtp
from tests.support.servers.sandbox import ADA, plain
from tests.support.servers.smtp import FaultySmtp
from tools.providers.base import Envelope, Handover
from tools.providers.errors import OutcomeUnknown, Unavailable
from tools.providers.imap import ImapProvider
from tools.providers.imap.mailbox import ImapMailbox

IMAP_HARMS: list[Harm] = [
    "drip",
    "silent",
    "endless_lines",
    "endless_line",
    "literal",
    "literal_in_pieces",
    "digits",
]
SMTP_HARMS: list[Harm] = ["drip", "silent", "endless_lines", "endless_line"]
SECONDS = 0.4  # the maximum of a conversation in these tests
TURNS = 200
MEGABYTES = 1024 * 1024
SOURCE = b"Subject: Hello\r\nTo: charles@lovelace.example\r\n\r\n" + b"Hello.\r\n" * 100
ENVELOPE = Envelope(sender=ADA, recipients=("a@x.example",), source=SOURCE)


def access(imap: int = 1, smtp: int = 1) -> ImapAccess:
    return ImapAccess(imap=plain(imap), smtp=plain(smtp), username=ADA, password="a password")


def provider(imap: int = 1, smtp: int = 1) -> ImapProvider:
    return ImapProvider(ImapMailbox(access(imap, smtp), mailbox_id=uuid.uuid4(), key=uuid.uuid4()))


class Bounded:
    """A block that must use little time and memory.

    A thread that waits again and again counts the time: a machine that is too busy for the block is
    too busy for the thread.
    """

    def __enter__(self) -> None:
        self._turns, self._ended = 0, threading.Event()
        self._thread = threading.Thread(target=self._count)
        self._thread.start()
        tracemalloc.start()

    def __exit__(self, *error: object) -> None:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        self._ended.set()
        self._thread.join()
        assert self._turns < TURNS, "it took ten seconds"
        assert peak < 16 * MEGABYTES, f"it took {peak / MEGABYTES:.0f} MB"

    def _count(self) -> None:
        while not self._ended.wait(10 / TURNS):
            self._turns += 1


@pytest.mark.parametrize("at", ["greeting", "capability", "login"])
@pytest.mark.parametrize("harm", IMAP_HARMS)
def test_signing_in_to_hostile_imap_ends(harm: Harm, at: str) -> None:
    with HostileImap(harm, at=at) as server, Bounded(), pytest.raises(Unreachable):
        open_imap(access(imap=server.port), seconds=SECONDS)


@pytest.mark.parametrize("at", ["greeting", "ehlo", "auth"])
@pytest.mark.parametrize("harm", SMTP_HARMS)
def test_signing_in_to_hostile_smtp_ends(harm: Harm, at: str) -> None:
    with HostileSmtp(harm, at=at) as server, Bounded(), pytest.raises(Unreachable):
        open_smtp(access(smtp=server.port), seconds=SECONDS)


@pytest.mark.parametrize("at", ["examine", "search", "fetch"])
@pytest.mark.parametrize("harm", ["drip", "silent", "digits"])
def test_reading_a_hostile_mailbox_ends(harm: Harm, at: str, settings: Any) -> None:
    settings.MAILHUB_REQUEST_SECONDS = SECONDS
    with HostileImap(harm, at=at) as server, Bounded(), pytest.raises(Unavailable) as caught:
        provider(imap=server.port).list_messages(
            folder="inbox", unread=None, limit=2, page_token=None
        )
    assert caught.value.code == "connection_lost"


@pytest.mark.parametrize("harm", ["endless_lines", "endless_line", "literal", "literal_in_pieces"])
def test_text_from_a_hostile_mailbox_is_capped(harm: Harm) -> None:
    with HostileImap(harm, at="fetch") as server, pytest.raises(Unavailable):
        provider(imap=server.port).list_messages(
            folder="inbox", unread=None, limit=2, page_token=None
        )
    assert server.sent < 128 * MEGABYTES


def test_words_from_a_hostile_mailbox_are_capped_lower() -> None:
    """Each becomes an object: 54 MB of them took 1 GB."""
    with HostileImap("words", at="list") as server, pytest.raises(Unavailable):
        provider(imap=server.port).list_folders()
    assert server.sent < 32 * MEGABYTES


FETCH = b'* 1 FETCH (UID 1 FLAGS () INTERNALDATE "17-Jul-1996 02:44:25 -0700" RFC822.SIZE 9)\r\n'


@pytest.mark.parametrize(
    "odd",
    [
        {b"EXAMINE": b"* 3 EXISTS\r\n"},
        {b"EXAMINE": b"* 3 EXISTS\r\n* OK [UIDVALIDITY x] x\r\n"},
        {b"SEARCH": b"* SEARCH a\r\n"},
        {b"SEARCH": b"* SEARCH " + b"9" * 5000 + b"\r\n"},
        {b"FETCH": FETCH.replace(b"INTERNALDATE", b"DATE")},
        {b"FETCH": FETCH.replace(b'"17-Jul-1996 02:44:25 -0700"', b"7")},
        {b"LIST": b'* LIST () "/" "&!!-"\r\n'},
        {b"LIST": b'* LIST () "/"\r\n'},
        {b"LIST": b"* LIST NIL NIL NIL\r\n"},
        {b"LIST": b"* LIST " + b"(" * 3000 + b"\r\n"},
        {b"STATUS": b""},
        {b"STATUS": b"* STATUS INBOX NIL\r\n"},
    ],
)
def test_odd_answer_of_a_mailbox_is_a_failure_of_its_server(odd: dict[bytes, bytes]) -> None:
    def read(mailbox: ImapProvider) -> None:
        mailbox.list_messages(folder="inbox", unread=None, limit=2, page_token=None)
        mailbox.list_folders()

    with HostileImap(at="never", odd=odd) as server, pytest.raises(Unavailable) as caught:
        read(provider(imap=server.port))
    assert (caught.value.code, "cannot read" in caught.value.detail) == ("connection_lost", True)


@pytest.mark.parametrize("at", ["greeting", "ehlo", "mail", "rcpt", "data"])
@pytest.mark.parametrize("harm", SMTP_HARMS)
def test_send_cut_before_its_dot_is_not_sent(harm: Harm, at: str, settings: Any) -> None:
    settings.MAILHUB_WIRE_TIMEOUT_SECONDS = SECONDS
    wire: list[int] = []
    with HostileSmtp(harm, at=at) as server, Bounded(), pytest.raises(Unavailable):
        provider(smtp=server.port).send(ENVELOPE, Handover(wire_started=lambda: wire.append(1)))
    assert (wire, server.contents) == ([], 0)


@pytest.mark.parametrize("harm", SMTP_HARMS)
def test_send_cut_after_its_dot_is_unknown(harm: Harm, settings: Any) -> None:
    settings.MAILHUB_WIRE_TIMEOUT_SECONDS = 2  # also for everything before the dot
    with HostileSmtp(harm, at="dot") as server, Bounded(), pytest.raises(OutcomeUnknown):
        provider(smtp=server.port).send(ENVELOPE, Handover(wire_started=lambda: None))
    assert server.contents == 1


def test_connecting_does_not_bound_the_dialogue() -> None:
    with FaultySmtp() as server:
        smtp = open_smtp(access(smtp=server.port), seconds=600)
        assert smtp.sock is not None
        assert smtp.sock.gettimeout() == 300  # RFC 5321, 4.5.3.2: for MAIL and RCPT
        smtp.close()


@pytest.mark.long
def test_server_that_is_slow_to_take_data_gets_the_mail() -> None:
    with FaultySmtp() as server:
        hold = server.hold(at="data")
        threading.Timer(CONNECT_SECONDS + 2, hold.release).start()
        hold.seconds = CONNECT_SECONDS + 30
        provider(smtp=server.port).send(ENVELOPE, Handover(wire_started=lambda: None))
        assert len(server.ledger) == 1


@pytest.mark.django_db(transaction=True)
def test_hostile_server_delays_the_wizard_only_shortly(alice: User, settings: Any) -> None:
    settings.MAILHUB_LOOPBACK_FOR_PEOPLE = EveryServer()
    settings.MAILHUB_PROVE_SECONDS = SECONDS
    person = browser(alice)
    # Imports of a first page are not measured.
    assert person.get("/mailboxes/connect/imap/").status_code == 200
    with HostileImap("drip") as imap, Bounded():
        address = f"127.0.0.1:{imap.port}:starttls"
        given = {
            "address": "m@evil.example",
            "username": "m",
            "password": "x",
            "imap": address,
            "smtp": address,
        }
        answer = person.post("/mailboxes/connect/imap/", given)
    assert answer.status_code == 422
    assert not Mailbox.objects.exists()


@pytest.mark.parametrize("at", ["ehlo", "auth"])
def test_time_of_a_connection_test_covers_both_servers(at: str, settings: Any) -> None:
    settings.MAILHUB_PROVE_SECONDS = SECONDS
    imap, smtp = HostileImap("drip", at="logout"), HostileSmtp("drip", at=at)
    with imap, smtp, Bounded(), pytest.raises(Unreachable):
        prove(access(imap.port, smtp.port))
