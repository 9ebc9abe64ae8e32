"""The meaning of Graph's error answers.

Pure; decided by status and `error.code`, never by the text.
https://learn.microsoft.com/graph/errors
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from accounts.infra.foreign_text import load_json
from accounts.infra.texts import join, translatable
from approvals.gate.backoff import parse_retry_after
from tools.providers.errors import NotFound, NotPermitted, ProviderError, Refused, Unavailable

# Of one request: https://learn.microsoft.com/graph/throttling-limits.
REQUEST_LIMIT = 4 * 1024 * 1024
INVALID_RECIPIENT = {
    "ErrorInvalidRecipients",
    "ErrorInvalidRecipientSubfolder",
    "ErrorMissingRecipients",
}
SEND_AS = {"ErrorSendAsDenied", "ErrorSendOnBehalfOfDenied"}
TOO_LARGE = {
    "ErrorMessageSizeExceeded",
    "ErrorItemSizeExceeded",
    "ErrorAttachmentSizeLimitExceeded",
    "RequestBodyTooLarge",
    "ErrorContentSizeExceeded",
}
NOT_FOUND = {
    "ErrorItemNotFound",
    "ErrorInvalidIdMalformed",
    "ErrorFolderNotFound",
    "ErrorInvalidMailboxItemId",
}
LATER = {
    "ErrorServerBusy",
    "ErrorTooManyObjectsOpened",
    "ApplicationThrottled",
    "ErrorExceededConnectionCount",
}


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An answer of Graph. `body` is its JSON, if there is any, and never leaves this package
    unchanged.
    """

    status: int
    body: Any = None
    content: bytes = field(default=b"", repr=False)
    retry_after: str | None = None

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def code(self) -> str:
        error = self.body.get("error") if isinstance(self.body, dict) else None
        return str(error.get("code") or "") if isinstance(error, dict) else ""

    @property
    def following(self) -> str:
        """Return the address of the next page; empty at the end of the list."""
        return str(self.body.get("@odata.nextLink") or "") if isinstance(self.body, dict) else ""

    def rows(self) -> list[dict[str, Any]]:
        value = self.body.get("value") if isinstance(self.body, dict) else None
        return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def json_of(content: bytes) -> Any:
    try:
        return load_json(content) if content else None
    except ValueError:
        return None


def refusal(answer: Answer, *, scope: str) -> ProviderError:
    """Return the error of an answer that is not 2xx, to a request that does nothing unless it is
    2xx.

    `scope` names the permission that the request needs.
    """
    wait = parse_retry_after(answer.retry_after, now=datetime.now(UTC))
    if answer.status == 429 or answer.code in LATER:
        return Unavailable(
            "rate_limited", "Microsoft 365 asks mailhub to wait.", retry_after=wait, pauses=True
        )
    if answer.status == 401:
        # Graph sometimes refuses a new token too, so only the end of the grant itself disconnects a
        # mailbox.
        return Unavailable(
            "token_refused", "Microsoft 365 refused the access token.", retry_after=wait
        )
    if answer.status >= 500 or answer.status in (408, 423, 425):
        return Unavailable(
            "unreachable",
            translatable("Microsoft 365 answered %(status)s.", status=answer.status),
            retry_after=wait,
        )
    if answer.code in SEND_AS:
        return Refused("send_as_denied", "The mailbox may not send under this address.")
    if answer.status == 413 or answer.code in TOO_LARGE:
        return refuse_too_large()
    if answer.code in INVALID_RECIPIENT:
        return Refused("invalid_recipient", "Microsoft 365 refused a recipient.")
    if answer.status == 404 or answer.code in NOT_FOUND:
        return NotFound()
    if answer.status == 403:
        return NotPermitted(scope)
    return Refused(
        "refused",
        translatable(
            "Microsoft 365 refused the request with code %(status)s.", status=answer.status
        ),
    )


def refuse_too_large(*, needs: str = "") -> Refused:
    """Return the error for a mail over the limit; with the permission `needs` it could be sent."""
    limit = translatable(
        "Microsoft 365 takes at most %(request_limit)s bytes at once.",
        request_limit=f"{REQUEST_LIMIT:,}",
    )
    more = translatable(
        "For a larger mail the mailbox needs the permission %(scope)s.", scope=needs
    )
    return Refused("too_large", join(limit, more if needs else ""))
