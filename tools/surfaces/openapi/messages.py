"""The messages of webhooks and callbacks, for the section `webhooks` of the OpenAPI document.

The tests compare every message that they receive with these shapes.
"""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from approvals.core.states import Status
from approvals.outbound.webhooks.events import SECURITY
from approvals.reports.steps import EVENTS
from tools.surfaces.openapi import examples
from tools.surfaces.openapi.mail_results import Moment
from tools.surfaces.openapi.results import AutoReply, Bounced, Change, Receipt, Sha256

Verdict = Literal["approved", "rejected", "changes_requested", "edited"]


class Audited(TypedDict):
    """The place of the event in the audit chain of its mailbox, and its keyed hash."""

    sequence: Annotated[int, Field(ge=1)]
    hash: Sha256


class StepReview(TypedDict):
    """The last decision or edit. `by`, `note` and `passage` are only in messages about your own proposals."""

    verdict: Verdict
    by: NotRequired[str]
    note: NotRequired[str]
    passage: NotRequired[str]
    changed: NotRequired[list[str]]


class StepReturned(TypedDict):
    """Why an approved action waits for a person again."""

    code: str
    detail: str


class StepError(TypedDict):
    code: str


class Step(TypedDict):
    """One step of an action, as it was then."""

    id: str
    state: Status
    tool: str
    mailbox: str
    review_url: str
    sequence: NotRequired[Annotated[int, Field(ge=1, description="grows with each step")]]
    next: NotRequired[Annotated[str, Field(description="one sentence for the program")]]
    review: NotRequired[StepReview]
    receipt: NotRequired[Receipt]
    returned: NotRequired[StepReturned]
    superseded_by: NotRequired[str]
    answered_at: NotRequired[Moment]
    answered_by: NotRequired[str]
    bounced: NotRequired[list[Bounced]]
    auto_replies: NotRequired[list[AutoReply]]
    follow_up_at: NotRequired[Moment]
    follow_up_note: NotRequired[str]
    unanswered_at: NotRequired[Moment]
    error: NotRequired[StepError]
    metadata: NotRequired[dict[str, str]]
    changes: NotRequired[list[Change]]
    audit: NotRequired[Audited]
    may_have_been_sent_at: NotRequired[Moment]


class ActionMessage(TypedDict):
    """A message about one step of an action."""

    type: Annotated[str, Field(pattern=r"^action\.")]
    timestamp: Moment
    data: Step


class SecurityEvent(TypedDict):
    """An event of the audit's chain of people: only ids, a method and a network."""

    id: str
    event: str
    actor: str
    subject: NotRequired[str]
    method: NotRequired[str]
    network: NotRequired[str]
    audit: Audited


class SecurityMessage(TypedDict):
    """A message about an account or its access; only for webhooks of staff."""

    type: Annotated[str, Field(pattern=r"^security\.")]
    timestamp: Moment
    data: SecurityEvent


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
