"""Warnings about the origin of this message and its handling."""

import hashlib

from accounts.infra.texts import Translatable, join, translatable
from approvals.core.types import PreviewWarning
from tools.mail.message.compose import OutgoingMessage
from tools.warnings.checks import Found, check
from tools.warnings.context import Context, Later

NOT_SEARCHED = translatable(
    "mailhub could not search the whole conversation. Look for a newer mail in it."
)
SIGNATURES = (".p7m", ".p7s", ".asc", ".sig")


@check(translatable("Possible duplicate."), translatable("possible duplicate"))
def possible_duplicate(message: OutgoingMessage, context: Context) -> str | None:
    """Warn if the same recipients, subject and beginning were proposed within two minutes, or in a
    mail that may have been sent; mail that a reviewer has edited counts as proposed and as edited.
    """
    if context.recent_duplicate:
        return translatable(
            "The same recipients, subject and text were proposed moments ago, or may have been sent."
        )
    if context.open_twin:
        return translatable("The same recipients, subject and text are already waiting.")
    return None


@check(
    translatable("This draft may have been sent already."),
    translatable("draft sent before?"),
    severity="risk",
)
def draft_was_sent(message: OutgoingMessage, context: Context) -> str | None:
    """Warn if another mail handed the same draft to the provider before, it is not proven that
    nothing left, and the draft is still there, for example because its removal failed.
    """
    if not context.draft_was_sent:
        return None
    return translatable(
        "It was handed over before, and is still in the drafts. Look in the Sent folder before you approve it."
    )


@check(translatable("The draft has another sender."), translatable("another sender than the draft"))
def draft_sender(message: OutgoingMessage, context: Context) -> str | None:
    """Warn if the draft is from another address, such as an alias: mailhub sends from the address of
    the mailbox only.
    """
    return _name_senders(context.draft_from, message) if context.draft_from else None


def build_draft_sender(draft_from: str, message: OutgoingMessage) -> PreviewWarning:
    """Return the warning that a draft has another sender than its new content."""
    return draft_sender.warn(_name_senders(draft_from, message))


def _name_senders(draft_from: str, message: OutgoingMessage) -> str:
    return translatable(
        "Its owner wrote it as %(draft)s. It leaves as %(sender)s, where answers go, too.",
        draft=draft_from,
        sender=message.request.from_address,
    )


@check(translatable("The signature is lost."), translatable("signature lost"))
def signature_lost(message: OutgoingMessage, context: Context) -> str | None:
    """Warn if a signed mail is forwarded without the file of its signature, so that nobody can
    check it.
    """
    request = message.request
    if request.kind != "forward" or not context.original_is_signed:
        return None
    if any(file.name.lower().endswith(SIGNATURES) for file in request.attachments):
        return None
    return translatable(
        "The forwarded mail was signed. Its recipient cannot check the signature of the copy."
    )


@check(translatable("The forward is not the whole mail."), translatable("forward is not whole"))
def original_shortened(message: OutgoingMessage, context: Context) -> str | None:
    """Warn if something of a forwarded mail does not go along: the calendar entry of an invitation,
    the parts of a delivery report or receipt for programs, or the end of a very long text.
    """
    return (
        context.left_behind if message.request.kind == "forward" and context.left_behind else None
    )


@check(
    translatable("The conversation has moved on."), translatable("newer mail in the conversation")
)
def thread_moved(message: OutgoingMessage, context: Context) -> Found | None:
    """Warn if somebody else has written in the thread after the message that is answered, under any
    subject. Own mail, automatic answers and delivery reports do not count. mailhub checks when the
    answer is proposed, approved and sent, and each further answer is news, whatever its Date. An
    approved answer waits while the check is not possible (`error.code` is `not_looked_at`).
    """
    later = context.later
    return _describe_later(later) if later and later.ids else None


@check(translatable("Perhaps there is an answer."), translatable("conversation not searched"))
def thread_unread(message: OutgoingMessage, context: Context) -> str | None:
    """Warn if mailhub could not search all of the thread for newer messages, whether it found any
    or not: a search was refused, or there is more than it searches. With `unless_answered`, that is
    asked again directly before the mail leaves.
    """
    later = context.later
    return NOT_SEARCHED if later and not later.is_whole else None


def build_thread_unread(*, is_due: bool = False) -> PreviewWarning:
    """Return the warning that nobody could look everywhere.

    It is news again when the mail has to leave (`is_due`), even if an earlier search had failed.
    """
    return thread_unread.warn(Found(text=NOT_SEARCHED, mark="due" if is_due else ""))


@check(translatable("This was answered already."), translatable("answered already"))
def answered_already(message: OutgoingMessage, context: Context) -> Found | None:
    """Warn if the mailbox has an answer of its own to the same mail, in Sent or filed elsewhere, that
    went to one of the same people: somebody wrote it by hand, or another program did. At Microsoft
    365, all later mail to them in the conversation counts. mailhub checks when the answer is
    proposed, approved and sent, and each further answer is news. An answer to own mail is a reminder
    and does not count.
    """
    return _describe_own(context.mine) if context.mine else None


def build_answered_already(mine: Later) -> PreviewWarning:
    """Return the warning that the mailbox itself has answered."""
    return answered_already.warn(_describe_own(mine))


def _describe_own(mine: Later) -> Found:
    text = translatable(
        "The mailbox has an answer of its own to the same mail. If this leaves too, they get one more."
    )
    dated = (
        translatable("The last one is from %(date)s.", date=f"{mine.date:%Y-%m-%d %H:%M %z}")
        if mine.date
        else ""
    )
    return Found(text=join(text, dated), mark=_marks_of(mine))


def build_thread_moved(later: Later) -> PreviewWarning:
    """Return the warning that the thread has newer messages."""
    return thread_moved.warn(_describe_later(later))


def _describe_later(later: Later) -> Found:
    """Return the finding. Its mark names all messages, so another one warns again."""
    dated = (
        translatable("The newest mail is from %(date)s.", date=f"{later.date:%Y-%m-%d %H:%M %z}")
        if later.date
        else ""
    )
    return Found(
        text=join(_newer_mail(later), dated),
        mark=_marks_of(later),
    )


def _marks_of(found: Later) -> str:
    """Return a word for each message, so that a further one is news, whatever its Date."""
    return " ".join(sorted(hashlib.sha256(each.encode()).hexdigest()[:16] for each in found.ids))


def _newer_mail(later: Later) -> Translatable:
    if not later.from_address:
        return translatable("Somebody has written in it after the mail that this answers.")
    return translatable(
        "%(address)s has written in it after the mail that this answers.",
        address=later.from_address,
    )


@check(translatable("No copy in Sent."), translatable("no copy in Sent"))
def no_sent_copy(message: OutgoingMessage, context: Context) -> str | None:
    """Warn if `save_to_sent_items` is false (a mailbox whose provider keeps a copy of everything it
    sends refuses that with `invalid_input`: Gmail, and IMAP where the provider saves copies;
    Microsoft 365 refuses it for an answer).
    """
    if message.request.save_to_sent:
        return None
    return translatable(
        "You will have no copy. If the answer of the mail server is lost, mailhub cannot look the mail up in Sent."
    )
