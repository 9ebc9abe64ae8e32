"""The mail that a mailbox has exchanged with an address."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from accounts.access.caller import Caller
from accounts.access.provider_calls import limit_waiting
from accounts.models import Mailbox
from tools.providers.base import Card, Page, SearchQuery
from tools.providers.failures import map_errors
from tools.reading.own_mail import provider_of

LOOKED_AT = 25


@dataclass(frozen=True, kw_only=True)
class Correspondent:
    """An address with the name that it gave itself, and the mail with it in the mailbox.

    `mails` counts what was received from it and sent to it, and `last` is the newest date. With
    `more`, there are more mails than were counted.
    """

    address: str
    name: str
    mails: int
    more: bool
    last: datetime | None


def look_up(caller: Caller, mailbox: Mailbox, address: str) -> Correspondent:
    """Ask the provider with two searches; raises Problem."""
    provider = provider_of(mailbox)
    with limit_waiting(caller.user.pk, mailbox.pk), map_errors(mailbox):
        received, more_received = _find(
            provider.search, SearchQuery(from_=address), lambda card: (card.from_address,)
        )
        sent, more_sent = _find(
            provider.search, SearchQuery(to=address, folder="sent"), lambda card: card.to
        )
    dates = [card.date for card in (*received, *sent) if card.date is not None]
    return Correspondent(
        address=address,
        name=next((card.from_name for card in received if card.from_name), ""),
        mails=len(received) + len(sent),
        more=more_received or more_sent,
        last=max(dates, default=None),
    )


def _find(
    search: Callable[..., Page], query: SearchQuery, addresses: Callable[[Card], Sequence[str]]
) -> tuple[list[Card], bool]:
    """Return the mails with exactly this address: a search may find others that contain it."""
    wanted = (query.from_ or query.to).lower()
    found = search(query, limit=LOOKED_AT, page_token=None)
    cards = [card for card in found.cards if wanted in (each.lower() for each in addresses(card))]
    return cards, found.next_token is not None
