"""The shape of every answer of the API, for the OpenAPI document.

A member that is `NotRequired` is left out if it is empty; it is never null. The tests compare the
answers of the API with these shapes, so a new member of an answer needs a line here.
"""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from approvals.core.states import Status
from tools.surfaces.openapi.mail_results import Count, Moment

Importance = Literal["low", "normal", "high"]
Sha256 = Annotated[str, Field(min_length=64, max_length=64)]


class FieldProblem(TypedDict):
    field: Annotated[str, Field(description="the path of the parameter, such as `to.0`")]
    message: str


class ProblemDocument(TypedDict):
    """A refusal (RFC 9457). Branch on `code`."""

    type: str
    title: str
    status: Annotated[int, Field(ge=400, le=599)]
    detail: str
    instance: NotRequired[str]
    code: str
    errors: NotRequired[list[FieldProblem]]
    retry_after: NotRequired[Annotated[int, Field(ge=0, description="seconds")]]
    required_scope: NotRequired[str]


# Proposals and actions


class Warned(TypedDict):
    """A sign for the person who decides; it blocks nothing."""

    code: str
    text: str


class PreviewedFile(TypedDict):
    name: str
    size: Count
    sha256: NotRequired[Sha256]
    inline: NotRequired[bool]


class PreviewedOriginal(TypedDict):
    subject: str
    from_: Annotated[str, Field(alias="from")]
    to: NotRequired[list[str]]
    cc: NotRequired[list[str]]
    has_attachments: NotRequired[bool]


class FollowUpAsked(TypedDict):
    after_days: Count


class PreviewedMail(TypedDict):
    kind: Literal["send", "reply", "forward"]
    mailbox: str
    from_: Annotated[str, Field(alias="from")]
    to: list[str]
    cc: NotRequired[list[str]]
    bcc: NotRequired[list[str]]
    subject: str
    body_excerpt: str
    body_chars: Count
    from_name: NotRequired[str]
    names: NotRequired[
        Annotated[dict[str, str], Field(description="of recipients, by address in lower case")]
    ]
    importance: Importance
    save_to_sent_items: bool
    unless_answered: NotRequired[Literal[True]]
    follow_up: NotRequired[FollowUpAsked]
    send_at: NotRequired[Moment]
    expires_at: Moment
    attachments: NotRequired[list[PreviewedFile]]
    original: NotRequired[PreviewedOriginal]
    digest: str
    text: str


class MailPreview(TypedDict):
    """The answer to `confirm=false`: nothing is stored."""

    status: Literal["preview"]
    preview: PreviewedMail
    warnings: list[Warned]
    notes: NotRequired[list[str]]


class PreviewedCommand(TypedDict):
    kind: Literal["m365"]
    mailbox: str
    command: str
    digest: str
    text: str


class CommandPreview(TypedDict):
    """The answer to `confirm=false`: nothing is stored."""

    status: Literal["preview"]
    preview: PreviewedCommand
    warnings: list[Warned]


class CommandOutput(TypedDict):
    """The output of a reading command of Microsoft 365, shortened."""

    command: str
    output: str


class Receipt(TypedDict):
    at: Moment
    recipient_count: Count
    provider: str
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
    verdict: Literal["approved", "rejected", "changes_requested", "edited"]
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


class Action(TypedDict):
    """A proposal on its way: a person decides, and only then it leaves."""

    id: str
    state: Status
    tool: str
    mailbox: str
    review_url: str
    created_at: Moment
    expires_at: Moment
    send_at: NotRequired[Moment]
    from_: NotRequired[Annotated[str, Field(alias="from")]]
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
    answered_at: NotRequired[Moment]
    answered_by: NotRequired[str]
    bounced: NotRequired[list[Bounced]]
    auto_replies: NotRequired[list[AutoReply]]
    follow_up_at: NotRequired[Moment]
    follow_up_note: NotRequired[str]
    unanswered_at: NotRequired[Moment]
    message: NotRequired[str]


class Returned(TypedDict):
    """Why an approved action waits for a person again."""

    code: str
    detail: str
    warnings: NotRequired[list[Warned]]


class Change(TypedDict):
    """A field that a reviewer changed."""

    field: str
    before: str
    after: str
    truncated: NotRequired[Literal[True]]


class ActionReport(Action):
    """An action, why it is in this state, and what to do next."""

    next: Annotated[str, Field(description="one sentence for the program")]
    sequence: NotRequired[Annotated[int, Field(ge=1, description="grows with each step")]]
    returned: NotRequired[Returned]
    changes: NotRequired[list[Change]]


class ProposalResult(TypedDict):
    """The answer to a proposal: a person decides about its action."""

    status: Status
    action: ActionReport
    warnings: list[Warned]
    notes: NotRequired[list[str]]


class ActionList(TypedDict):
    items: Annotated[list[Action], Field(description="the newest first")]
    next_cursor: NotRequired[Annotated[str, Field(description="needs no escaping in a URL")]]


# The token's own belongings


class UploadedFile(TypedDict):
    handle: Annotated[str, Field(description="names the file in `attachments`, for a day")]
    name: str
    type: str
    size: Count
    sha256: Sha256
    expires_at: Moment


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


class ToolRow(TypedDict):
    name: str
    description: str
    effect: Literal["read", "draft", "send", "command"]
    scope: str
    parameters: Annotated[dict[str, Any], Field(description="a JSON Schema")]


class ToolList(TypedDict):
    tools: list[ToolRow]
