"""Warnings about the origin of this message and its handling."""

import hashlib

from approvals.core.types import PreviewWarning
from tools.mail.message.compose import OutgoingMessage
from tools.warnings.context import Context, Later


def possible_duplicate(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    if context.recent_duplicate:
        text = "The same recipients, subject and text were proposed moments ago."
    elif context.open_twin:
        text = "The same recipients, subject and text are waiting already."
    else:
        return None
    return PreviewWarning(code="possible_duplicate", title="Possibly the same again.", text=text)


def thread_moved(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    return moved_on(context.later, own=message.request.from_address) if context.later else None


def moved_on(later: Later, *, own: str) -> PreviewWarning:
    """Return the warning that the thread has a newer message; the mark names it, so another one
    warns again.
    """
    who = (
        "You have"
        if later.from_address.lower() == own.lower()
        else f"{later.from_address or 'Somebody'} has"
    )
    when = f" ({later.date:%d %b %Y, %H:%M %z})" if later.date else ""
    return PreviewWarning(
        code="thread_moved",
        title="The conversation has moved on.",
        text=f"{who} written in it after the mail that this answers{when}.",
        mark=hashlib.sha256(later.message_id.encode()).hexdigest()[:16],
    )


def no_sent_copy(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    if message.request.save_to_sent:
        return None
    return PreviewWarning(
        code="no_sent_copy",
        title="No copy in Sent.",
        text="You will have no copy, and a lost answer cannot be looked up.",
    )


def quote_by_provider(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    if not context.quote_by_provider:
        return None
    worded = "words the subject of the forward"
    if message.request.kind == "reply":
        worded = "words the subject and works out whom the answer goes to: nothing compares it with To and Cc here"
    return PreviewWarning(
        code="quote_by_provider",
        title="The provider completes this.",
        text=f"You see your own words. Below them the provider puts the original itself, and it {worded}. This mailbox"
        " was connected without the permission to write drafts.",
    )
