"""The refusals of REST in the OpenAPI document: what happened, and what to do."""

from http import HTTPStatus
from typing import Any

from tools.surfaces.openapi import examples

_INVALID = (
    "Some parameters are not valid.",
    "Fix each field that `errors` names. The same request fails again.",
)
_FORBIDDEN = (
    "The token, or the role of its person, does not allow it.",
    "Use a token with the scope of this operation, or ask a manager of the mailbox for the role.",
)
# By response: what happened and what to do, for each code that it can have.
PROBLEMS: dict[str, dict[str, tuple[str, str]]] = {
    "400": {
        "invalid_input": (
            "The request cannot be read.",
            "Check its JSON and headers, then send it again.",
        )
    },
    "401": {
        "unauthenticated": (
            "The token is missing, unknown, expired or revoked.",
            "Send `Authorization: Bearer mh_…` with a token from the page Tokens.",
        )
    },
    "403": {"forbidden": _FORBIDDEN},
    "403_rules": {
        "forbidden": _FORBIDDEN,
        "policy_blocked": (
            "The rules of the mailbox or of this server refuse it.",
            "Do not repeat it. Only people can change these rules.",
        ),
    },
    "404": {
        "not_found": (
            "It does not exist, or you may not see it.",
            "Check the id. Lists contain everything that you may use.",
        )
    },
    "408": {
        "invalid_input": (
            "The body arrived too slowly.",
            "Send it again over a faster connection.",
        )
    },
    "409": {
        "conflict": (
            "The state has changed.",
            "Read it again, then decide if the request is still needed.",
        )
    },
    "413": {
        "too_large": (
            "The body or a file is too large.",
            "Send less. The text of the answer names the limit in bytes.",
        )
    },
    "415": {
        "unsupported_media_type": (
            "The body is not JSON.",
            "Send it with `Content-Type: application/json`.",
        )
    },
    "422": {"invalid_input": _INVALID},
    "422_keyed": {
        "invalid_input": _INVALID,
        "idempotency_mismatch": (
            "This key was used for another request.",
            "Use a new key for a new request.",
        ),
    },
    "424": {
        "auth_error": (
            "The mailbox must be reconnected.",
            "Ask the mailbox owner to reconnect it on the page Mailboxes.",
        )
    },
    "429": {
        "rate_limited": (
            "A quota is used up.",
            "Wait for the seconds in `Retry-After`, then send it again.",
        )
    },
    "500": {
        "transient": (
            "A fault of mailhub; nothing was sent by this request.",
            "Repeat it, with the same `Idempotency-Key` if it had one. "
            "If it fails again, give `X-Request-ID` to your administrator.",
        )
    },
    "503": {
        "transient": (
            "Not available right now.",
            "Wait for the seconds in `Retry-After`, then repeat it, with the same "
            "`Idempotency-Key` if it had one.",
        )
    },
}


def describe_problems(name: str) -> dict[str, Any]:
    """Return the description and the examples of a response; its name begins with the status."""
    found, status = PROBLEMS[name], HTTPStatus(int(name[:3]))
    return {
        "description": " ".join(happened for happened, _ in found.values()),
        "content": {
            "application/problem+json": {
                "schema": {"$ref": "#/components/schemas/ProblemDocument"},
                "examples": {
                    code: {"summary": to_do, "value": examples.problem(code, status, happened)}
                    for code, (happened, to_do) in found.items()
                },
            }
        },
    }
