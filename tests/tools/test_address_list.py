"""Addresses as programs write them: each name with the address that mail programs show."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.growth import check_growth
from tools.mail.message.head import mend_head
from tools.mail.text.address_list import parse_addresses

LISTS = [
    ("mira@x.example", [("", "mira@x.example")]),
    ("Mira <mira@x.example>", [("Mira", "mira@x.example")]),
    ("info@bank.example <eve@attacker.example>", [("info@bank.example", "eve@attacker.example")]),
    ("Holm, Mira <m@x.example>", [("Holm, Mira", "m@x.example")]),
    ("Holm, Mira <m@x.example>; Lee, Ada <a@x.example>", [("Holm, Mira", "m@x.example"), ("Lee, Ada", "a@x.example")]),
    ('"Holm, Mira" <m@x.example>, a@x.example', [("Holm, Mira", "m@x.example"), ("", "a@x.example")]),
    ("root, mira@x.example", [("", "root"), ("", "mira@x.example")]),
    ("mira@x.example (Mira Holm)", [("Mira Holm", "mira@x.example")]),
    ("Mira mira@x.example", [("Mira", "mira@x.example")]),
    ("undisclosed-recipients:;", []),
    ("Team: a@x.example, B <b@x.example>;, c@d", [("", "a@x.example"), ("B", "b@x.example"), ("", "c@d")]),
    ("<@relay.example,@b.example:mira@x.example>", [("", "mira@x.example")]),
    ('"mira holm"@x.example', [("", '"mira holm"@x.example')]),
    ("mira @ x . example", [("", "mira@x.example")]),
    ("mira@[IPv6:2001:db8::1]", [("", "mira@[IPv6:2001:db8::1]")]),
    ('"never closed <mira@x.example>', [("never closed", "mira@x.example")]),
    ("((((( mira@x.example", [("", "mira@x.example")]),
    ("Mira <mira@x.example", [("Mira", "mira@x.example")]),
    ("<>", []),
    ("", []),
]  # fmt: skip


@pytest.mark.parametrize(("text", "found"), LISTS)
def test_each_name_has_its_address(text: str, found: list[tuple[str, str]]) -> None:
    assert parse_addresses(text) == found


@given(st.text(alphabet='ab@.,;:<>"()[]\\ \n', max_size=60))
def test_any_list_of_addresses_is_read(text: str) -> None:
    for _, address in parse_addresses(text):
        assert address
        assert "\n" not in address


@pytest.mark.parametrize("piece", ['"', '"\\', "(", "(a", "[", "<", "<@,", "@a:", "a,", '"a",'])
def test_long_list_is_read_in_linear_time(piece: str) -> None:
    check_growth(lambda number: parse_addresses(piece * number), 20_000)


HEADS = [
    (b"\xef\xbb\xbfSubject: a\r\n\r\nx", b"Subject: a\r\n\r\nx"),
    (b"From  : a@b.example\nSubject\t: a\n\nTo : x", b"From: a@b.example\nSubject: a\n\nTo : x"),
    (b"To: a\r\nScanned by us\r\nDate: b\r\n\r\nx", b"To: a\r\nDate: b\r\n\r\nx"),
    (b"To: a\r\nHello Ada,\r\nNote: b\r\n\r\nx", b"To: a\r\nHello Ada,\r\nNote: b\r\n\r\nx"),
    (b"Hello Ada,\nSubject: a\n\nx", b"Hello Ada,\nSubject: a\n\nx"),
    (b"Subject: a\n folded : b\n\nx", b"Subject: a\n folded : b\n\nx"),
    (b"\r\nNo : headers\r\n", b"\r\nNo : headers\r\n"),
]


@pytest.mark.parametrize(("source", "mended"), HEADS)
def test_broken_head_is_mended(source: bytes, mended: bytes) -> None:
    assert mend_head(source) == mended


@given(st.binary(max_size=200))
def test_any_head_keeps_the_text_below(source: bytes) -> None:
    assert mend_head(source + b"\r\n\r\nThe text.").endswith(b"\r\n\r\nThe text.")
