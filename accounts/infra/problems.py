"""Error answers for callers: one exception for every surface.

The codes and statuses are those of `docs/contract.md` (RFC 9457 problem details). A detail never
quotes mail content.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from accounts.infra.database import is_unavailable
from accounts.infra.foreign_text import PATH_CHARACTERS
from accounts.infra.refused_parameters import explain
from accounts.infra.texts import as_translatable

STATUS = {
    "invalid_input": 422,
    "unauthenticated": 401,
    "forbidden": 403,
    "policy_blocked": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "conflict": 409,
    "too_large": 413,
    "unsupported_media_type": 415,
    "idempotency_mismatch": 422,
    "auth_error": 424,
    "rate_limited": 429,
    "transient": 503,
}

TITLES = {
    "invalid_input": "The request is not valid",
    "unauthenticated": "Sign in or send a token",
    "forbidden": "Not allowed",
    "policy_blocked": "Blocked by policy",
    "not_found": "Not found",
    "method_not_allowed": "This address does not take this method",
    "conflict": "The state has changed",
    "too_large": "Too large",
    "unsupported_media_type": "The body has a type that is not taken here",
    "idempotency_mismatch": "This idempotency key belongs to another request",
    "auth_error": "The mailbox must be reconnected",
    "rate_limited": "Too many requests",
    "transient": "Not available right now",
}


@dataclass(frozen=True, kw_only=True)
class FieldError:
    """One wrong parameter: its path (`to.0`), and an English sentence, which pages translate."""

    field: str
    message: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", as_translatable(self.message))


class Problem(Exception):
    """A refusal with a code for programs and a sentence for people.

    `detail` is English for programs; a page shows it in the reader's language. A sentence with
    values is made by `accounts.infra.texts.translatable`, because its source is what is translated.
    `retry_after` is in seconds; `required_scope` names a provider's permission. `headers` are for
    the answer over HTTP.
    """

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        status: int | None = None,
        errors: tuple[FieldError, ...] = (),
        retry_after: int | None = None,
        required_scope: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(code)
        self.code = code
        self.detail = as_translatable(detail)
        self.status = status or STATUS[code]
        self.errors = errors
        self.retry_after = retry_after
        self.required_scope = required_scope
        self.headers = dict(headers or {})

    def as_dict(self, instance: str = "") -> dict[str, Any]:
        """Return the members of an `application/problem+json` document, without the empty ones."""
        members = {
            "type": f"urn:mailhub:problem:{self.code}",
            "title": TITLES[self.code],
            "status": self.status,
            "detail": self.detail,
            "instance": instance,
            "code": self.code,
            "errors": [{"field": e.field, "message": e.message} for e in self.errors],
            "retry_after": self.retry_after,
            "required_scope": self.required_scope,
        }
        return {name: value for name, value in members.items() if value not in ("", [], None)}


def not_found(detail: str = "It does not exist, or you may not see it.") -> Problem:
    """Return the same answer for a missing thing and for one that belongs to somebody else."""
    return Problem("not_found", detail)


BUSY_SECONDS = 10  # the pool and locked rows are free again within half a minute


def fault(error: BaseException | None = None) -> Problem:
    """Return the problem for an unexpected error; only the log has the error."""
    if error is not None and is_unavailable(error):
        return unavailable()
    return Problem(
        "transient", "Something went wrong here. Nothing was sent by this request.", status=500
    )


def unavailable() -> Problem:
    """Return the problem for a database that is away or busy."""
    return Problem(
        "transient",
        "The database is busy. Nothing was sent by this request.",
        retry_after=BUSY_SECONDS,
    )


MOST_ERRORS = 20  # more of them help nobody, and a body can have 100,000


def invalid(
    error: ValidationError, wanted: type[BaseModel], *, hints: Mapping[str, str] | None = None
) -> Problem:
    """Return a problem that names wrong ones of the parameters `wanted`, without their values.

    `hints` say what to do instead of unknown parameters.
    """
    errors = tuple(
        FieldError(
            field=".".join(str(part) for part in item["loc"])[:PATH_CHARACTERS],
            message=explain(item, wanted, hints or {}),
        )
        for item in error.errors(include_url=False)[:MOST_ERRORS]
    )
    return Problem("invalid_input", "Some parameters are not valid.", errors=errors)
