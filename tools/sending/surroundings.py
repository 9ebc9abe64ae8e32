"""The mailbox's own facts about a message before a decision: earlier recipients and the thread.

All of it is read outside any transaction, and bounded: each recipient costs at most one request,
and only once.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256

from django.db.models import Count, Min, Q
from django.utils import timezone

from accounts.connect import mailbox_status
from accounts.models import Mailbox
from tools.mail.message.authentication import is_refuted, spell_verdicts
from tools.mail.message.content import Original
from tools.mail.message.markup import whole_text
from tools.mail.text.addresses import domain_of
from tools.models import Acquaintance
from tools.providers import provider_for
from tools.providers.base import MailProvider, Message, SearchQuery
from tools.providers.errors import NotAuthorized, ProviderError, Refused
from tools.providers.threads import OLDEST
from tools.warnings import Context, KnownDomain, Later, Unconfirmed, lookalike

FIRST_LOOK = 50  # of the newest in Sent, for the first lookup
ASKED = 5  # recipients that are looked up one by one
ANSWERED = 3  # of the last ids that a mail names, which are looked up in Sent
LOOKED_BACK = 50  # of the newest messages of a conversation
LOOKED_AT = 5  # of the results for one: a search may find other addresses that contain this one


Known = dict[str, KnownDomain]


def surroundings(
    mailbox: Mailbox,
    recipients: Iterable[str],
    *,
    confirmed: Iterable[str],
    elsewhere: Iterable[str] = (),
    asks: bool = True,
) -> Context:
    """Return the recipients that are new to this mailbox, and the domains that it knows.

    Without `asks` the mailbox is not asked, and only the known domains are returned.
    `confirmed` are the domains that a manager calls right, and `elsewhere` the addresses that
    another person asks to answer to. A mailbox that does not answer delays no proposal; `unasked`
    then has the recipients that were not looked up.
    """
    everybody = _fold(recipients)
    unknown, domains = _look_up(mailbox, everybody)
    strangers: list[str] = []
    context = Context(
        own_domains=frozenset({mailbox.domain}), confirmed_domains=frozenset(confirmed)
    )
    if not asks:
        return replace(context, known_domains=domains)
    try:
        if mailbox.status != Mailbox.Status.NEEDS_REAUTH:
            provider = provider_for(mailbox)
            all_seen = False  # then a search would find nothing else
            if unknown and not domains:
                newest = provider.list_messages(
                    folder="sent", unread=None, limit=FIRST_LOOK, page_token=None
                )
                remember_acquaintances(
                    mailbox, (address for card in newest.cards for address in card.to)
                )
                unknown, domains = _look_up(mailbox, unknown)
                all_seen = newest.next_token is None and all(card.to for card in newest.cards)
            for address in unknown[:ASKED]:
                if not all_seen and _is_in_sent(provider, address):
                    remember_acquaintances(mailbox, (address,))
                    domains.setdefault(domain_of(address), KnownDomain(since=timezone.now()))
                else:
                    strangers.append(address)
                unknown = tuple(each for each in unknown if each != address)
            now_known, apart = replace(context, known_domains=domains), frozenset(_fold(elsewhere))
            doubtful = [address for address in everybody if _is_doubtful(now_known, address, apart)]
            for address in doubtful[:ASKED]:
                if _has_answered(provider, address):
                    _remember_answer(mailbox, address)
                    domain = domain_of(address)
                    domains[domain] = replace(domains[domain], answered=True)
    except NotAuthorized:
        mailbox_status.mark_login_refused(mailbox)  # the others stay in `unasked`
    except ProviderError:
        pass
    return replace(context, known_domains=domains, strangers=tuple(strangers), unasked=unknown)


def _is_doubtful(context: Context, address: str, elsewhere: Collection[str]) -> bool:
    """Return True if a warning depends on an answer from this domain, and none is known."""
    domain = domain_of(address)
    if domain not in context.known_domains or domain in context.trusted_domains:
        return False
    return (
        address in elsewhere
        or lookalike.mixes_scripts(domain)
        or lookalike.model_of(domain, context.models_for(domain)) is not None
    )


def _has_answered(provider: MailProvider, address: str) -> bool:
    """Return True if a mail from this address in the inbox answers a mail in Sent.

    A mail that only arrived proves nothing, because everybody can write to the mailbox.
    """
    found = provider.search(SearchQuery(from_=address), limit=LOOKED_AT, page_token=None)
    for card in found.cards:
        if card.from_address.lower() != address:
            continue  # a search may find other addresses that contain this one
        message = provider.read_message(card.id, body=False)
        if not message.is_automatic and any(
            _was_sent(provider, each) for each in message.references[-ANSWERED:]
        ):
            return True
    return False


def _was_sent(provider: MailProvider, message_id: str) -> bool:
    try:
        return provider.find_sent(message_id) is not None
    except Refused:
        return False  # no search can hold this id


def _remember_answer(mailbox: Mailbox, address: str) -> None:
    domain = domain_of(address)[:255]
    Acquaintance.objects.filter(mailbox=mailbox, domain=domain).update(answered=True)


def remember_acquaintances(mailbox: Mailbox, addresses: Iterable[str]) -> None:
    """Store the addresses that the mailbox has written to; known ones cost no write."""
    wanted = {digest_of_address(address): address for address in addresses if "@" in address}
    known = Acquaintance.objects.filter(mailbox=mailbox, digest__in=wanted).values_list(
        "digest", flat=True
    )
    Acquaintance.objects.bulk_create(
        (
            Acquaintance(
                mailbox=mailbox, digest=digest, domain=domain_of(wanted[digest].lower())[:255]
            )
            for digest in wanted.keys() - set(known)
        ),
        ignore_conflicts=True,  # another process may be faster
    )


@dataclass(frozen=True, kw_only=True)
class Look:
    """A look at a conversation.

    `named` are the messages with the id of the answered one, and `later` the answers of others that
    came after it. `sent` are the answers of the mailbox itself, in Sent or filed elsewhere, unless it
    answers its own mail.
    """

    named: list[Message]
    sent: tuple[Message, ...] = ()
    later: Later | None = None


def find_later(
    provider: MailProvider, original: str, answered: str, references: Sequence[str], *, own: str
) -> Later | None:
    """Return the answers that came after the answered message, or None. Raises ProviderError."""
    return look_at_thread(provider, original, answered, references, own=own).later


def look_at_thread(
    provider: MailProvider, original: str, answered: str, references: Sequence[str], *, own: str
) -> Look:
    """Return what the conversation of the answered message shows.

    The message may be gone, or several may have its Message-ID, which their senders choose. With
    places that could not be searched, `later` is not whole, and may name none. `original` is
    the answered message's id at the provider and may be empty, `answered` its Message-ID,
    `references` are the ids before it, and `own` is the address of the mailbox. Raises
    ProviderError.
    """
    before = frozenset(references) - {answered}
    thread = provider.read_thread(
        original, limit=LOOKED_BACK, body=False, answers_to=(answered, *references)
    )
    named = [
        each
        for each in thread.messages
        if each.id == original or (answered and each.message_id == answered)
    ]
    first = named[0] if named else None
    answers = [
        each
        for each in thread.messages
        if each != first
        and each.message_id not in {answered, *before} - {""}
        and is_answer(each, answered, first, own=own)
    ]
    sent = tuple(
        each
        for each in thread.messages
        if _is_own(each, own) and not each.is_automatic and _names_or_follows(each, answered, first)
    )
    is_own = first is not None and _is_own(first, own)
    look = Look(named=named, sent=() if is_own else sent)
    if answers:
        proven = answers if first else [each for each in answers if answered in each.references]
        later = as_later(proven or answers, is_proven=bool(proven))
        return replace(look, later=replace(later, is_whole=thread.is_whole))
    return look if thread.is_whole else replace(look, later=Later(ids=(), is_whole=False))


def _is_own(message: Message, own: str) -> bool:
    """Return True if the mailbox wrote it: people file their mail, and copy it to the inbox of a team."""
    return message.is_sent or message.from_address.lower() == own.lower()


def _names_or_follows(message: Message, answered: str, first: Message | None) -> bool:
    """Return True if own mail in the conversation answers the message, as far as that is known.

    Microsoft 365 does not show what mail in Sent names: there, whatever is no older does.
    """
    if message.references:
        return answered in message.references
    # Graph tells whole seconds.
    return first is not None and not _is_after(
        first.arrived or first.date, message.arrived or message.date
    )


def find_own_answer(
    look: Look, recipients: Iterable[str], *, besides: Collection[str] = ()
) -> Later | None:
    """Return the own answers that went to one of these recipients, without those with a Message-ID
    of `besides`, or None.
    """
    people = {each.lower() for each in recipients}
    answers = [
        each
        for each in look.sent
        if each.message_id not in besides
        and not people.isdisjoint(address.lower() for address in (*each.to, *each.cc))
    ]
    return as_later(answers, is_proven=True) if answers else None


def as_later(answers: Sequence[Message], *, is_proven: bool) -> Later:
    """Return the answers as one. Which came last is not for their Dates to say."""
    last = max(answers, key=_came)
    return Later(
        ids=tuple(dict.fromkeys(each.message_id or each.id for each in answers)),
        from_address=last.from_address,
        date=last.date,
        arrived=last.arrived,
        is_proven=is_proven,
    )


def add_answers(later: Later | None, answers: Sequence[Message]) -> Later | None:
    """Return what the thread tells together with answers that name the answered message."""
    if not answers:
        return later
    arrived = as_later(answers, is_proven=True)
    if later is None:
        return arrived
    last = max(later, arrived, key=_came) if later.is_proven else arrived
    ids = tuple(dict.fromkeys(later.ids + arrived.ids))
    return replace(last, ids=ids, is_whole=later.is_whole)


def _came(one: Message | Later) -> datetime:
    return one.arrived or one.date or OLDEST


def is_answer(message: Message, answered: str, first: Message | None, *, own: str) -> bool:
    """Return True if somebody else wrote this message after the answered one, `first`.

    It either names that one, or came later into the conversation: by its Date, which its sender
    chooses, or by its arrival. If that one is gone, every message of somebody else counts.
    """
    if message.is_automatic or _is_own(message, own):
        return False
    if first is None or (answered and answered in message.references):
        return True
    return _is_after(message.date, first.date) or _is_after(message.arrived, first.arrived)


def find_unconfirmed(*originals: Message) -> Unconfirmed | None:
    """Return the sender of an original for which the checks of the mailbox's own server failed."""
    for original in originals:
        if is_refuted(original.authentication):
            checks = spell_verdicts(original.authentication)
            return Unconfirmed(address=original.from_address, checks=checks)
    return None


def _is_after(time: datetime | None, other: datetime | None) -> bool:
    return time is not None and (other is None or time > other)


def all_text(original: Original) -> str:
    """Return everything that a program could read in it, hidden text included."""
    return f"{original.subject}\n{original.text}\n{whole_text(original.html or '')}"


def _look_up(mailbox: Mailbox, addresses: tuple[str, ...]) -> tuple[tuple[str, ...], Known]:
    """Return those of the addresses that the mailbox does not know, and all domains that it knows."""
    mine = Acquaintance.objects.filter(mailbox=mailbox).order_by()
    digests = [digest_of_address(address) for address in addresses]
    known = {
        digest_of_address(mailbox.address),
        *mine.filter(digest__in=digests).values_list("digest", flat=True),
    }
    unknown = tuple(address for address in addresses if digest_of_address(address) not in known)
    domains = mine.values_list("domain").annotate(
        first=Min("since"), answers=Count("pk", filter=Q(answered=True))
    )
    return unknown, {
        domain: KnownDomain(since=since, answered=count > 0) for domain, since, count in domains
    }


def _fold(addresses: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(address.lower() for address in addresses))


def _is_in_sent(provider: MailProvider, address: str) -> bool:
    found = provider.search(
        SearchQuery(to=address, folder="sent"), limit=LOOKED_AT, page_token=None
    )
    return any(not card.to or address in (to.lower() for to in card.to) for card in found.cards)


def lies_in_sent(provider: MailProvider, message_id: str, to: str) -> bool:
    """Return True if the mail, named by its id at the provider, is among the newest in Sent to this
    address.

    Everybody can write the address of the mailbox into From, but nobody else can write to Sent.
    """
    try:
        found = provider.search(
            SearchQuery(to=to, folder="sent"), limit=LOOKED_BACK, page_token=None
        )
    except ProviderError:
        return False
    return any(card.id == message_id for card in found.cards)


def digest_of_address(address: str) -> str:
    return sha256(address.lower().encode()).hexdigest()
