"""The mailbox's own facts about a message before a decision: earlier recipients and the thread.

All of it is read outside any transaction, and bounded: each recipient costs at most one request,
and only once.
"""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any

from accounts.connect import mailbox_status
from accounts.infra.compiled_sql import Asked, Select, read_together, slot
from accounts.models import Mailbox
from tools.mail.message.content import Original
from tools.mail.message.markup import whole_text
from tools.mail.text.addresses import domain_of
from tools.models import Acquaintance
from tools.providers import provider_for
from tools.providers.base import MailProvider, SearchQuery
from tools.providers.errors import NotAuthorized, NotFound, ProviderError, Unsupported
from tools.warnings import Context, Later

FIRST_LOOK = 50  # of the newest in Sent, for the first lookup
ASKED = 5  # recipients that are looked up one by one
LOOKED_AT = 5  # of the results for one: a search may find other addresses that contain this one


_domains = Select(
    lambda: (
        Acquaintance.objects.filter(mailbox=slot(Acquaintance, "mailbox"))
        .order_by()
        .values_list("domain")
        .distinct()
    )
)


def surroundings(
    mailbox: Mailbox,
    recipients: Iterable[str],
    found: Sequence[Sequence[tuple[Any, ...]]] | None = None,
) -> Context:
    """Return the recipients that are new to this mailbox, and the domains that it knows.

    `found` are the answers to `questions`, if they were read with something else. A mailbox that
    does not answer delays no proposal; `unasked` then has the recipients that were not looked up.
    """
    everybody = _fold(recipients)
    unknown, domains = _look_up(mailbox, everybody, found)
    strangers: list[str] = []
    try:
        if unknown and mailbox.status != Mailbox.Status.NEEDS_REAUTH:
            provider = provider_for(mailbox)
            all_seen = False  # then a search would find nothing else
            if not domains:
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
                    domains.add(domain_of(address))
                else:
                    strangers.append(address)
                unknown = tuple(each for each in unknown if each != address)
    except NotAuthorized:
        mailbox_status.mark_login_refused(mailbox)  # the others stay in `unasked`
    except ProviderError:
        pass
    return Context(
        own_domains=frozenset({mailbox.domain}),
        known_domains=frozenset(domains),
        strangers=tuple(strangers),
        unasked=unknown,
    )


def remember_acquaintances(mailbox: Mailbox, addresses: Iterable[str]) -> None:
    """Store the addresses that the mailbox has written to; known ones cost no write."""
    wanted = {_digest(address): address for address in addresses if "@" in address}
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


def find_later(
    provider: MailProvider, original: str, message_id: str, *, own: str = ""
) -> Later | None:
    """Return the newest message of the thread unless it is the answered one; `own` is the answer
    itself.

    If the original is gone or the mailbox has no threads, return None. Every other refusal is
    raised, because the thread was not read then.
    """
    try:
        thread = provider.read_thread(original, limit=2, body=False)
    except Unsupported:
        return None
    except NotFound:
        return None
    others = [message for message in thread if not own or message.message_id != own]
    if not others:
        return None
    newest = others[-1]
    if newest.id == original or (message_id and newest.message_id == message_id):
        return None
    return Later(
        message_id=newest.message_id or newest.id,
        from_address=newest.from_address,
        date=newest.date,
    )


def all_text(original: Original) -> str:
    """Return everything that a program could read in it, hidden text included."""
    return f"{original.subject}\n{original.text}\n{whole_text(original.html or '')}"


def questions(mailbox: Mailbox, recipients: Iterable[str]) -> tuple[Asked, Asked]:
    """Return what to ask the database for `surroundings`."""
    # With its own address the list is never empty, which would be no SQL.
    digests = [_digest(address) for address in (mailbox.address, *_fold(recipients))]
    known = Acquaintance.objects.filter(mailbox=mailbox, digest__in=digests).order_by()
    return (known.values_list("digest"), {}), (_domains, {"mailbox": mailbox.pk})


def _look_up(
    mailbox: Mailbox,
    addresses: tuple[str, ...],
    found: Sequence[Sequence[tuple[Any, ...]]] | None = None,
) -> tuple[tuple[str, ...], set[str]]:
    """Return those of the addresses that the mailbox does not know, and all domains that it knows."""
    digests, domains = found or read_together(*questions(mailbox, addresses))
    known = {_digest(mailbox.address), *(digest for (digest,) in digests)}
    unknown = tuple(address for address in addresses if _digest(address) not in known)
    return unknown, {domain for (domain,) in domains}


def _fold(addresses: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(address.lower() for address in addresses))


def _is_in_sent(provider: MailProvider, address: str) -> bool:
    found = provider.search(
        SearchQuery(to=address, folder="sent"), limit=LOOKED_AT, page_token=None
    )
    return any(not card.to or address in (to.lower() for to in card.to) for card in found.cards)


def _digest(address: str) -> str:
    return sha256(address.lower().encode()).hexdigest()
