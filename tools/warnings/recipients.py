"""Warnings about the recipients."""

from collections.abc import Iterable, Sequence

from accounts.infra.texts import Translatable, join, ntranslatable, translatable
from tools.mail.message.compose import OutgoingMessage
from tools.mail.text.addresses import domain_of
from tools.warnings import lookalike
from tools.warnings.checks import NAMED, Found, and_more, check
from tools.warnings.context import Context

MANY = 10


@check(
    translatable("This leaves your company."), translatable("outside the company"), severity="fact"
)
def external_recipient(message: OutgoingMessage, context: Context) -> str | None:
    """Warn if somebody outside the mailbox's own domain gets it. The page shows it as a fact, not
    as a warning, because most mail does.
    """
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
    return join(text, and_more(len(outside) - NAMED))


@check(translatable("New recipient."), translatable("first mail to this address"))
def first_time_recipient(message: OutgoingMessage, context: Context) -> Found | None:
    """Warn if no mail to a recipient was found in Sent, or mailhub did not look: it looks up five
    recipients, and none while the mailbox does not answer. If only the writer of the answered mail
    is new, the page shows it as a fact.
    """
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
    # The writer of the answered mail is no surprise as a recipient of the answer.
    asked = {context.asked_by.lower()} - {""}
    expected = {address.lower() for address in (*strangers, *unasked)} <= asked
    return Found(
        title="" if strangers else translatable("Perhaps a new recipient."),
        text=text,
        severity="fact" if expected else "notice",
    )


@check(
    translatable("Check the address."),
    translatable("looks like another domain"),
    severity="risk",
    of_text=True,
)
def lookalike_domain(message: OutgoingMessage, context: Context) -> str | None:
    """Warn if a recipient's domain looks like one that this mailbox has known as long or longer
    (letters that look the same, one different letter, the same beginning, another ending, an added
    word such as `secure`), or mixes scripts. Mail to it does not end the warning, and an answer
    only the one about scripts. A manager ends it in the rules of the mailbox.
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
    return join(*said[:NAMED], and_more(len(said) - NAMED))


@check(translatable("The answer goes elsewhere."), translatable("replies go elsewhere"), rises=True)
def reply_to_differs(message: OutgoingMessage, context: Context) -> Found | None:
    """Warn if the answer goes to a Reply-To of another domain than From; a high risk if the mailbox
    has written to the domain of From, and nobody of the other one has answered.
    """
    # The mark names each domain elsewhere: an edit takes the warning off when none of them is left.
    if context.original_is_forged:
        to = message.request.to
        text = translatable(
            "The answered mail says that %(sender)s wrote it, but it is not in Sent. "
            "Its To and Cc name %(addresses)s.",
            sender=context.asked_by,
            addresses=_first(to),
        )
        return Found(
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
    # Somebody may write in the name of an acquaintance and collect the answers.
    strange = asked_by in known and any(
        domain_of(address) not in context.trusted_domains for address in elsewhere
    )
    text = translatable(
        "%(sender)s wrote the mail and asks for answers to %(addresses)s.",
        sender=context.asked_by,
        addresses=_first(elsewhere),
    )
    return Found(
        text=join(text, and_more(len(elsewhere) - NAMED)),
        severity="risk" if strange else "notice",
        mark=_domains_of(elsewhere),
    )


@check(translatable("The sender may be forged."), translatable("sender may be forged"), rises=True)
def sender_unconfirmed(message: OutgoingMessage, context: Context) -> Found | None:
    """Warn if the mail that is answered or forwarded, by a draft too, fails DMARC, or fails SPF and
    DKIM without a verdict of DMARC, as the mailbox's own server says; a high risk if its sender is
    of the own domain, or of one that the mailbox has written to. Mailing lists make honest mail
    fail too.
    """
    found = context.unconfirmed
    if found is None:
        return None
    known = context.own_domains | context.known_domains.keys()
    return Found(
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


@check(translatable("Many recipients."), translatable("many recipients"))
def many_recipients(message: OutgoingMessage, context: Context) -> str | None:
    """Warn if ten or more addresses get it."""
    count = len(message.recipients)
    if count < MANY:
        return None
    return translatable("This goes to %(count)s addresses.", count=count)


@check(translatable("This replies to everybody."), translatable("reply to all"))
def reply_all(message: OutgoingMessage, context: Context) -> str | None:
    """Warn if others than the sender are answered."""
    others = len(message.recipients) - 1
    if not context.reply_all or others < 1:
        return None
    return ntranslatable(
        "The reply goes to the sender and %(count)s more person of the original.",
        "The reply goes to the sender and %(count)s more people of the original.",
        others,
    )


@check(translatable("Blind copy."), translatable("blind copy"))
def bcc(message: OutgoingMessage, context: Context) -> str | None:
    """Warn if recipients are hidden from the others."""
    count = len(message.request.bcc)
    if not count:
        return None
    return ntranslatable(
        "%(count)s recipient is hidden from the others.",
        "%(count)s recipients are hidden from the others.",
        count,
    )


def _first(these: Sequence[str]) -> str:
    return ", ".join(these[:NAMED])
