"""The one call that creates and sends a mail, for mailboxes without drafts and mail without a copy.

Pure.
"""

from dataclasses import dataclass
from typing import Any

from accounts.connect.microsoft import DRAFT
from accounts.infra.texts import translatable
from tools.providers.base import Envelope
from tools.providers.errors import NotPermitted, Refused
from tools.providers.graph.answers import REQUEST_LIMIT
from tools.providers.graph.outgoing import Outgoing, as_recipients, is_comment_alone, length

# Exchange reads a comment as HTML if the answer is HTML; for an answer in plain text this is not
# documented.
UNCERTAIN = (
    "Microsoft 365 may read this comment as HTML, so it is not certain what would arrive. Write it in one line, without"
    f" < and &, or connect the mailbox again with the permission {DRAFT}."
)


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call that creates and sends. `action` is its name in Graph."""

    action: str
    body: dict[str, Any]


def choose_call(envelope: Envelope, outgoing: Outgoing, *, can_draft: bool) -> Call | None:
    """Return the call that creates and sends, or None if a draft is needed.

    Raises Refused for a mail that can go neither way. The marker is included, because otherwise
    the mail could not be found in Sent.
    """
    is_alone = is_comment_alone(outgoing, envelope)
    if envelope.kind == "send" and (not can_draft or not envelope.save_to_sent):
        call = _send_mail(envelope, outgoing)
    elif is_alone and envelope.kind == "reply":
        call = _reply(envelope, outgoing)
    elif is_alone:
        call = _forward(envelope, outgoing)
    elif not can_draft:
        # It was approved with a quote of ours, or it answers without an original: both need the
        # permission.
        is_raw = bool(envelope.comment) and envelope.comment.strip() == outgoing.text.strip()
        detail = UNCERTAIN if is_raw else ""
        raise NotPermitted(DRAFT, detail)
    else:
        call = None
    if length(call.body if call else outgoing.as_json()) > REQUEST_LIMIT:
        raise Refused(
            "too_large",
            translatable(
                "Microsoft 365 takes at most %(request_limit)s bytes at once.",
                request_limit=f"{REQUEST_LIMIT:,}",
            ),
        )
    return call


def _send_mail(envelope: Envelope, outgoing: Outgoing) -> Call:
    message = {**outgoing.as_json(), **outgoing.attachments_json(), **outgoing.marker_json()}
    return Call(
        action="sendMail", body={"message": message, "saveToSentItems": envelope.save_to_sent}
    )


def _reply(envelope: Envelope, outgoing: Outgoing) -> Call:
    message = {**outgoing.attachments_json(), **outgoing.marker_json()}
    return Call(
        action="replyAll" if envelope.reply_all else "reply",
        body={"comment": envelope.comment, "message": message},
    )


def _forward(envelope: Envelope, outgoing: Outgoing) -> Call:
    # Graph adds the attachments of the original itself.
    body = {"toRecipients": as_recipients(envelope.recipients), "message": outgoing.marker_json()}
    comment = {"comment": envelope.comment} if envelope.comment else {}
    return Call(action="forward", body=body | comment)
