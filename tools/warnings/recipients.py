"""Warnings about the recipients."""

from collections.abc import Sequence

from approvals.core.types import PreviewWarning
from tools.mail.message.compose import OutgoingMessage
from tools.mail.text.addresses import domain_of
from tools.warnings import lookalike
from tools.warnings.context import Context

MANY = 10
NAMED = 3


def external_recipient(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    outside = sorted({domain_of(a) for a in message.recipients} - context.own_domains)
    if not outside:
        return None
    own = ", ".join(sorted(context.own_domains))
    is_ = "is not one of your domains" if len(outside) == 1 else "are not your domains"
    return PreviewWarning(
        code="external_recipient",
        title="This leaves your company.",
        text=f"{_named(outside)} {is_} ({own}).",
    )


def first_time_recipient(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    said = []
    if context.strangers:
        said.append(f"Nothing to {_named(context.strangers)} was found in Sent.")
    if context.unasked:
        said.append(
            f"Whether you have written to {_named(context.unasked)} before was not looked up."
        )
    if not said:
        return None
    title = "First time." if context.strangers else "Perhaps for the first time."
    return PreviewWarning(code="first_time_recipient", title=title, text=" ".join(said))


def lookalike_domain(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    """Return a warning about a domain that imitates a known one, or mixes letters of several
    scripts.
    """
    known = context.own_domains | context.known_domains
    said = []
    for domain in sorted({domain_of(a) for a in message.recipients} - known):
        like = lookalike.model_of(domain, known)
        shown = lookalike.spelled(domain)
        if like:
            said.append(f"{shown} is not {lookalike.spelled(like)}, but looks like it.")
        elif lookalike.mixes_scripts(domain):
            said.append(f"{shown} mixes letters of different scripts.")
    if not said:
        return None
    return PreviewWarning(
        code="lookalike_domain",
        title="Look at the address.",
        text=" ".join(said[:NAMED]),
        severity="risk",
    )


def reply_to_differs(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    """Return a warning about an answer to another domain than the sender's.

    It is a high risk if the mailbox knows only the domain of the sender: somebody may write in the
    name of an acquaintance and collect the answers.
    """
    asked_by = domain_of(context.asked_by)
    receiving = {domain_of(address) for address in message.recipients}
    known = context.own_domains | context.known_domains
    elsewhere = [
        address
        for address in context.answers_to
        if domain_of(address) in receiving and not _same_house(domain_of(address), asked_by)
    ]
    if not asked_by or not elsewhere:
        return None
    strange = asked_by in known and any(domain_of(address) not in known for address in elsewhere)
    return PreviewWarning(
        code="reply_to_differs",
        title="The answer goes elsewhere.",
        text=f"{context.asked_by} wrote the mail and asks for answers to {_named(elsewhere)}.",
        severity="risk" if strange else "notice",
        mark=domain_of(elsewhere[0]),
    )


def _same_house(domain: str, other: str) -> bool:
    return domain == other or domain.endswith("." + other) or other.endswith("." + domain)


def many_recipients(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    count = len(message.recipients)
    if count < MANY:
        return None
    return PreviewWarning(
        code="many_recipients", title="Many recipients.", text=f"This goes to {count} addresses."
    )


def reply_all(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    others = len(message.recipients) - 1
    if not context.reply_all or others < 1:
        return None
    who = "one more person" if others == 1 else f"{others} more people"
    return PreviewWarning(
        code="reply_all",
        title="This answers everybody.",
        text=f"It goes to the sender and {who} of the original.",
    )


def bcc(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    count = len(message.request.bcc)
    if not count:
        return None
    who = "One recipient is" if count == 1 else f"{count} recipients are"
    return PreviewWarning(code="bcc", title="Blind copy.", text=f"{who} hidden from the others.")


def _named(these: Sequence[str]) -> str:
    more = len(these) - NAMED
    return ", ".join(these[:NAMED]) + (f" and {more} more" if more > 0 else "")
