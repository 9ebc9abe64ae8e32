"""Warnings about the origin of this message and its handling."""

import hashlib

from accounts.infra.texts import Translatable, join, translatable
from approvals.core.types import PreviewWarning
from tools.mail.message.compose import OutgoingMessage
from tools.warnings.context import Context, Later

SIGNATURES = (".p7m", ".p7s", ".asc", ".sig")


def possible_duplicate(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    if context.recent_duplicate:
        text = translatable(
            "The same recipients, subject and text were proposed moments ago, or may have been sent."
        )
    elif context.open_twin:
        text = translatable("The same recipients, subject and text are already waiting.")
    else:
        return None
    return PreviewWarning(
        code="possible_duplicate", title=translatable("Possible duplicate."), text=text
    )


def draft_was_sent(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    if not context.draft_was_sent:
        return None
    return PreviewWarning(
        code="draft_was_sent",
        title=translatable("This draft may have been sent already."),
        text=translatable(
            "It was handed over before, and is still in the drafts. Look in the Sent folder before you approve it."
        ),
        severity="risk",
    )


def signature_lost(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    """Return a warning about a forward of a signed mail without the file of its signature."""
    request = message.request
    if request.kind != "forward" or not context.original_is_signed:
        return None
    if any(file.name.lower().endswith(SIGNATURES) for file in request.attachments):
        return None
    return PreviewWarning(
        code="signature_lost",
        title=translatable("The signature is lost."),
        text=translatable(
            "The forwarded mail was signed. Its recipient cannot check the signature of the copy."
        ),
    )


def thread_moved(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    later = context.later
    return build_thread_moved(later) if later and later.ids else None


def thread_unread(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    later = context.later
    return build_thread_unread() if later and not later.is_whole else None


def build_thread_unread(*, is_due: bool = False) -> PreviewWarning:
    """Return the warning that nobody could look everywhere.

    It is news again when the mail has to leave (`is_due`), even if an earlier search had failed.
    """
    return PreviewWarning(
        code="thread_unread",
        title=translatable("Perhaps there is an answer."),
        text=translatable(
            "mailhub could not search the whole conversation. Look for a newer mail in it."
        ),
        mark="due" if is_due else "",
    )


def build_thread_moved(later: Later) -> PreviewWarning:
    """Return the warning that the thread has newer messages.

    The mark names all of them, so another one warns again, whatever its Date.
    """
    dated = (
        translatable("The newest mail is from %(date)s.", date=f"{later.date:%Y-%m-%d %H:%M %z}")
        if later.date
        else ""
    )
    return PreviewWarning(
        code="thread_moved",
        title=translatable("The conversation has moved on."),
        text=join(_newer_mail(later), dated),
        mark=" ".join(sorted(hashlib.sha256(each.encode()).hexdigest()[:16] for each in later.ids)),
    )


def _newer_mail(later: Later) -> Translatable:
    if not later.from_address:
        return translatable("Somebody has written in it after the mail that this answers.")
    return translatable(
        "%(address)s has written in it after the mail that this answers.",
        address=later.from_address,
    )


def no_sent_copy(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    if message.request.save_to_sent:
        return None
    return PreviewWarning(
        code="no_sent_copy",
        title=translatable("No copy in Sent."),
        text=translatable(
            "You will have no copy. If the answer of the mail server is lost, mailhub cannot look the mail up in Sent."
        ),
    )
