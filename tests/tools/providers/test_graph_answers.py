"""The meaning of each error answer of Microsoft Graph, for a read and for the call that sends."""

from typing import Any

import httpx2
import pytest

from tools.providers.errors import (
    NotFound,
    NotPermitted,
    NotSent,
    OutcomeUnknown,
    ProviderError,
    Refused,
    Unavailable,
)
from tools.providers.graph import answers
from tools.providers.graph.answers import Answer, refusal
from tools.providers.graph.client import GraphClient

Kind = tuple[type[ProviderError], str]

LATER: Kind = (Unavailable, "rate_limited")
TOKEN: Kind = (Unavailable, "token_refused")
BROKEN: Kind = (Unavailable, "unreachable")
SCOPE: Kind = (NotPermitted, "auth_error")
GONE: Kind = (NotFound, "not_found")
LARGE: Kind = (Refused, "too_large")
NO: Kind = (Refused, "refused")
RECIPIENT: Kind = (Refused, "invalid_recipient")
SEND_AS: Kind = (Refused, "send_as_denied")


def unknown(status: int) -> Kind:
    return OutcomeUnknown, f"http_{status}"


# Status and code of the answer; its meaning for a read, and for the call that sends.
MEANINGS: dict[tuple[int, str], tuple[Kind, Kind]] = {
    (302, ""): (NO, unknown(302)),
    (307, ""): (NO, unknown(307)),
    (400, ""): (NO, NO),
    (400, "ErrorInvalidRequest"): (NO, NO),
    **{(400, code): (RECIPIENT, RECIPIENT) for code in sorted(answers.INVALID_RECIPIENT)},
    **{(400, code): (GONE, GONE) for code in sorted(answers.NOT_FOUND)},
    **{(400, code): (LARGE, LARGE) for code in sorted(answers.TOO_LARGE)},
    (401, "InvalidAuthenticationToken"): (TOKEN, TOKEN),
    (401, ""): (TOKEN, TOKEN),
    (403, ""): (SCOPE, SCOPE),
    (403, "ErrorAccessDenied"): (SCOPE, SCOPE),
    **{(403, code): (SEND_AS, SEND_AS) for code in sorted(answers.SEND_AS)},
    (403, "ErrorItemNotFound"): (GONE, GONE),
    (404, "ErrorItemNotFound"): (GONE, GONE),
    (404, ""): (GONE, GONE),
    (408, ""): (BROKEN, unknown(408)),
    (409, "ErrorIrresolvableConflict"): (NO, NO),
    (413, "RequestBodyTooLarge"): (LARGE, LARGE),
    (413, ""): (LARGE, LARGE),
    (422, "ErrorWhatever"): (NO, NO),
    (423, ""): (BROKEN, BROKEN),
    (425, ""): (BROKEN, BROKEN),
    **{(429, code): (LATER, LATER) for code in ("", "ErrorWhatever", *sorted(answers.LATER))},
    **{(400, code): (LATER, LATER) for code in sorted(answers.LATER)},
    # A server that is busy has certainly not carried out a read; it may have sent a mail.
    **{(503, code): (LATER, unknown(503)) for code in sorted(answers.LATER)},
    (500, ""): (BROKEN, unknown(500)),
    (502, ""): (BROKEN, unknown(502)),
    (503, ""): (BROKEN, unknown(503)),
    (504, ""): (BROKEN, unknown(504)),
    (500, "ErrorItemNotFound"): (BROKEN, unknown(500)),
    (500, "ErrorSendAsDenied"): (BROKEN, unknown(500)),
}


def hand_over(
    status: int, code: str = "", *, retry_after: str = "", tokens: list[str] | None = None
) -> ProviderError | None:
    """Send to a server that gives this answer, and return the error."""
    headers = {"Retry-After": retry_after} if retry_after else {}
    said = {"error": {"code": code, "message": "PROVIDER TEXT"}}
    transport = httpx2.MockTransport(
        lambda request: httpx2.Response(status, headers=headers, json=said)
    )
    refused = tokens if tokens is not None else []

    def token(rejected: str) -> str:
        refused.append(rejected)
        return f"token {len(refused)}"

    client = GraphClient(
        "http://graph.example/v1.0", "/me", tokens=token, key="a mailbox",
        transport=transport, transports=lambda: transport,
    )  # fmt: skip
    try:
        client.hand_over("/sendMail", wire_started=lambda: None, answer_seconds=5)
    except ProviderError as error:
        return error
    return None


def kind_of(error: ProviderError | None) -> Kind | None:
    return (type(error), error.code) if error else None


def test_status_and_code_decide_what_an_answer_means() -> None:
    wrong = {}
    for (status, code), expected in MEANINGS.items():
        answer = Answer(status=status, body={"error": {"code": code, "message": "PROVIDER TEXT"}})
        errors = refusal(answer, scope="Mail.Read"), hand_over(status, code)
        if tuple(map(kind_of, errors)) != expected:
            wrong[f"{status} {code}"] = errors
        assert not [error for error in errors if "PROVIDER TEXT" in str(error and error.detail)]
    assert wrong == {}


def test_only_an_error_of_the_client_says_that_nothing_went_out() -> None:
    """Every 2xx is an acceptance; a read can never be in doubt."""
    for status in (200, 202, 204):
        assert hand_over(status) is None
    for status in (300, 301, 303, 304, 308, 400, 405, 410, 415, 451, 499, 501, 507, 599):
        sure = isinstance(hand_over(status), NotSent)
        assert sure is (400 <= status < 500), status
        assert isinstance(refusal(Answer(status=status), scope="Mail.Read"), NotSent), status


def test_code_counts_only_at_its_place() -> None:
    bodies: tuple[Any, ...] = (
        None, [], "ErrorSendAsDenied", {"error": "ErrorSendAsDenied"}, {"error": None},
        {"code": "ErrorSendAsDenied"}, {"error": {"message": "ErrorSendAsDenied"}},
    )  # fmt: skip
    for body in bodies:
        assert kind_of(refusal(Answer(status=400, body=body), scope="Mail.Read")) == NO, body


@pytest.mark.fault(33)
def test_retry_after_is_passed_on_and_pauses_only_if_throttled() -> None:
    for status, code, pauses in (
        (429, "", True),
        (503, "ErrorServerBusy", True),
        (503, "", False),
        (401, "", False),
    ):
        answer = Answer(status=status, body={"error": {"code": code}}, retry_after="17")
        error = refusal(answer, scope="Mail.Read")
        assert isinstance(error, Unavailable)
        assert (error.retry_after, error.pauses) == (17, pauses), (status, code)
    for value, seconds in (("30", 30), ("999999999999", 3600), ("soon", None)):
        error = refusal(Answer(status=429, retry_after=value), scope="Mail.Read")
        assert isinstance(error, Unavailable)
        assert (error.retry_after, error.pauses) == (seconds, True)
        sending = hand_over(429, retry_after=value)
        assert isinstance(sending, Unavailable)
        assert (sending.retry_after, sending.pauses) == (seconds, True)


def test_missing_permission_names_the_scope_of_the_call() -> None:
    reading, sending = refusal(Answer(status=403), scope="Mail.Read"), hand_over(403)
    for error, scope in ((reading, "Mail.Read"), (sending, "Mail.Send")):
        assert isinstance(error, NotPermitted)
        assert error.required_scope == scope


def test_token_refused_at_the_send_is_renewed_and_not_repeated() -> None:
    tokens: list[str] = []
    assert kind_of(hand_over(401, tokens=tokens)) == TOKEN
    assert tokens == ["", "token 1"]


def test_limit_is_named_if_a_mail_is_too_large() -> None:
    assert "4,194,304" in refusal(Answer(status=413), scope="Mail.Send").detail
