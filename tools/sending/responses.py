"""Answers, automatic replies and delivery reports that arrive after mail was sent."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from approvals.core.types import Arrivals, Failure, NotLookedAt, Response
from tools.providers.base import MailProvider, Message
from tools.providers.errors import NotFound, Refused
from tools.sending.surroundings import find_later, is_answer

MOST_ARRIVALS = 200  # of one look; the next look goes on
MOST_LOOKS = 10  # for an answer, directly before a mail leaves
FAILED = ("failed", "")  # what a report says about a recipient who did not get the mail


def find_responses(provider: MailProvider, since: datetime, *, own: str) -> Arrivals:
    """Return what arrived since then and names other mail, oldest first.

    `own` is the address of the mailbox. Raises ProviderError, and NotLookedAt if so many arrived
    that the oldest cannot be read.
    """
    found = provider.read_arrivals(since, limit=MOST_ARRIVALS)
    if not (found.messages or found.is_whole):
        raise NotLookedAt
    responses: list[Response] = []
    for message in found.messages:
        responses += _read(provider, message, own)
    last = None if found.is_whole else found.messages[-1].arrived
    return Arrivals(responses=tuple(responses), seen_until=last)


def find_arrived_answers(
    provider: MailProvider, since: datetime, answered: str, *, own: str
) -> tuple[list[Message], bool]:
    """Return what arrived since then and names the answered mail, and True if all could be read.

    Providers without a search of headers do not find it otherwise if its sender and its subject are
    new. Raises ProviderError.
    """
    answers: list[Message] = []
    for _ in range(MOST_LOOKS):
        found = provider.read_arrivals(since, limit=MOST_ARRIVALS)
        answers += (
            each
            for each in found.messages
            if answered in each.references and is_answer(each, answered, None, own=own)
        )
        newest = found.messages[-1].arrived if found.messages else None
        if found.is_whole or newest is None:
            return answers, found.is_whole
        if newest < since + timedelta(seconds=1):  # so many that one moment hides the rest
            return answers, False
        since = newest
    return answers, False


def find_answer(provider: MailProvider, message_id: str, *, own: str) -> Response | None:
    """Return the newest answer to a sent mail, searched for in the whole mailbox, or None.

    Raises ProviderError, and NotLookedAt if none is found and not everything could be searched.
    """
    later = find_later(provider, "", message_id, (), own=own)
    if later is None:
        return None
    if not later.is_proven:  # at most a mail that may be older
        raise NotLookedAt
    at = later.arrived or later.date
    return Response(sort="answer", names=(message_id,), by=later.from_address, at=at)


def _read(provider: MailProvider, message: Message, own: str) -> Iterator[Response]:
    if message.is_sent or message.from_address.lower() == own.lower():
        return
    if message.is_report:
        try:
            message_as_whole = provider.read_message(message.id, body=True)
        except (NotFound, Refused):
            return  # removed in the meantime
        yield from _read_report(message_as_whole, message)
    elif message.references:
        yield Response(
            sort="automatic" if message.is_automatic else "answer",
            names=message.references,
            by=message.from_address,
            at=message.arrived or message.date,
        )


def _read_report(message: Message, outline: Message) -> Iterator[Response]:
    """Yield the failures that a delivery report names.

    It names the mail by its Message-ID in the returned headers, else in its own In-Reply-To.
    """
    if message.kind != "bounce":
        return
    of = message.facts.get("of")
    names = (str(of),) if of else outline.references[-1:]
    rows = message.facts.get("recipients", ())
    failures = tuple(
        Failure(
            address=row.get("address", ""),
            status=row.get("status", ""),
            reason=row.get("reason", ""),
        )
        for row in rows
        if row.get("action", "") in FAILED
    )
    if names and (failures or not rows):
        yield Response(
            sort="returned",
            names=names,
            by=outline.from_address,
            at=outline.arrived or outline.date,
            failures=failures or (Failure(address=""),),
        )
