"""Examples in the OpenAPI document besides those of tools and answers, which have their own.

The tests compare all of them with the schemas.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from accounts.infra.problems import Problem
from tools.answers import ACTION, ID, LATER, SHA256
from tools.catalog.entries import TOOLS

REQUESTS: dict[str, Mapping[str, Any]] = {name: tool.example for name, tool in TOOLS.items()} | {
    "webhooks_create": {"url": "https://agent.example/hook", "events": ["action.succeeded"]},
}

QUERIES: dict[str, dict[str, Any]] = {
    "actions_list": {"state": "pending", "limit": 20},
    "actions_get": {"wait": 30},
}

_AUDIT = {"sequence": 412, "hash": SHA256}
MESSAGES: dict[str, dict[str, Any]] = {
    "action": {
        "type": "action.succeeded",
        "timestamp": LATER,
        "data": {
            **{name: ACTION[name] for name in ("id", "state", "tool", "mailbox", "review_url")},
            "sequence": 4,
            "next": "It was sent. Do not propose it again.",
            "metadata": {"ticket": "4711"},
            "audit": _AUDIT,
        },
    },
    "security": {
        "type": "security.sign_in_failed",
        "timestamp": LATER,
        "data": {
            "id": ID,
            "event": "sign_in_failed",
            "actor": "visitor",
            "subject": "7",
            "method": "password",
            "network": "203.0.113.0/24",
            "audit": _AUDIT,
        },
    },
}


def problem(code: str, status: HTTPStatus, detail: str) -> dict[str, Any]:
    """Return the example of a problem document."""
    document = Problem(code, detail, status=status.value).as_dict("/api/v1/actions")
    if status == HTTPStatus.UNPROCESSABLE_ENTITY and code == "invalid_input":
        document["errors"] = [{"field": "to.0", "message": "is not an e-mail address"}]
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        document["retry_after"] = 41
    return document
