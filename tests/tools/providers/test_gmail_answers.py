"""The meaning of each error answer of Gmail, for a read and for the call that sends."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from accounts.connect.google import COMPOSE_SCOPE, READ_SCOPE
from tools.providers.errors import (
    NotFound,
    NotPermitted,
    NotSent,
    OutcomeUnknown,
    ProviderError,
    Refused,
    TokenRefused,
    Unavailable,
)
from tools.providers.gmail.answers import (
    NO_PERMISSION,
    TOO_OFTEN,
    Answer,
    BadRequest,
    error_of_reading,
    error_of_sending,
    parse_answer,
)

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
Kind = tuple[type[ProviderError], str]

LATER: Kind = (Unavailable, "rate_limited")
TOKEN: Kind = (TokenRefused, "auth_error")
SCOPE: Kind = (NotPermitted, "auth_error")
GONE: Kind = (NotFound, "not_found")
LARGE: Kind = (Refused, "too_large")
NO: Kind = (Refused, "refused")
BAD: Kind = (BadRequest, "refused")
RECIPIENT: Kind = (Refused, "invalid_recipient")
SEND_AS: Kind = (Refused, "send_as_denied")
BROKEN: Kind = (Unavailable, "provider_error")


def unknown(status: int) -> Kind:
    return OutcomeUnknown, f"gmail_{status}"


# Status and reason of the answer; its meaning for a read, and for the call that sends.
MEANINGS: dict[tuple[int, str], tuple[Kind, Kind]] = {
    (302, ""): (BROKEN, unknown(302)),
    (307, ""): (BROKEN, unknown(307)),
    (400, ""): (BAD, RECIPIENT),
    (400, "invalidArgument"): (BAD, RECIPIENT),
    (400, "failedPrecondition"): (NO, NO),
    (401, "authError"): (TOKEN, TOKEN),
    (401, ""): (TOKEN, TOKEN),
    **{(403, reason): (LATER, LATER) for reason in sorted(TOO_OFTEN)},
    **{(403, reason): (SCOPE, SCOPE) for reason in sorted(NO_PERMISSION)},
    (403, "accessNotConfigured"): (NO, SEND_AS),
    (403, "domainPolicy"): (NO, NO),
    (403, "forbidden"): (NO, SEND_AS),
    (403, ""): (NO, SEND_AS),
    (404, "notFound"): (GONE, GONE),
    (408, ""): (BROKEN, unknown(408)),
    (409, ""): (NO, unknown(409)),
    (413, ""): (LARGE, LARGE),
    (418, ""): (NO, unknown(418)),
    (422, ""): (NO, NO),
    (429, ""): (LATER, LATER),
    (429, "rateLimitExceeded"): (LATER, LATER),
    (429, "anything"): (LATER, LATER),
    (500, ""): (BROKEN, unknown(500)),
    (502, ""): (BROKEN, unknown(502)),
    (503, ""): (BROKEN, unknown(503)),
    (504, ""): (BROKEN, unknown(504)),
    # A reason has its meaning only with its status.
    (503, "rateLimitExceeded"): (BROKEN, unknown(503)),
    (400, "rateLimitExceeded"): (BAD, RECIPIENT),
    (401, "insufficientPermissions"): (TOKEN, TOKEN),
    (404, "insufficientPermissions"): (GONE, GONE),
}


def kind_of(error: ProviderError) -> Kind:
    return type(error), error.code


def test_status_and_reason_decide_what_an_answer_means() -> None:
    wrong = {
        f"{status} {reason}": found
        for (status, reason), (reading, sending) in MEANINGS.items()
        for answer in [Answer(status=status, reason=reason)]
        if (found := (kind_of(error_of_reading(answer)), kind_of(error_of_sending(answer))))
        != (reading, sending)
    }
    assert wrong == {}


def test_reasons_are_the_ones_that_google_documents() -> None:
    assert {
        "rateLimitExceeded",
        "userRateLimitExceeded",
        "dailyLimitExceeded",
        "quotaExceeded",
    } <= TOO_OFTEN
    assert {"insufficientPermissions", "ACCESS_TOKEN_SCOPE_INSUFFICIENT"} == NO_PERMISSION


def test_unlisted_answer_to_the_send_is_unknown() -> None:
    """Only these statuses say that nothing went out; a read can never be in doubt."""
    known = {400, 401, 403, 404, 413, 422, 429}
    for status in range(300, 600):
        answer = Answer(status=status)
        assert isinstance(error_of_sending(answer), NotSent) is (status in known), status
        assert isinstance(error_of_reading(answer), NotSent), status


@pytest.mark.fault(33)
def test_retry_after_is_passed_on_and_pauses_only_if_throttled() -> None:
    for status, reason, pauses in ((429, "", True), (403, "quotaExceeded", True), (503, "", False)):
        error = error_of_reading(Answer(status=status, reason=reason, retry_after=17))
        assert isinstance(error, Unavailable)
        assert (error.retry_after, error.pauses) == (17, pauses)
    sending = error_of_sending(Answer(status=429, retry_after=17))
    assert isinstance(sending, Unavailable)
    assert (sending.retry_after, sending.pauses) == (17, True)


@pytest.mark.fault(34)
def test_missing_permission_names_the_scope_of_the_call() -> None:
    answer = Answer(status=403, reason="insufficientPermissions")
    for error, scope in (
        (error_of_reading(answer), READ_SCOPE),
        (error_of_reading(answer, scope=COMPOSE_SCOPE), COMPOSE_SCOPE),
        (error_of_sending(answer), COMPOSE_SCOPE),
    ):
        assert isinstance(error, NotPermitted)
        assert error.required_scope == scope
        assert scope in error.detail


def body(**error: Any) -> bytes:
    return json.dumps({"error": error}).encode()


@pytest.mark.fault(35)
def test_reason_is_read_from_any_form_of_the_body_and_no_text() -> None:
    read = {
        content: parse_answer(403, {}, content, now=NOW).reason
        for content in (
            body(errors=[{"reason": "quotaExceeded", "message": "canary"}]),
            body(errors=[{"message": "canary"}], details=[{"reason": "quotaExceeded"}]),
            body(details=[{"@type": "x"}, {"reason": "quotaExceeded"}]),
        )
    }
    assert set(read.values()) == {"quotaExceeded"}
    for content in (
        b"", b"canary", b"[]", b"null", b'{"error": "quotaExceeded"}', b'{"error": null}',
        body(message="quotaExceeded"), body(errors=[]), body(errors=["quotaExceeded"]), body(errors=7),
        b"\xff\xfe",
    ):  # fmt: skip
        assert parse_answer(403, {}, content, now=NOW).reason == "", content


def test_retry_after_of_an_answer_is_read_in_seconds() -> None:
    for value, seconds in (
        ("40", 40),
        ("Tue, 24 Nov 2026 12:01:30 GMT", 90),
        ("99999999", 3600),
        ("soon", None),
        (None, None),
    ):
        headers = {} if value is None else {"retry-after": value}
        answer = parse_answer(429, headers, b"", now=NOW)
        assert answer == Answer(status=429, retry_after=seconds)
        assert answer.counted_as == "429"
    assert replace(answer, status=403, reason="quotaExceeded").counted_as == "429"
    assert replace(answer, status=403).counted_as == "403"
