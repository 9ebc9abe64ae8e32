"""A table of the delays before the next attempt and before the next lookup in Sent."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from approvals.core.states import Status
from approvals.core.types import BEFORE_WIRE, Outcome
from approvals.gate.backoff import lookup_wait, parse_retry_after, retry_wait
from approvals.gate.outcome import Next, next_state

NOW = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)
HOUR = 3600


def seconds(value: timedelta | None) -> float | None:
    return None if value is None else value.total_seconds()


@pytest.mark.parametrize(
    ("tries", "retry_after", "expected"),
    [
        (0, None, 4), (1, None, 4), (2, None, 8), (3, None, 16), (4, None, 32), (8, None, 512), (9, None, 900),
        (10, None, 900), (10**6, None, 900),
        (1, 0, 4), (1, 3, 4), (1, 30, 30), (1, HOUR, HOUR), (1, HOUR + 1, HOUR), (1, 10**30, HOUR),
        (1, -1, 4), (1, -(10**30), 4), (9, 30, 900),
    ],
)  # fmt: skip
def test_retry_delay_doubles_from_5_seconds_to_15_minutes(
    tries: int, retry_after: int | None, expected: int
) -> None:
    assert seconds(retry_wait(tries, retry_after=retry_after)) == expected


@pytest.mark.parametrize(
    ("outcome", "status", "wait", "rest"),
    [
        ({"verdict": "accepted"}, Status.SUCCEEDED, None, None),
        ({"verdict": "accepted", "retry_after": 60}, Status.SUCCEEDED, None, None),
        ({"verdict": "refused"}, Status.FAILED, None, None),
        (
            {"verdict": "refused", "retry_after": 60, "pauses_mailbox": True},
            Status.FAILED,
            None,
            None,
        ),
        ({"verdict": "unknown"}, Status.UNKNOWN, 15, None),
        (
            {"verdict": "unknown", "retry_after": 60, "pauses_mailbox": True},
            Status.UNKNOWN,
            15,
            60,
        ),
        ({"verdict": "not_sent"}, Status.APPROVED, 8, None),
        ({"verdict": "not_sent", "pauses_mailbox": True}, Status.APPROVED, 8, 8),
        ({"verdict": "not_sent", "retry_after": 60}, Status.APPROVED, 60, 60),
        ({"verdict": "not_sent", "retry_after": 0}, Status.APPROVED, 8, 8),
        ({"verdict": "not_sent", "retry_after": -5}, Status.APPROVED, 8, 8),
        ({"verdict": "not_sent", "retry_after": 10**12}, Status.APPROVED, HOUR, HOUR),
    ],
)
def test_only_a_certainly_unsent_mail_is_retried(
    outcome: dict[str, Any], status: Status, wait: int | None, rest: int | None
) -> None:
    proof = None if outcome["verdict"] in ("accepted", "unknown") else BEFORE_WIRE
    following = next_state(Outcome(**outcome, proof=proof), tries=2)

    assert isinstance(following, Next)
    assert (following.status, seconds(following.wait), seconds(following.rest)) == (
        status,
        wait,
        rest,
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("120", 120), (" 120 ", 120), ("0", 0), ("1.2", 2), ("99999999999999999999", HOUR), (str(HOUR + 1), HOUR),
        ("Mon, 04 May 2026 12:02:00 GMT", 120), ("Monday, 04-May-26 12:02:00 GMT", 120),
        ("Mon May  4 12:02:00 2026", 120), ("Mon, 04 May 2026 11:00:00 GMT", 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", HOUR),
        ("Mon, 04 May 2026 14:02:00 +0200", 120),
        (None, None), ("", None), ("soon", None), ("-5", None), ("+5", None), ("1e3", None), ("1_000", None),
        ("٣", None), ("1" * 400, None), ("Mon, 99 May 2026 12:02:00 GMT", None), ("inf", None), ("nan", None),
    ],
)  # fmt: skip
def test_retry_after_is_capped_at_an_hour(value: str | None, expected: int | None) -> None:
    assert parse_retry_after(value, now=NOW) == expected


@pytest.mark.parametrize(
    ("made", "since_lost", "failed", "expected"),
    [
        (1, 15, False, 45), (2, 60, False, 240), (3, 300, False, 600), (4, 900, False, 2700), (5, 3600, False, None),
        # after a time without workers
        (1, 0, False, 60), (1, 7200, False, 15), (9, 0, False, None),
        (4, 900, True, 2700), (5, 3600, True, HOUR), (50, 10**6, True, HOUR),
    ],
)  # fmt: skip
def test_lost_answer_is_looked_up_on_schedule(
    made: int, since_lost: int, failed: bool, expected: int | None
) -> None:
    assert (
        seconds(lookup_wait(made, since_lost=timedelta(seconds=since_lost), failed=failed))
        == expected
    )
