"""The bytes that an SMTP server receives: unchanged, complete, and without Bcc."""

import pytest

from tests.support.servers.smtp import FaultySmtp
from tests.tools.providers.smtp_handover import SOURCE, failure, send
from tools.providers.errors import Refused


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b".\r\n", id="a-dot-alone-first"),
        pytest.param(b"a\r\n.\r\nb\r\n", id="a-dot-alone"),
        pytest.param(b"a\r\n.\r\n", id="a-dot-alone-last"),
        pytest.param(b"..\r\n...\r\n.a\r\n", id="dots-at-line-beginnings"),
        pytest.param(b"a\r\n\r\n.\r\n.\r\n\r\n", id="dots-and-empty-lines"),
        pytest.param(b"x" * 998 + b"\r\n." + b"y" * 997 + b"\r\n", id="long-lines"),
        pytest.param(b"", id="empty"),
    ],
)
def test_every_line_arrives_unchanged(smtp: FaultySmtp, body: bytes) -> None:
    source = b"Subject: s\r\n\r\n" + body
    send(smtp, source=source)
    (accepted,) = smtp.ledger
    assert accepted.content == source
    (on_the_wire,) = smtp.raw_contents
    assert on_the_wire.endswith(b"\r\n.\r\n")
    assert b"\r\n.\r\n" not in on_the_wire[:-3]


def test_message_that_begins_with_a_dot_arrives_unchanged(smtp: FaultySmtp) -> None:
    send(smtp, source=b".odd: header\r\n\r\nx\r\n")
    assert smtp.ledger[0].content == b".odd: header\r\n\r\nx\r\n"


def test_missing_last_line_end_is_added(smtp: FaultySmtp) -> None:
    send(smtp, source=b"Subject: s\r\n\r\nno end")
    assert smtp.ledger[0].content == b"Subject: s\r\n\r\nno end\r\n"


@pytest.mark.parametrize(
    "body",
    [
        b"a\n.\nMAIL FROM:<x@evil.example>\n", b"a\n.\r\nMAIL FROM:<x@evil.example>\r\n",
        b"a\r.\rMAIL FROM:<x@evil.example>\r", b"a\r\r\n", b"end\r", b"a\r\n.\nb\r\n",
    ],
)  # fmt: skip
def test_ambiguous_bare_line_end_is_refused(smtp: FaultySmtp, body: bytes) -> None:
    raised = failure(smtp, source=b"Subject: s\r\n\r\n" + body)
    assert (type(raised), raised.code) == (Refused, "refused")
    assert (smtp.ledger, smtp.data_commands) == ([], 0)


def test_message_over_the_size_limit_is_refused_early() -> None:
    with FaultySmtp(size_limit=len(SOURCE)) as smtp:
        send(smtp)
        raised = failure(smtp, source=SOURCE + b"x\r\n")
        assert (type(raised), raised.code) == (Refused, "too_large")
        assert (len(smtp.ledger), smtp.data_commands) == (1, 1)
        assert (
            f"size={len(SOURCE)}"
            in next(line for line in smtp.commands if line.lower().startswith("mail")).lower()
        )


def test_limit_of_zero_means_no_limit() -> None:
    with FaultySmtp(size_limit=0) as smtp:
        send(smtp)
        assert len(smtp.ledger) == 1


@pytest.mark.fault(55)
def test_bcc_is_only_in_the_envelope(smtp: FaultySmtp) -> None:
    send(smtp)
    (accepted,) = smtp.ledger
    assert "hidden@copy.example" in accepted.recipients
    assert b"hidden@copy.example" not in smtp.raw_contents[0]


def test_our_own_host_name_is_not_revealed(smtp: FaultySmtp) -> None:
    send(smtp)
    assert [line for line in smtp.commands if line.lower().startswith("ehlo")] == [
        "ehlo [127.0.0.1]"
    ]
