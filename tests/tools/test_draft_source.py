"""A draft of another program becomes a request: its text in the charset that programs read."""

import pytest

from tools.mail.message.compose import Request
from tools.mail.message.draft_source import read_draft


def draft(head: bytes, body: bytes) -> Request | str:
    source = b"From: ada@lovelace.example\r\nTo: jo@x.example\r\n" + head + b"\r\n\r\n" + body
    return read_draft(source, "ada@lovelace.example", "Ada")


@pytest.mark.parametrize(
    ("charset", "content", "text"),
    [
        (b"gb2312", "朱镕基".encode("gbk"), "朱镕基"),
        (b"x-unknown", "né".encode("latin-1"), "né"),
        (b"ks_c_5601-1987", "똠방".encode("cp949"), "똠방"),
        (b"us-ascii", "né".encode(), "né"),
    ],
)
def test_draft_is_sent_with_the_letters_it_shows(charset: bytes, content: bytes, text: str) -> None:
    found = draft(
        b"Subject: s\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=" + charset, content
    )
    assert isinstance(found, Request)
    assert found.content.text == text


def test_draft_with_raw_letters_in_its_subject_keeps_them() -> None:
    found = draft("Subject: Grüße".encode("latin-1"), b"Hello")
    assert isinstance(found, Request)
    assert found.subject == "Grüße"


def test_draft_with_control_characters_in_its_subject_is_refused() -> None:
    assert isinstance(draft(b"Subject: =?utf-8?q?a=00b?=", b"Hello"), str)
