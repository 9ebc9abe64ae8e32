"""The conversation of a message: its Message-IDs are searched for until nothing new is found. Pure."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice

from tools.providers.base import Message, Thread
from tools.providers.errors import Refused

MOST_IDS = 100  # that are searched for
MOST_MESSAGES = 200  # that one search may find
MOST_SEARCHES = 8
MOST_PEOPLE = 20  # whose mail is looked through
OLDEST = datetime.min.replace(tzinfo=UTC)

# It gets the ids that it was not asked for yet, and everything that was found.
Search = Callable[[Sequence[str], Collection[Message]], Thread]


def follow(start: Thread, ids: Iterable[str], *searches: Search, limit: int) -> Thread:
    """Return the newest messages of a conversation, of which a part is known.

    A later search begins when the earlier ones find nothing new; if it finds an id, they go on.
    """
    found: dict[object, Message] = {}
    known = dict.fromkeys(ids)
    asked = [0] * len(searches)
    is_whole = start.is_whole

    def take(messages: Iterable[Message]) -> None:
        for message in messages:
            key = _identity(message)
            twin = found.setdefault(key, message)
            found[key] = replace(twin, is_sent=twin.is_sent or message.is_sent)
            known.update(dict.fromkeys(ids_of(message)))

    take(start.messages)
    for _ in range(MOST_SEARCHES):
        wanted = min(len(known), MOST_IDS)
        place = next((place for place, count in enumerate(asked) if count < wanted), None)
        if place is None:
            break
        new = tuple(islice(known, asked[place], wanted))
        asked[place] = wanted
        try:
            more = searches[place](new, tuple(found.values()))
        except Refused:
            is_whole = False
            continue
        take(more.messages)
        is_whole = is_whole and more.is_whole
    # If two messages have the same second, the one with more references is newer.
    messages = sorted(found.values(), key=lambda each: (each.date or OLDEST, len(each.references)))
    is_whole = is_whole and min(asked) == len(known) and len(messages) <= limit
    return Thread(messages=tuple(messages[-limit:]), is_whole=is_whole)


def ids_of(message: Message) -> tuple[str, ...]:
    """Return the ids of a message and of those that it names, the nearest first."""
    return tuple(filter(None, (message.message_id, *reversed(message.references))))


def missing(ids: Iterable[str], found: Collection[Message]) -> list[str]:
    """Return the ids of which no message was found."""
    return [each for each in ids if each not in {message.message_id for message in found}]


def naming(
    candidates: Iterable[Message], ids: Iterable[str], found: Collection[Message]
) -> tuple[Message, ...]:
    """Return the candidates that name one of the ids, or a message that was found."""
    wanted = {*ids, *(message.message_id for message in found)} - {""}
    return tuple(each for each in candidates if wanted.intersection(ids_of(each)))


def people_of(found: Collection[Message]) -> list[str]:
    """Return the addresses in a conversation, without those that Sent shows as the mailbox's own."""
    own = {message.from_address.lower() for message in found if message.is_sent}
    everybody = (
        address.lower()
        for message in found
        for address in (message.from_address, *message.reply_to, *message.to, *message.cc)
    )
    return [each for each in dict.fromkeys(everybody) if "@" in each and each not in own]


def _identity(message: Message) -> object:
    """Return a value that copies of a message in several folders share."""
    if not message.message_id:
        return message.id
    return message.message_id, message.from_address, message.date
