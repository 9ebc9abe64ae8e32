"""What a person should know before deciding: each warning a small pure function."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from approvals.types import PreviewWarning
from tools.addresses import domain_of
from tools.compose import OutgoingMessage

MANY = 10


@dataclass(frozen=True, kw_only=True)
class Context:
    """What is known besides the message: the domains that are one's own, and whether the same is on its way."""

    own_domains: frozenset[str]
    recent_duplicate: bool = False
    open_twin: bool = False
    quote_by_provider: bool = False


def external_recipient(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    outside = sorted({domain_of(a) for a in message.recipients} - context.own_domains)
    if not outside:
        return None
    own = ", ".join(sorted(context.own_domains))
    named = ", ".join(outside[:3]) + (f" and {len(outside) - 3} more" if len(outside) > 3 else "")
    is_ = "is not one of your domains" if len(outside) == 1 else "are not your domains"
    return PreviewWarning(code="external_recipient", title="This leaves your company.", text=f"{named} {is_} ({own}).")


def many_recipients(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    count = len(message.recipients)
    if count < MANY:
        return None
    return PreviewWarning(code="many_recipients", title="Many recipients.", text=f"This goes to {count} addresses.")


def bcc(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    count = len(message.request.bcc)
    if not count:
        return None
    who = "One recipient is" if count == 1 else f"{count} recipients are"
    return PreviewWarning(code="bcc", title="Blind copy.", text=f"{who} hidden from the others.")


def possible_duplicate(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    if context.recent_duplicate:
        text = "The same recipients, subject and text were proposed moments ago."
    elif context.open_twin:
        text = "The same recipients, subject and text are waiting already."
    else:
        return None
    return PreviewWarning(code="possible_duplicate", title="Possibly the same again.", text=text)


def no_sent_copy(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    if message.request.save_to_sent:
        return None
    return PreviewWarning(
        code="no_sent_copy",
        title="No copy in Sent.",
        text="You will have no copy, and a lost answer cannot be looked up.",
    )


def content_removed(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    if not message.request.content.content_removed:
        return None
    return PreviewWarning(
        code="content_removed",
        title="Parts were removed.",
        text="Scripts, forms, style sheets, comments or unsafe styles were taken out of the HTML. What you see leaves.",
    )


def quote_by_provider(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    if not context.quote_by_provider:
        return None
    answer = "answer" if message.request.kind == "reply" else "forward"
    return PreviewWarning(
        code="quote_by_provider",
        title="The provider completes this.",
        text=f"You see your own words. Below them the provider puts the original itself, and it words the subject of"
        f" the {answer}: this mailbox was connected without the permission to write drafts.",
    )


ALL: Sequence[Callable[[OutgoingMessage, Context], PreviewWarning | None]] = (
    external_recipient,
    many_recipients,
    bcc,
    possible_duplicate,
    no_sent_copy,
    content_removed,
    quote_by_provider,
)


def of(message: OutgoingMessage, context: Context) -> tuple[PreviewWarning, ...]:
    """All warnings that apply, in a stable order."""
    return tuple(found for check in ALL if (found := check(message, context)))
