"""The shape of each answer about actions, and of the messages of webhooks; `ActionReport` is in
`approvals.reports.report`, which makes it.

The functions that make an answer return its type, and the OpenAPI document is written from the types.
A member that is `NotRequired` is left out if it is empty; it is never null.
"""

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from approvals.core.states import Status

Moment = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
Count = Annotated[int, Field(ge=0)]
Sha256 = Annotated[str, Field(min_length=64, max_length=64)]
Importance = Literal["low", "normal", "high"]
Verdict = Literal["approved", "rejected", "changes_requested", "edited"]


class FollowUpAsked(TypedDict):
    after_days: Count


class Warned(TypedDict):
    """A sign for the person who decides; it blocks nothing."""

    code: str
    text: str


class CommandOutput(TypedDict):
    """The output of a reading command of Microsoft 365, shortened."""

    command: str
    output: str


class Receipt(TypedDict):
    at: Moment
    recipient_count: Count
    provider: str
    date: NotRequired[Moment]
    ruled_by: NotRequired[str]
    changed: NotRequired[list[str]]


class ActionError(TypedDict):
    code: str
    detail: str
    retry_after: NotRequired[int]
    required_scope: NotRequired[str]


class Review(TypedDict):
    """The last decision or edit of a person."""

    by: str
    verdict: Verdict
    note: NotRequired[str]
    passage: NotRequired[str]
    changed: NotRequired[list[str]]


class Bounced(TypedDict):
    """A recipient whose mail came back, as a delivery report says."""

    at: Moment
    address: NotRequired[str]
    status: NotRequired[Annotated[str, Field(description="such as 5.1.1 (RFC 3463)")]]
    reason: NotRequired[str]


class AutoReply(TypedDict):
    """An automatic reply, such as one from a person who is away; it is no answer."""

    at: Moment
    address: NotRequired[str]


class Watched(TypedDict):
    answered_at: NotRequired[Moment]
    answered_by: NotRequired[str]
    bounced: NotRequired[list[Bounced]]
    auto_replies: NotRequired[list[AutoReply]]
    follow_up_at: NotRequired[Moment]
    follow_up_note: NotRequired[str]
    unanswered_at: NotRequired[Moment]


_Sender = TypedDict("_Sender", {"from": NotRequired[str]})


class Action(Watched, _Sender):
    """A proposal on its way: a person decides, and only then it leaves."""

    id: str
    state: Status
    tool: str
    mailbox: str
    review_url: str
    created_at: Moment
    expires_at: Moment
    send_at: NotRequired[Moment]
    importance: NotRequired[Importance]
    save_to_sent_items: NotRequired[bool]
    unless_answered: NotRequired[Literal[True]]
    follow_up: NotRequired[FollowUpAsked]
    metadata: NotRequired[dict[str, str]]
    receipt: NotRequired[Receipt]
    result: NotRequired[CommandOutput]
    differs_in_sent: NotRequired[list[str]]
    unsettled_at: NotRequired[Moment]
    error: NotRequired[ActionError]
    review: NotRequired[Review]
    may_have_been_sent_at: NotRequired[Moment]
    also_sent_at: NotRequired[Moment]
    superseded_by: NotRequired[str]
    message: NotRequired[str]


class Change(TypedDict):
    """A field that a reviewer changed."""

    field: str
    before: str
    after: str
    truncated: NotRequired[Literal[True]]


class ActionList(TypedDict):
    items: Annotated[list[Action], Field(description="the newest first")]
    next_cursor: NotRequired[Annotated[str, Field(description="needs no escaping in a URL")]]


class WebhookRow(TypedDict):
    id: str
    url: NotRequired[str]
    callbacks: NotRequired[Annotated[Literal[True], Field(description="instead of `url`")]]
    events: list[str]
    created_at: Moment
    ended_at: NotRequired[Moment]


class WebhookList(TypedDict):
    items: list[WebhookRow]


class NewWebhookRow(WebhookRow):
    secret: Annotated[str, Field(description="of its signatures; shown only here")]


# Messages of webhooks and callbacks


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


class Step(Watched):
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
