"""A handover by SMTP when the server fails: the known outcome, and the mail that the server has."""

from typing import Any

import pytest

from tests.support.servers.sandbox import ADA, CHARLES, MIRA
from tests.support.servers.smtp import FaultySmtp, Point
from tests.tools.providers.smtp_handover import (
    EVERYBODY,
    SOURCE,
    Plan,
    Wire,
    cut_reply,
    drop,
    failure,
    provider,
    reply,
    reset,
    send,
)
from tools.providers.base import Envelope, Handover
from tools.providers.errors import (
    NotAuthorized,
    NotSent,
    OutcomeUnknown,
    ProviderError,
    Refused,
    Unavailable,
)


@pytest.mark.fault(40)
def test_accepted_message_is_in_the_ledger_with_its_envelope(smtp: FaultySmtp) -> None:
    wire = Wire()
    send(smtp, wire=wire)
    (accepted,) = smtp.ledger
    assert (accepted.sender, accepted.recipients, accepted.content) == (ADA, EVERYBODY, SOURCE)
    assert (smtp.data_commands, wire.started) == (1, 1)


@pytest.mark.fault(40, 42)
@pytest.mark.parametrize(
    ("plan", "error", "code", "data_commands"),
    [
        pytest.param(drop("connect"), Unavailable, "unreachable", 0, id="drop-at-connect"),
        pytest.param(reset("connect"), Unavailable, "unreachable", 0, id="reset-at-connect"),
        pytest.param(drop("greeting"), Unavailable, "unreachable", 0, id="drop-at-greeting"),
        pytest.param(drop("ehlo"), Unavailable, "unreachable", 0, id="drop-at-ehlo"),
        pytest.param(drop("auth"), Unavailable, "unreachable", 0, id="drop-at-auth"),
        pytest.param(reset("auth"), Unavailable, "unreachable", 0, id="reset-at-auth"),
        pytest.param(drop("mail"), Unavailable, "connection_lost", 0, id="drop-at-mail"),
        pytest.param(drop("rcpt"), Unavailable, "connection_lost", 0, id="drop-at-rcpt"),
        pytest.param(reset("rcpt"), Unavailable, "connection_lost", 0, id="reset-at-rcpt"),
        pytest.param(drop("data"), Unavailable, "connection_lost", 1, id="drop-before-354"),
        pytest.param(reset("data"), Unavailable, "connection_lost", 1, id="reset-before-354"),
        pytest.param(reply(b"rubbish\r\n", "data"), Unavailable, "smtp_protocol", 1, id="rubbish-before-354"),
        pytest.param(reply(b"250 what\r\n", "data"), Unavailable, "smtp_protocol", 1, id="250-before-354"),
        pytest.param(reply(b"x\r\n", "mail"), Unavailable, "smtp_protocol", 0, id="rubbish-at-mail"),
        pytest.param(reply(b"2\r\n", "rcpt"), Unavailable, "smtp_protocol", 0, id="rubbish-at-rcpt"),
        pytest.param(reply(b"354 what\r\n", "rcpt"), Unavailable, "smtp_protocol", 0, id="354-at-rcpt"),
        pytest.param(reply("454 4.7.0 later", "auth"), Unavailable, "unreachable", 0, id="454-at-auth"),
        pytest.param(reply("421 4.3.2 closing", "greeting"), Unavailable, "unreachable", 0, id="421-as-greeting"),
        pytest.param(reply("421 4.3.2 closing", "ehlo"), Unavailable, "unreachable", 0, id="421-at-ehlo"),
        pytest.param(reply("421 4.3.2 closing", "auth"), Unavailable, "unreachable", 0, id="421-at-auth"),
        pytest.param(reply("421 4.3.2 closing", "mail"), Unavailable, "smtp_421", 0, id="421-at-mail"),
        pytest.param(reply("421 4.3.2 closing", "rcpt"), Unavailable, "smtp_421", 0, id="421-at-rcpt"),
        pytest.param(reply("421 4.3.2 closing", "data"), Unavailable, "smtp_421", 1, id="421-before-354"),
        pytest.param(reply("451 4.3.0 later", "mail"), Unavailable, "smtp_451", 0, id="451-at-mail"),
        pytest.param(reply("451 4.3.0 later", "data"), Unavailable, "smtp_451", 1, id="451-before-354"),
        pytest.param(reply("535 5.7.8 no", "auth"), NotAuthorized, "auth_error", 0, id="535-at-auth"),
        pytest.param(reply("553 5.7.1 not you", "mail"), Refused, "send_as_denied", 0, id="553-at-mail"),
        pytest.param(reply("550 5.7.1 not you", "mail"), Refused, "send_as_denied", 0, id="550-at-mail"),
        pytest.param(reply("553 5.7.1 not yours", "rcpt"), Refused, "send_as_denied", 0, id="553-of-postfix-at-rcpt"),
        pytest.param(reply("550 5.1.8 bad sender", "rcpt"), Refused, "send_as_denied", 0, id="sender-at-rcpt"),
        pytest.param(reply("553 5.1.3 bad syntax", "rcpt"), Refused, "invalid_recipient", 0, id="553-of-recipient"),
        pytest.param(reply("554 5.7.1 no relay", "rcpt"), Refused, "invalid_recipient", 0, id="554-at-rcpt"),
        pytest.param(reply("552 5.3.4 too big", "mail"), Refused, "too_large", 0, id="552-at-mail"),
        pytest.param(reply("554 5.5.1 no", "data"), Refused, "refused", 1, id="554-before-354"),
    ],
)  # fmt: skip
def test_failure_before_the_content_has_sent_nothing(
    smtp: FaultySmtp, plan: Plan, error: type[ProviderError], code: str, data_commands: int
) -> None:
    plan(smtp)
    wire = Wire()

    raised = failure(smtp, wire=wire)

    assert (type(raised), raised.code) == (error, code)
    assert isinstance(raised, NotSent)
    assert (smtp.ledger, smtp.data_commands, wire.started) == ([], data_commands, 0)
    send(smtp)  # healthy again, it is sent
    assert len(smtp.ledger) == 1


@pytest.mark.fault(40)
def test_drop_in_a_long_content_has_sent_nothing(smtp: FaultySmtp) -> None:
    smtp.reset(at="content")
    wire = Wire()
    # More than the buffers of both sides hold, so that the client is still writing when the
    # connection ends.
    raised = failure(
        smtp, source=SOURCE + b"x" * 76 + (b"\r\n" + b"x" * 76) * 200_000 + b"\r\n", wire=wire
    )
    assert (type(raised), raised.code, wire.started) == (Unavailable, "connection_lost", 0)
    assert (smtp.ledger, smtp.data_commands) == ([], 1)


@pytest.mark.fault(40)
def test_drop_in_a_short_content_never_counts_as_sent(smtp: FaultySmtp) -> None:
    smtp.drop(at="content")
    raised = failure(smtp)
    # All of it was in the buffers: the client cannot know how much arrived.
    assert isinstance(raised, Unavailable | OutcomeUnknown)
    assert (smtp.ledger, smtp.data_commands) == ([], 1)


@pytest.mark.fault(41)
@pytest.mark.parametrize(
    ("plan", "in_ledger"),
    [
        pytest.param(drop("dot"), 0, id="drop-after-the-dot"),
        pytest.param(reset("dot"), 0, id="reset-after-the-dot"),
        pytest.param(drop("accepted"), 1, id="drop-after-it-was-accepted"),
        pytest.param(reset("accepted"), 1, id="reset-after-it-was-accepted"),
        pytest.param(lambda smtp: smtp.silence(at="dot"), 0, id="silence-after-the-dot"),
        pytest.param(lambda smtp: smtp.silence(at="accepted"), 1, id="silence-after-it-was-accepted"),
        pytest.param(reply(b"rubbish\r\n", "accepted"), 1, id="rubbish-as-answer"),
        pytest.param(reply(b"\r\n", "accepted"), 1, id="empty-line-as-answer"),
        pytest.param(reply(b"354 go on\r\n", "accepted"), 1, id="354-as-answer"),
        pytest.param(reply(b"-55 x\r\n", "accepted"), 1, id="negative-answer"),
        pytest.param(reply(b"999 x\r\n", "accepted"), 1, id="answer-of-no-class"),
        pytest.param(reply(b"5" * 9000, "accepted"), 1, id="answer-without-end"),
        pytest.param(cut_reply(b"250", "accepted"), 1, id="250-without-a-line-end"),
        pytest.param(cut_reply(b"250 2.0.0 OK\r", "accepted"), 1, id="250-before-its-line-end"),
        pytest.param(cut_reply(b"250-2.0.0 OK\r\n250", "accepted"), 1, id="second-line-cut-off"),
        pytest.param(cut_reply(b"550 5.7.1 no", "dot"), 0, id="550-without-a-line-end"),
    ],
)  # fmt: skip
def test_missing_verdict_after_the_dot_leaves_it_unknown(
    smtp: FaultySmtp, settings: Any, plan: Plan, in_ledger: int
) -> None:
    settings.MAILHUB_WIRE_TIMEOUT_SECONDS = 2  # also for everything before the dot
    plan(smtp)
    wire = Wire()

    raised = failure(smtp, wire=wire)

    assert type(raised) is OutcomeUnknown
    assert (len(smtp.ledger), smtp.data_commands, wire.started) == (in_ledger, 1, 1)


@pytest.mark.fault(41)
@pytest.mark.parametrize(
    "beginning", [b"2", b"25", b"5", b"55", b"250-first\r\n", b"554-5.6.0 first\r\n"]
)
def test_interrupted_answer_is_no_refusal(smtp: FaultySmtp, beginning: bytes) -> None:
    smtp.reply(beginning, at="accepted")
    smtp.hang_up_after_reply = True  # the rest never comes
    raised = failure(smtp)
    assert type(raised) is OutcomeUnknown
    assert len(smtp.ledger) == 1


@pytest.mark.fault(42)
@pytest.mark.parametrize(
    ("plan", "error", "code"),
    [
        pytest.param(
            reply("451 4.3.0 later", "dot"), Unavailable, "smtp_451", id="451-after-the-dot"
        ),
        pytest.param(
            reply("452 4.3.1 full", "dot"), Unavailable, "smtp_452", id="452-after-the-dot"
        ),
        pytest.param(
            reply("421 4.3.2 closing", "dot"), Unavailable, "smtp_421", id="421-after-the-dot"
        ),
        pytest.param(reply("554 5.6.0 no", "dot"), Refused, "refused", id="554-after-the-dot"),
        pytest.param(reply("550 5.7.1 spam", "dot"), Refused, "refused", id="550-after-the-dot"),
        pytest.param(
            reply("550 5.7.60 not yours", "dot"),
            Refused,
            "send_as_denied",
            id="sender-after-the-dot",
        ),
        pytest.param(
            reply("552 5.3.4 too big", "dot"), Refused, "too_large", id="552-after-the-dot"
        ),
        pytest.param(
            reply(b"554-5.6.0 several\r\n554 lines\r\n", "dot"),
            Refused,
            "refused",
            id="554-in-several-lines",
        ),
    ],
)
def test_definite_refusal_after_the_dot_is_not_unknown(
    smtp: FaultySmtp, plan: Plan, error: type[ProviderError], code: str
) -> None:
    plan(smtp)
    wire = Wire()

    raised = failure(smtp, wire=wire)

    assert (type(raised), raised.code) == (error, code)
    assert (smtp.ledger, smtp.data_commands, wire.started) == ([], 1, 1)


@pytest.mark.fault(41)
@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(drop("quit"), id="drop-at-quit"),
        pytest.param(reset("quit"), id="reset-at-quit"),
        pytest.param(reply("500 what", "quit"), id="refused-quit"),
        pytest.param(lambda smtp: smtp.silence(at="quit"), id="silence-at-quit"),
    ],
)
def test_accepted_mail_stays_accepted_at_any_later_failure(smtp: FaultySmtp, plan: Plan) -> None:
    plan(smtp)
    send(smtp)
    assert len(smtp.ledger) == 1


@pytest.mark.fault(43)
@pytest.mark.parametrize(
    ("plan", "error", "code"),
    [
        pytest.param(
            reply("550 5.1.1 who", "rcpt", recipient=MIRA), Refused, "invalid_recipient", id="550"
        ),
        pytest.param(
            reply("553 5.1.3 what", "rcpt", recipient=MIRA), Refused, "invalid_recipient", id="553"
        ),
        pytest.param(
            reply("451 4.2.0 later", "rcpt", recipient=MIRA), Unavailable, "smtp_451", id="451"
        ),
        pytest.param(
            reply("452 4.5.3 many", "rcpt", recipient=MIRA), Unavailable, "smtp_452", id="452"
        ),
    ],
)
def test_one_refused_recipient_of_three_stops_the_mail(
    smtp: FaultySmtp, plan: Plan, error: type[ProviderError], code: str
) -> None:
    plan(smtp)
    wire = Wire()

    raised = failure(smtp, wire=wire)

    assert (type(raised), raised.code) == (error, code)
    assert (smtp.ledger, smtp.data_commands, wire.started) == ([], 0, 0)
    assert "rset" in [command.lower() for command in smtp.commands]
    if error is Refused:
        assert MIRA in raised.detail
        assert CHARLES not in raised.detail


@pytest.mark.fault(43)
def test_permanent_refusal_counts_beside_a_temporary_one(smtp: FaultySmtp) -> None:
    smtp.reply("451 4.2.0 later", at="rcpt", recipient=CHARLES)
    smtp.reply("550 5.1.1 who", at="rcpt", recipient=MIRA)
    raised = failure(smtp)
    assert (type(raised), raised.code) == (Refused, "invalid_recipient")
    assert MIRA in raised.detail
    assert CHARLES not in raised.detail


@pytest.mark.fault(43)
def test_recipient_refused_by_a_hang_up_is_refused(smtp: FaultySmtp) -> None:
    smtp.reply("550 5.1.1 who", at="rcpt", recipient=EVERYBODY[2])
    smtp.hang_up_after_reply = True
    raised = failure(smtp)
    assert (type(raised), raised.code) == (Refused, "invalid_recipient")


@pytest.mark.fault(43)
def test_server_that_forwards_a_recipient_accepts_it(smtp: FaultySmtp) -> None:
    smtp.reply("251 2.1.5 will forward", at="rcpt", recipient=MIRA)
    send(smtp)
    assert smtp.data_commands == 1


def test_server_text_is_in_no_error(smtp: FaultySmtp) -> None:
    points: tuple[Point, ...] = ("auth", "mail", "rcpt", "data", "dot")
    for point in points:
        smtp.reply("550 5.7.1 canary", at=point)
        raised = failure(smtp)
        assert "canary" not in f"{raised!r} {raised.code} {raised.detail} {raised.__cause__!r}"
        assert raised.__suppress_context__ or raised.__context__ is None


def test_wire_started_precedes_the_end_of_the_content(smtp: FaultySmtp) -> None:
    at_the_dot = smtp.hold(at="dot")
    seen: list[tuple[int, int]] = []

    def started() -> None:
        seen.append((smtp.data_commands, len(smtp.raw_contents)))
        at_the_dot.release()

    provider(smtp).send(
        Envelope(sender=ADA, recipients=(CHARLES,), source=SOURCE), Handover(wire_started=started)
    )
    assert seen == [(1, 0)]
