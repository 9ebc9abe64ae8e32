"""The warnings for a person who decides: each is a small pure function of message and context.

The HTML is judged as it was proposed; the cleaned HTML leaves. High risk (severity `risk`) asks for
a fresh sign-in and cannot be approved in bulk. A `fact` is usual, and no warning for a person.
"""

from collections.abc import Callable, Sequence
from typing import Any

from approvals.core.types import PreviewWarning
from tools.mail.message.compose import OutgoingMessage
from tools.mail.message.hidden import HiddenText, hidden_texts
from tools.warnings.context import Context, KnownDomain, Later, Unconfirmed
from tools.warnings.course import (
    draft_was_sent,
    no_sent_copy,
    possible_duplicate,
    signature_lost,
    thread_moved,
    thread_unread,
)
from tools.warnings.files import attachment_missing, attachment_type
from tools.warnings.parts import alternatives_differ, hidden_part
from tools.warnings.payments import payment_details
from tools.warnings.recipients import (
    bcc,
    external_recipient,
    first_time_recipient,
    lookalike_domain,
    many_recipients,
    reply_all,
    reply_to_differs,
    sender_unconfirmed,
)
from tools.warnings.slips import model_artifact, unfilled_placeholder
from tools.warnings.targets import link_mismatch, long_query, remote_content
from tools.warnings.wording import bidi, content_removed, hidden_text, injection, secret

__all__ = [
    "ALL",
    "Context",
    "KnownDomain",
    "Later",
    "Unconfirmed",
    "find_warnings",
    "judge_message",
]

ALL: Sequence[Callable[[OutgoingMessage, Context], PreviewWarning | None]] = (
    lookalike_domain,
    injection,
    secret,
    payment_details,
    unfilled_placeholder,
    model_artifact,
    link_mismatch,
    remote_content,
    bidi,
    alternatives_differ,
    hidden_part,
    reply_to_differs,
    sender_unconfirmed,
    external_recipient,
    first_time_recipient,
    many_recipients,
    reply_all,
    bcc,
    thread_moved,
    thread_unread,
    draft_was_sent,
    possible_duplicate,
    attachment_missing,
    attachment_type,
    signature_lost,
    hidden_text,
    long_query,
    no_sent_copy,
    content_removed,
)
ORDER = ("risk", "notice", "fact")


def find_warnings(message: OutgoingMessage, context: Context) -> tuple[PreviewWarning, ...]:
    """Return all warnings that apply, high risks first and facts last, in a stable order."""
    found = [warning for check in ALL if (warning := check(message, context))]
    return tuple(sorted(found, key=lambda warning: ORDER.index(warning.severity)))


def judge_message(
    message: OutgoingMessage, context: Context
) -> tuple[tuple[dict[str, Any], ...], tuple[HiddenText, ...]]:
    """Return all warnings that apply and the hidden texts: one job for a limited process.

    The warnings are JSON, because a text would lose its source between two processes.
    """
    warnings = tuple(warning.as_json() for warning in find_warnings(message, context))
    return warnings, hidden_texts(message.request.content, message.request.subject)
