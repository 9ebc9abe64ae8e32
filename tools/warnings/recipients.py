"""Warnings about the recipients."""

from collections.abc import Iterable, Sequence

from accounts.infra.texts import Translatable, join, ntranslatable, translatable
from approvals.core.types import PreviewWarning
from tools.mail.message.compose import OutgoingMessage
from tools.mail.text.addresses import domain_of
from tools.warnings import lookalike
from tools.warnings.context import Context
from tools.warnings.lists import NAMED, and_more

MANY = 10


def external_recipient(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    outside = sorted({domain_of(a) for a in message.recipients} - context.own_domains)
    if not outside:
        return None
    text = ntranslatable(
        "%(domains)s is not one of your domains (%(own)s).",
        "%(domains)s are not your domains (%(own)s).",
        len(outside),
        domains=_first(outside),
        own=", ".join(sorted(context.own_domains)),
    )
    return PreviewWarning(
        code="external_recipient",
        title=translatable("This leaves your company."),
        text=join(text, and_more(len(outside) - NAMED)),
        severity="fact",
    )


def first_time_recipient(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    strangers, unasked = context.strangers, context.unasked
    if not strangers and not unasked:
        return None
    text = join(
        translatable("Sent has no mail to %(addresses)s.", addresses=_first(strangers))
        if strangers
        else "",
        and_more(len(strangers) - NAMED),
        translatable("mailhub did not look in Sent for %(addresses)s.", addresses=_first(unasked))
        if unasked
        else "",
        and_more(len(unasked) - NAMED),
    )
    title = (
        translatable("New recipient.") if strangers else translatable("Perhaps a new recipient.")
    )
    # The writer of the answered mail is no surprise as a recipient of the answer.
    asked = {context.asked_by.lower()} - {""}
    expected = {address.lower() for address in (*strangers, *unasked)} <= asked
    return PreviewWarning(
        code="first_time_recipient",
        title=title,
        text=text,
        severity="fact" if expected else "notice",
    )


def lookalike_domain(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    """Return a warning about a domain that imitates a known one, or mixes letters of several
    scripts.

    Mail to it makes it no better known, and an answer does not make it older than its model.
    """
    sure = context.own_domains | context.confirmed_domains
    said: list[Translatable] = []
    for domain in sorted({domain_of(a) for a in message.recipients} - sure):
        like = lookalike.model_of(domain, context.models_for(domain))
        shown = lookalike.spell_domain(domain)
        if like:
            said.append(
                translatable(
                    "%(domain)s is not %(known)s, but looks like it.",
                    domain=shown,
                    known=lookalike.spell_domain(like),
                )
            )
        elif domain not in context.trusted_domains and lookalike.mixes_scripts(domain):
            said.append(
                translatable("%(domain)s mixes letters of different scripts.", domain=shown)
            )
    if not said:
        return None
    return PreviewWarning(
        code="lookalike_domain",
        title=translatable("Check the address."),
        text=join(*said[:NAMED], and_more(len(said) - NAMED)),
        severity="risk",
    )


def reply_to_differs(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    """Return a warning about an answer to another domain than the sender's.

    It is a high risk if the mailbox knows the domain of the sender, but nobody has answered from
    the other one: somebody may write in the name of an acquaintance and collect the answers. A mail
    in the name of the mailbox itself is a high risk unless it lies in Sent. The mark names each
    domain elsewhere: an edit takes the warning off when none of them is left.
    """
    if context.original_is_forged:
        to = message.request.to
        text = translatable(
            "The answered mail says that %(sender)s wrote it, but it is not in Sent. "
            "Its To and Cc name %(addresses)s.",
            sender=context.asked_by,
            addresses=_first(to),
        )
        return PreviewWarning(
            code="reply_to_differs",
            title=translatable("The answer goes elsewhere."),
            text=join(text, and_more(len(to) - NAMED)),
            severity="risk",
            mark=_domains_of(message.recipients),
        )
    asked_by = domain_of(context.asked_by)
    receiving = {domain_of(address) for address in message.recipients}
    known = context.own_domains | context.known_domains.keys()
    elsewhere = [
        address
        for address in context.answers_to
        if domain_of(address) in receiving and not _is_same_house(domain_of(address), asked_by)
    ]
    if not asked_by or not elsewhere:
        return None
    strange = asked_by in known and any(
        domain_of(address) not in context.trusted_domains for address in elsewhere
    )
    text = translatable(
        "%(sender)s wrote the mail and asks for answers to %(addresses)s.",
        sender=context.asked_by,
        addresses=_first(elsewhere),
    )
    return PreviewWarning(
        code="reply_to_differs",
        title=translatable("The answer goes elsewhere."),
        text=join(text, and_more(len(elsewhere) - NAMED)),
        severity="risk" if strange else "notice",
        mark=_domains_of(elsewhere),
    )


def sender_unconfirmed(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    """Return a warning about an original whose sender failed the checks of the own mail server.

    It is a high risk if the sender is of the own company, or of one that the mailbox has written
    to. For all others it is a notice, because mailing lists make honest mail fail too.
    """
    found = context.unconfirmed
    if found is None:
        return None
    known = context.own_domains | context.known_domains.keys()
    return PreviewWarning(
        code="sender_unconfirmed",
        title=translatable("The sender may be forged."),
        text=translatable(
            "The original says that %(sender)s wrote it, but the checks of your mail server failed (%(checks)s).",
            sender=found.address,
            checks=found.checks,
        ),
        severity="risk" if domain_of(found.address) in known else "notice",
    )


def _domains_of(addresses: Iterable[str]) -> str:
    return " ".join(sorted({domain_of(address) for address in addresses}))


def _is_same_house(domain: str, other: str) -> bool:
    return domain == other or domain.endswith("." + other) or other.endswith("." + domain)


def many_recipients(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    count = len(message.recipients)
    if count < MANY:
        return None
    return PreviewWarning(
        code="many_recipients",
        title=translatable("Many recipients."),
        text=translatable("This goes to %(count)s addresses.", count=count),
    )


def reply_all(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    others = len(message.recipients) - 1
    if not context.reply_all or others < 1:
        return None
    return PreviewWarning(
        code="reply_all",
        title=translatable("This replies to everybody."),
        text=ntranslatable(
            "The reply goes to the sender and %(count)s more person of the original.",
            "The reply goes to the sender and %(count)s more people of the original.",
            others,
        ),
    )


def bcc(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    count = len(message.request.bcc)
    if not count:
        return None
    return PreviewWarning(
        code="bcc",
        title=translatable("Blind copy."),
        text=ntranslatable(
            "%(count)s recipient is hidden from the others.",
            "%(count)s recipients are hidden from the others.",
            count,
        ),
    )


def _first(these: Sequence[str]) -> str:
    return ", ".join(these[:NAMED])
