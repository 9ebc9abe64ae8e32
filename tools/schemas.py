"""Parameters of the tools: the public contract. Unknown fields are errors; nothing is coerced."""

import unicodedata
from datetime import date
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)
from pydantic_core import PydanticKnownError

from approvals.core.states import Status
from tools.mail.text.addresses import (
    bare_address,
    body_text,
    file_name,
    header_text,
    named_address,
)

Address = Annotated[str, Field(max_length=400), AfterValidator(named_address)]
BareAddress = Annotated[str, Field(max_length=254), AfterValidator(bare_address)]
MessageId = Annotated[str, Field(min_length=1, max_length=1000)]
DraftId = Annotated[str, Field(min_length=1, max_length=1000)]
AttachmentId = Annotated[str, Field(min_length=1, max_length=500)]
_ONE = ["mira@northwind.example"]
MOST_RECIPIENTS = 500  # of one list
MOST_NAMES, MOST_PAIRS = 100, 16  # of an object of parameters, and of metadata
_Recipients = Annotated[
    list[Address], Field(min_length=1, max_length=MOST_RECIPIENTS, examples=[_ONE])
]
_CopyRecipients = Annotated[list[Address], Field(max_length=MOST_RECIPIENTS, examples=[_ONE])]
# In the form of a reviewer, which has no names.
EditedRecipients = Annotated[list[BareAddress], Field(min_length=1, max_length=MOST_RECIPIENTS)]
EditedCopies = Annotated[list[BareAddress], Field(max_length=MOST_RECIPIENTS)]
Subject = Annotated[str, Field(min_length=1, max_length=255), AfterValidator(header_text)]
Body = Annotated[str, Field(min_length=1, max_length=100_000), AfterValidator(body_text)]
# The body that a reviewer edits includes the quoted original.
RevisedBody = Annotated[str, Field(min_length=1, max_length=3_000_000), AfterValidator(body_text)]
BodyType = Literal["text", "html", "markdown"]
Importance = Literal["low", "normal", "high"]
FileName = Annotated[str, Field(min_length=1, max_length=255), AfterValidator(file_name)]
# Strict mode would require date objects, which JSON does not have.
Day = Annotated[date, Field(strict=False)]
Moment = Annotated[AwareDatetime, Field(strict=False)]
MAX_ATTACHMENT_BYTES = 4 * 1024 * 1024 - 1  # under 4 MB each
MAX_BASE64 = 6 * 1024 * 1024  # large enough that the decoded size is refused, in clear words


def _as_list(value: Any) -> Any:
    """Return a list for one address that is given as a text."""
    return [value] if isinstance(value, str) else value


Recipients = Annotated[
    _Recipients,
    BeforeValidator(_as_list, json_schema_input_type=_Recipients | Address),
]
CopyRecipients = Annotated[
    _CopyRecipients,
    BeforeValidator(_as_list, json_schema_input_type=_CopyRecipients | Address),
]


def _is_default(value: object) -> bool:
    """Return True for what a member that was added later has if it is not given.

    It is then left out of the request's digest, so the digests of earlier keys stay valid.
    """
    return value in (None, [], "text", "normal")


def _is_missing(value: object) -> bool:
    """Return True for such a member of an attachment."""
    return value is None


def _refuse_more(value: Any, most: int) -> Any:
    """Return the value unless it is an object with more members: each wrong one makes an error of its
    own, and a body can have 150,000.
    """
    if isinstance(value, dict) and len(value) > most:
        about = {"field_type": "Dictionary", "max_length": most, "actual_length": len(value)}
        raise PydanticKnownError("too_long", about)
    return value


class Parameters(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _refuse_crowd(cls, values: Any) -> Any:
        return _refuse_more(values, MOST_NAMES)


class MailboxParameters(Parameters):
    """`user_id` is accepted as another name of `mailbox`."""

    mailbox: str | None = Field(None, max_length=254, description="address")

    @model_validator(mode="before")
    @classmethod
    def _accept_user_id(cls, values: Any) -> Any:
        if isinstance(values, dict) and "user_id" in values:
            values = dict(values)
            user_id = values.pop("user_id")
            if values.get("mailbox") not in (None, user_id):
                raise ValueError("mailbox and user_id differ")
            values["mailbox"] = user_id
        return values


class ListMailboxes(Parameters):
    pass


class ListEmails(MailboxParameters):
    folder: str = Field(
        "inbox",
        min_length=1,
        max_length=255,
        description="inbox, sent, drafts, archive, junk, trash, id or name",
    )
    unread: bool | None = Field(None, description="false: only read")
    max_results: int = Field(10, ge=1, le=50)
    page_token: str | None = Field(None, max_length=200)


class ReadEmail(MailboxParameters):
    message_id: MessageId
    format: Literal["full", "metadata", "html"] = "full"
    max_chars: int = Field(4000, ge=1, le=20000)
    offset: int = Field(0, ge=0, description="truncated.next_offset")
    quoted: bool = Field(False, description="with folded quotes")


class SearchEmails(MailboxParameters):
    query: str | None = Field(None, max_length=2000, description="words, or provider syntax")
    from_: str | None = Field(None, alias="from", max_length=254)
    to: str | None = Field(None, max_length=254)
    subject: str | None = Field(None, max_length=255)
    text: str | None = Field(None, max_length=500)
    since: Day | None = Field(None, description="2026-11-26")
    before: Day | None = Field(None, description="day after the last")
    newer_than_days: int | None = Field(None, ge=1, le=3650)
    has_attachments: bool | None = None
    unread: bool | None = None
    folder: str | None = Field(None, min_length=1, max_length=255)
    label_ids: list[str] | None = Field(None, max_length=20, description="Gmail only")
    max_results: int = Field(10, ge=1, le=50)
    page_token: str | None = Field(None, max_length=200)


class GmailSearchMessages(MailboxParameters):
    query: str = Field(
        "",
        max_length=2000,
        description="Gmail's search language, e.g. from:mira subject:invoice; may be empty with a filter",
    )
    max_results: int = Field(10, ge=1, le=50)
    newer_than_days: int | None = Field(None, ge=1, le=36_500)
    label_ids: list[Annotated[str, Field(min_length=1, max_length=225)]] | None = Field(
        None, max_length=20
    )
    page_token: str | None = Field(None, max_length=200)

    @model_validator(mode="after")
    def _require_filter(self) -> Self:
        if not self.query.strip() and self.newer_than_days is None and not self.label_ids:
            raise ValueError("give a query, newer_than_days or label_ids")
        return self


class GmailGetMessage(MailboxParameters):
    message_id: str = Field(min_length=5, max_length=1000)
    fmt: Literal["full", "metadata"] = "full"
    max_chars: int = Field(4000, ge=1, le=10_000)
    offset: int = Field(0, ge=0, description="truncated.next_offset")
    quoted: bool = Field(False, description="with folded quotes")


class ReadThread(MailboxParameters):
    message_id: MessageId | None = None
    thread_id: str | None = Field(None, min_length=1, max_length=1000)
    max_chars: int = Field(4000, ge=1, le=20000)
    quoted: bool = Field(False, description="with folded quotes")

    @model_validator(mode="after")
    def _require_one(self) -> Self:
        if (self.message_id is None) == (self.thread_id is None):
            raise ValueError("give message_id, as list_emails gives it, or thread_id")
        return self


class ListFolders(MailboxParameters):
    pass


class ListAttachments(MailboxParameters):
    message_id: MessageId


class DownloadAttachment(MailboxParameters):
    message_id: MessageId
    attachment_id: AttachmentId
    as_: Literal["text", "link", "base64"] = Field("text", alias="as")


_HOW_TO_ATTACH = (
    'must be {"handle": "…"} from POST /api/v1/attachments, '
    '{"message_id": "…", "attachment_id": "…"} of a mail in this mailbox, '
    '{"name": "plan.txt", "text": "The plan"}, '
    'or {"name": "plan.txt", "content_base64": "VGhlIHBsYW4="}'
)


class AttachmentGiven(Parameters):
    """A handle from POST /attachments, a file of a mail in the mailbox, or the file itself."""

    handle: str | None = Field(None, max_length=64)
    name: FileName | None = None
    type: str = Field("application/octet-stream", max_length=160)
    content_base64: str | None = Field(None, max_length=MAX_BASE64)
    text: str | None = Field(None, max_length=1_000_000, exclude_if=_is_missing)
    message_id: MessageId | None = Field(None, exclude_if=_is_missing)
    attachment_id: str | None = Field(None, min_length=1, max_length=500, exclude_if=_is_missing)

    @model_validator(mode="before")
    @classmethod
    def _require_members(cls, value: Any) -> Any:
        if not isinstance(value, dict) or not value.keys() <= cls.model_fields.keys():
            raise ValueError(_HOW_TO_ATTACH)
        return value

    @model_validator(mode="after")
    def _require_one(self) -> Self:
        ways = (self.handle, self.content_base64, self.text, self.attachment_id)
        of_file = self.content_base64 is not None or self.text is not None
        if (
            sum(way is not None for way in ways) != 1
            or (self.message_id is None) != (self.attachment_id is None)
            or (of_file and self.name is None)
        ):
            raise ValueError(_HOW_TO_ATTACH)
        return self


Attachments = Annotated[
    list[AttachmentGiven],
    Field(
        max_length=20,
        examples=[[{"handle": "3f0b8a52-6d0e-4d51-9d1a-5b8f3f0f2c11"}]],
        description="as in send_email",
    ),
]


class CreateDraft(MailboxParameters):
    to: CopyRecipients = []
    cc: CopyRecipients = []
    bcc: CopyRecipients = []
    subject: Subject
    body: Body
    body_type: BodyType = "text"
    importance: Importance = Field("normal", exclude_if=_is_default)
    attachments: Attachments = []
    in_reply_to: str | int | None = None


def _plain_reason(value: str) -> str:
    """Return the text if an approver can read all of it: no hidden or reordering characters."""
    for character in body_text(value):
        if character not in "\n\t" and unicodedata.category(character) in ("Cc", "Cf"):
            raise ValueError(f"must not hold the character U+{ord(character):04X}")
    return body_text(value)


MetadataName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,39}$")]
MetadataValue = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(header_text)]
Metadata = Annotated[
    dict[MetadataName, MetadataValue],
    Field(max_length=MOST_PAIRS),
    BeforeValidator(lambda value: _refuse_more(value, MOST_PAIRS)),
]


class RemarkParameters(MailboxParameters):
    """The words of a program about what it proposes; nothing of them leaves."""

    reason: (
        Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(_plain_reason)] | None
    ) = None
    metadata: Metadata | None = Field(
        None, description="up to 16 short texts by name, for you; list_actions filters by them"
    )
    callback_url: str | None = Field(
        None,
        min_length=1,
        max_length=500,
        description="https; gets each step, signed like a webhook",
    )


REMARKS = frozenset({"reason", "metadata", "callback_url"})


class _DraftNamed(MailboxParameters):
    draft_id: DraftId | None = None
    uid: int | None = Field(None, ge=1, description="UID in the drafts folder")

    @model_validator(mode="after")
    def _require_one(self) -> Self:
        if (self.draft_id is None) == (self.uid is None):
            raise ValueError("give draft_id, as list_drafts gives it, or uid")
        return self


class UpdateDraft(_DraftNamed, RemarkParameters):
    """Parameters that are left out keep their part of the draft; `[]` or null removes copies and files."""

    to: Recipients | None = None
    cc: CopyRecipients | None = None
    bcc: CopyRecipients | None = None
    subject: Subject | None = None
    body: Body | None = None
    body_type: BodyType | None = None
    attachments: Attachments | None = Field(None, description="[]: none")
    in_reply_to: str | int | None = None

    @model_validator(mode="after")
    def _require_change(self) -> Self:
        if not self.model_fields_set - {"mailbox", *_DraftNamed.model_fields, *REMARKS}:
            raise ValueError("name what changes: to, cc, bcc, subject, body, attachments")
        if self.body is None and self.body_type is not None:
            raise ValueError("body_type is about a new body: give body too")
        return self


class DraftReply(MailboxParameters):
    message_id: MessageId | None = None
    uid: int | None = Field(None, ge=1, description="UID in the inbox")
    body: Body
    body_type: BodyType = "text"
    reply_all: bool = False
    cc: CopyRecipients = Field([], exclude_if=_is_default)
    bcc: CopyRecipients = Field([], exclude_if=_is_default)
    attachments: Attachments = Field([], exclude_if=_is_default)

    @model_validator(mode="after")
    def _require_one(self) -> Self:
        if (self.message_id is None) == (self.uid is None):
            raise ValueError("give message_id, as list_emails gives it, or uid")
        return self


class ListDrafts(MailboxParameters):
    max_results: int = Field(10, ge=1, le=50)
    page_token: str | None = Field(None, max_length=200)


class DeleteDraft(_DraftNamed, RemarkParameters):
    pass


class SendingParameters(RemarkParameters):
    replaces: str | None = Field(
        None,
        min_length=1,
        max_length=64,
        description="action_id",
    )
    idempotency_key: str | None = Field(None, min_length=1, max_length=255)
    confirm: bool = Field(False, description="false: preview")


class FollowUp(Parameters):
    """The wish to learn that nobody has answered after some days."""

    after_days: int = Field(ge=1, le=30)
    note: Annotated[str, Field(max_length=500), AfterValidator(_plain_reason)] = ""


class MailParameters(SendingParameters):
    """Parameters of the tools that send a mail."""

    send_at: Moment | None = Field(None, description="RFC 3339")
    follow_up: FollowUp | None = Field(
        None,
        description="after_days without an answer, action.unanswered says so; sends nothing",
        examples=[{"after_days": 3}],
    )


class SendEmail(MailParameters):
    to: Recipients
    cc: CopyRecipients = []
    bcc: CopyRecipients = []
    subject: Subject
    body: Body
    body_type: BodyType = "text"
    importance: Importance = "normal"
    save_to_sent_items: bool = Field(True, description="false: no copy in Sent")
    attachments: Annotated[
        Attachments,
        Field(description="{message_id,attachment_id}, {name,text} or {name,content_base64}"),
    ] = []


class AnswerParameters(MailParameters):
    """Parameters of the tools whose mail may answer another one."""

    unless_answered: bool = Field(
        False,
        description="with send_at: withdrawn if anybody answers first; approved once, checked as it leaves",
    )

    @model_validator(mode="after")
    def _require_send_time(self) -> Self:
        if self.unless_answered and self.send_at is None:
            raise ValueError("unless_answered needs send_at")
        return self


class ReplyEmail(AnswerParameters):
    message_id: MessageId
    comment: Body
    body_type: BodyType = Field("text", exclude_if=_is_default)
    reply_all: bool = False
    cc: CopyRecipients = Field([], exclude_if=_is_default)
    bcc: CopyRecipients = Field([], exclude_if=_is_default)
    save_to_sent_items: bool = True
    attachments: Attachments = []


class ForwardEmail(MailParameters):
    message_id: MessageId
    to: Recipients
    cc: CopyRecipients = Field([], exclude_if=_is_default)
    bcc: CopyRecipients = Field([], exclude_if=_is_default)
    comment: Annotated[str, Field(max_length=100_000), AfterValidator(body_text)] | None = None
    save_to_sent_items: bool = True
    body_type: BodyType = Field("text", exclude_if=_is_default)
    attachments: Attachments = Field([], exclude_if=_is_default)


class SendDraft(AnswerParameters):
    draft_id: DraftId


class ActionParameters(Parameters):
    action_id: str = Field(min_length=1, max_length=64)


class GetAction(ActionParameters):
    # `tools.surfaces.waiting` obeys it, before the tool is called.
    wait: int | None = Field(None, ge=0, le=60, description="seconds, for news")


class ListActions(MailboxParameters):
    state: Status | None = Field(None, strict=False, description="pending, approved, …")
    metadata: Metadata | None = Field(None, description="only actions with these pairs")
    answered: bool | None = Field(None, description="of sent mails; false: nobody has answered yet")
    limit: int = Field(20, ge=1, le=100)
    cursor: str | None = Field(None, max_length=200)


class M365RunCommand(SendingParameters):
    command: str = Field(
        min_length=1,
        max_length=8000,
        description='a line: m365 teams channel list --teamName "Sales"',
    )


class CallServerTool(SendingParameters):
    """Parameters of a tool on another MCP server. `arguments` go there as they are."""

    arguments: dict[str, Any]
