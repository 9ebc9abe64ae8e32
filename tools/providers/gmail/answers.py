"""The meaning of error answers of the Gmail API, for reading and for sending. Pure.

Errors are distinguished by status and reason, never by their text, which is for people and may hold
mail content (https://developers.google.com/workspace/gmail/api/guides/handle-errors).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from accounts.connect.google import COMPOSE_SCOPE, READ_SCOPE
from accounts.infra.foreign_text import load_json
from accounts.infra.texts import join, translatable
from approvals.gate.backoff import parse_retry_after
from tools.providers.errors import (
    NotFound,
    NotPermitted,
    OutcomeUnknown,
    ProviderError,
    Refused,
    TokenRefused,
    Unavailable,
)

TOO_OFTEN = frozenset(
    {
        "rateLimitExceeded",
        "userRateLimitExceeded",
        "dailyLimitExceeded",
        "quotaExceeded",
        "RATE_LIMIT_EXCEEDED",
    }
)
NO_PERMISSION = frozenset({"insufficientPermissions", "ACCESS_TOKEN_SCOPE_INSUFFICIENT"})
# The account cannot be served as it is. This says nothing about the request itself.
FAILED_PRECONDITION = "failedPrecondition"
NO_MESSAGE = translatable(
    "There is no such message. Check message_id: it comes from a list or a search of this mailbox."
)
CONNECT_AGAIN = translatable("`manage.py connect_mailbox gmail` connects it again.")
TOKEN_REFUSED = join(
    translatable("Gmail refused the access token. If it refuses the next one too:"), CONNECT_AGAIN
)
SENTENCES = {
    "too_large": translatable("Gmail takes at most 25 MB, attachments included."),
    "invalid_recipient": translatable("Gmail refused a recipient or a header of the mail."),
    "send_as_denied": translatable("Gmail does not let this account send as this address."),
    "refused": translatable("Gmail refused the request."),
}


class BadRequest(Refused):
    """A bad request: Gmail does not understand the id, page token or query."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An answer with a status of 300 or more. `reason` is Google's own word, `retry_after` is in
    seconds.
    """

    status: int
    reason: str = ""
    retry_after: int | None = None

    @property
    def is_too_often(self) -> bool:
        return self.status == 429 or (self.status == 403 and self.reason in TOO_OFTEN)

    @property
    def counted_as(self) -> str:
        """Return the status, or 429 for every answer that reports too many requests."""
        return "429" if self.is_too_often else str(self.status)


def parse_answer(
    status: int, headers: Mapping[str, Any], content: bytes, *, now: datetime
) -> Answer:
    """Return the parts of an error answer; leave out the parts that cannot be read."""
    return Answer(
        status=status,
        reason=_reason(content),
        retry_after=parse_retry_after(headers.get("retry-after"), now=now),
    )


def _reason(content: bytes) -> str:
    try:
        error = load_json(content)["error"]
        named = [*error.get("errors", ()), *error.get("details", ())]
        return str(next(each["reason"] for each in named if each.get("reason")))
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration):
        return ""


def error_of_reading(answer: Answer, *, scope: str = READ_SCOPE) -> ProviderError:
    """Return the error for any call except the sending one: nothing was sent."""
    if answer.is_too_often:
        return Unavailable(
            "rate_limited",
            "Gmail asks mailhub to try again later.",
            retry_after=answer.retry_after,
            pauses=True,
        )
    match answer.status:
        case 401:
            return TokenRefused("auth_error", TOKEN_REFUSED)
        case 403 if answer.reason in NO_PERMISSION:
            return NotPermitted(
                scope,
                join(
                    translatable(
                        "The mailbox was connected without the permission %(scope)s.", scope=scope
                    ),
                    CONNECT_AGAIN,
                ),
            )
        case 404:
            return NotFound(NO_MESSAGE)
        case 413:
            return Refused("too_large", SENTENCES["too_large"])
        case 400 if answer.reason != FAILED_PRECONDITION:
            return BadRequest("refused", SENTENCES["refused"])
        case 403:
            return Refused(
                "refused",
                "Gmail forbids this. Check that the Gmail API is switched on for the project.",
            )
        case status if 400 <= status < 500 and status != 408:
            return Refused("refused", SENTENCES["refused"])
    return Unavailable(
        "provider_error", "Gmail is not available right now.", retry_after=answer.retry_after
    )


def error_of_sending(answer: Answer) -> ProviderError:
    """Return the error for drafts.send: refused, not now, or outcome unknown."""
    no_permission = answer.status == 403 and answer.reason in NO_PERMISSION
    if answer.is_too_often or answer.status in (401, 413) or no_permission:
        return error_of_reading(answer, scope=COMPOSE_SCOPE)
    match answer.status:
        case 400:
            code = "refused" if answer.reason == FAILED_PRECONDITION else "invalid_recipient"
        case 403:
            code = "refused" if answer.reason == "domainPolicy" else "send_as_denied"
        case 404:
            return NotFound(translatable("The draft is gone."))
        case 422:
            code = "refused"
        case status:
            return OutcomeUnknown(f"gmail_{status}", "Gmail gave no clear answer.")
    return Refused(code, SENTENCES[code])
