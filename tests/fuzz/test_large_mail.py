"""Messages of a megabyte that are built to be expensive are read in two seconds, in little memory."""

from collections.abc import Callable

import pytest

from tests.fuzz import targets
from tests.support.growth import check_growth

MEGABYTE = 1_000_000
PIECES = {
    "many-parts": ("multipart/mixed; boundary=a", b"--a\r\n\r\nx\r\n"),
    "many-files": (
        "multipart/mixed; boundary=a",
        b'--a\r\nContent-Type: application/x; name="a.pdf"\r\n\r\nx\r\n',
    ),
    "quoted-lines": ("text/plain", b"> hello world\r\n"),
    "uuencoded-files": ("text/plain", b"begin 644 a\r\n"),
    "soft-line-breaks": (
        "text/plain\r\nContent-Transfer-Encoding: quoted-printable",
        b"=E4=\r\n",
    ),
    "unknown-charset": ("text/plain; charset=x", b"\xe9\xe8 caf\xe9 \xcf\xf0\r\n"),
    "nested-messages": ("message/rfc822", b"Content-Type: message/rfc822\r\n\r\n"),
    "nested-pieces": (
        "message/partial; number=1",
        b"Content-Type: message/partial; number=1\r\n\r\n",
    ),
    "nested-signatures": ("application/pkcs7-mime; smime-type=signed-data", b"0\x80"),
    "recipients-of-a-report": (
        "multipart/report; report-type=delivery-status; boundary=a",
        b"--a\r\nContent-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; x\r\n\r\n"
        b"Final-Recipient: rfc822; a@b.example\r\nAction: failed\r\nStatus: 5.1.1\r\n\r\n",
    ),
    "blocks-of-a-report": (
        "multipart/report; report-type=delivery-status; boundary=a",
        b"--a\r\nContent-Type: message/delivery-status\r\n\r\n" + b"a:\xe9\xe8\n\n" * 30_000,
    ),
    "originals-of-a-report": (
        "multipart/report; report-type=delivery-status; boundary=a",
        b"--a\r\nContent-Type: text/rfc822-headers\r\n\r\n" + b"a:\xe9\xe8\n" * 20,
    ),
    "events-of-a-calendar": (
        "text/calendar; method=REQUEST",
        b"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nRRULE:FREQ=SECONDLY;COUNT=99999999\r\n"
        b"DTSTART:20200101T000000\r\nATTENDEE:mailto:a@b.example\r\nEND:VEVENT\r\n",
    ),
    "open-elements": ("text/html", b"<div>a<b>c"),
    "tables": ("text/html", b"<table><tr><td>"),
}


@pytest.mark.parametrize("name", PIECES)
def test_expensive_mail_is_read_within_its_limits(name: str) -> None:
    kind, piece = PIECES[name]
    head = (
        f"From: m@x.example\r\nTo: {targets.ADDRESS}\r\nSubject: x\r\nContent-Type: {kind}\r\n\r\n"
    )
    source = head.encode() + piece * (MEGABYTE // len(piece))
    # The tables that a process loads once are no cost of this mail.
    targets.read_mail(head.encode() + b"\xe9\xe8 caf\xe9")

    cost = targets.measure(targets.read_mail, source)

    assert not cost.is_too_high, cost


def soft_lines(size: int) -> tuple[str, bytes]:
    return "Content-Type: text/plain; format=flowed", b"a \n" * (size // 3)


def returned_mail(size: int) -> tuple[str, bytes]:
    failed = ",\r\n ".join(f"a{number}@b" for number in range(size // 200))
    return f"X-Failed-Recipients: {failed}", b"hello world\r\n" * (size // 13)


@pytest.mark.parametrize("make", [soft_lines, returned_mail])
def test_mail_costs_in_proportion(make: Callable[[int], tuple[str, bytes]]) -> None:
    def read(size: int) -> None:
        line, body = make(size)
        head = f"From: m@x.example\r\nTo: {targets.ADDRESS}\r\n{line}\r\n\r\n"
        targets.read_mail(head.encode() + body)

    check_growth(read, MEGABYTE)
