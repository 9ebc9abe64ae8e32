"""The messages of webhooks and callbacks, for the section `webhooks` of the OpenAPI document."""

from typing import Any

from approvals.core.answers import ActionMessage, SecurityMessage
from approvals.outbound.webhooks.events import SECURITY
from approvals.reports.steps import EVENTS
from tools.surfaces.openapi import examples

TYPES = (ActionMessage, SecurityMessage)
_SIGNED = [
    ("webhook-id", "the same if the message arrives again"),
    ("webhook-timestamp", "seconds since 1970"),
    ("webhook-signature", "Standard Webhooks: `v1,` and a HMAC-SHA256 in base64"),
]
_ANSWERS = {
    "2XX": {"description": "It has arrived"},
    "410": {"description": "The webhook ends; of a callback, only this message"},
    "default": {"description": "mailhub tries again, for three days"},
}


def describe_webhooks(named: dict[int, Any]) -> dict[str, Any]:
    """Return the section `webhooks`: one entry for each event."""
    shown = {event: _message(event, named[id(ActionMessage)]) for event in EVENTS}
    return {**shown, SECURITY: _message(SECURITY, named[id(SecurityMessage)])}


def _message(event: str, schema: Any) -> dict[str, Any]:
    example = examples.MESSAGES[event.partition(".")[0]]
    if event in EVENTS:
        said = {**example["data"], "state": EVENTS[event].value}
        example = {**example, "type": event, "data": said}
    return {
        "post": {
            "summary": event,
            "security": [],
            "parameters": [
                {
                    "name": name,
                    "in": "header",
                    "required": True,
                    "description": described,
                    "schema": {"type": "string"},
                }
                for name, described in _SIGNED
            ],
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": schema, "example": example}},
            },
            "responses": _ANSWERS,
        }
    }
