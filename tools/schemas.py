"""Parameters of the tools: the public contract. Unknown fields are errors; nothing is coerced."""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from approvals.states import Status
from tools.addresses import bare_address, body_text, header_text

Address = Annotated[str, Field(max_length=254), AfterValidator(bare_address)]
MessageId = Annotated[str, Field(min_length=1, max_length=1000)]
IDEMPOTENCY_KEY = r"[\x20-\x7e]{1,255}"
Recipients = Annotated[list[Address], Field(min_length=1, max_length=500)]
CopyRecipients = Annotated[list[Address], Field(max_length=500)]


class Parameters(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class MailboxParameters(Parameters):
    """`user_id` is accepted as another name of `mailbox`."""

    mailbox: str | None = Field(None, max_length=254, description="id or address; may be left out when there is one")

    @model_validator(mode="before")
    @classmethod
    def _user_id_is_a_synonym(cls, values: Any) -> Any:
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
    folder: str = Field("inbox", min_length=1, max_length=255, description="inbox, sent, drafts, … or a folder's name")
    unread: bool | None = Field(None, description="true: only unread; false: only read")
    max_results: int = Field(10, ge=1, le=50)
    page_token: str | None = Field(None, max_length=200)


class ReadEmail(MailboxParameters):
    message_id: MessageId
    format: Literal["full", "metadata", "html"] = "full"
    max_chars: int = Field(4000, ge=1, le=20000)
    offset: int = Field(0, ge=0)


class SendingParameters(MailboxParameters):
    idempotency_key: str | None = Field(None, min_length=1, max_length=255)
    confirm: bool = Field(False, description="false: preview, nothing stored; true: propose it to a person")


class SendEmail(SendingParameters):
    to: Recipients
    cc: CopyRecipients = []
    bcc: CopyRecipients = []
    subject: Annotated[str, Field(min_length=1, max_length=255), AfterValidator(header_text)]
    body: Annotated[str, Field(min_length=1, max_length=100_000), AfterValidator(body_text)]
    body_type: Literal["text", "html"] = "text"
    importance: Literal["low", "normal", "high"] = "normal"
    save_to_sent_items: bool = True

    @model_validator(mode="after")
    def _nobody_twice(self) -> Self:
        everybody = [address.lower() for address in (*self.to, *self.cc, *self.bcc)]
        if len(set(everybody)) != len(everybody):
            raise ValueError("an address stands in to, cc and bcc more than once")
        return self


class ActionParameters(Parameters):
    action_id: str = Field(min_length=1, max_length=64)


class ListActions(MailboxParameters):
    state: Status | None = Field(None, strict=False)
    limit: int = Field(20, ge=1, le=100)
    cursor: str | None = Field(None, max_length=200)
