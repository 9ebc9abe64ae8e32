"""The newest messages of a folder by their date: imported mail has high UIDs and old dates."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from tools.mail.message import lenient
from tools.providers.errors import Refused
from tools.providers.imap.mailbox import ImapMailbox, body_of
from tools.providers.imap.message_ids import MAX_UID
from tools.providers.imap.search import Criterion
from tools.providers.imap.sessions import Session

# The seconds of the date, and the UID: the order of a list, and its page token.
Place = tuple[int, int]
PAGE_TOKEN = re.compile(r"([0-9]{1,12})\.([0-9]{1,10})")
MOST_DATES = 10_000  # that are read for one page
RECENT = timedelta(days=30)
A_DAY = timedelta(days=1)  # the server's time zone is unknown


def find_newest(
    mailbox: ImapMailbox,
    session: Session,
    wanted: Sequence[Criterion],
    *,
    count: int,
    after: Place | None,
) -> list[Place]:
    """Return the newest matches in the selected folder, the newest first, after a page's last one.

    The highest UIDs give a bound: no message that arrived before their oldest date is newer. So only
    messages that arrived since then are compared. Twice as many are read for it, because a single new
    mail with an old date would make that bound weeks old.
    """
    twice = 2 * count
    uids = mailbox.find_newest(session, wanted, count=twice, below=after[1] if after else None)
    places = _read_places(session, uids)
    found = _order(places, after, count)
    if after is None and len(uids) < twice:
        return found
    since = _day(found[-1]) if len(found) == count else None
    period: list[Criterion] = ["SINCE", since] if since else []
    others: Sequence[int] = mailbox.find_all(session, [*period, *wanted])
    if len(others) > MOST_DATES:
        others = _narrow(mailbox, session, wanted, others, count if after is None else None)
    others = list(set(others) - set(uids))
    if since and others:  # a message is never newer than its arrival
        rows = session.client.fetch(others, ["INTERNALDATE"])
        oldest = datetime.fromtimestamp(found[-1][0], UTC)
        others = [uid for uid, row in rows.items() if row[b"INTERNALDATE"] >= oldest]
    places += _read_places(session, others)
    return _order(places, after, count)


def _narrow(
    mailbox: ImapMailbox,
    session: Session,
    wanted: Sequence[Criterion],
    others: Sequence[int],
    count: int | None,
) -> Sequence[int]:
    """Return fewer UIDs, if old mail was just imported in masses: those of recent mail if `count` of
    them are there, or the highest.
    """
    recent = (datetime.now(UTC) - RECENT).date()
    narrowed = mailbox.find_all(session, ["SINCE", recent, "NOT", "SENTBEFORE", recent, *wanted])
    if count is not None and count <= len(narrowed) <= MOST_DATES:
        return narrowed
    return sorted(others)[-MOST_DATES:]


def read_token(page_token: str | None) -> Place | None:
    """Return the last place of the page before. Raises Refused for a token of another list."""
    if not page_token:
        return None
    found = PAGE_TOKEN.fullmatch(page_token)
    if found is None or int(found[2]) > MAX_UID:
        raise Refused("invalid_page_token", "This page token is not from this list.")
    return int(found[1]), int(found[2])


def write_token(place: Place) -> str:
    return f"{place[0]}.{place[1]}"


def _order(places: Iterable[Place], after: Place | None, count: int) -> list[Place]:
    left = (place for place in places if after is None or place < after)
    return sorted(left, reverse=True)[:count]


def _day(place: Place) -> Criterion:
    return (datetime.fromtimestamp(place[0], UTC) - A_DAY).date()


def _read_places(session: Session, uids: Iterable[int]) -> list[Place]:
    """Return the places of messages: by the Date that their sender wrote, unless it is later than
    their arrival.
    """
    asked = list(uids)
    if not asked:
        return []
    rows = session.client.fetch(asked, ["INTERNALDATE", "BODY.PEEK[HEADER.FIELDS (DATE)]"])
    found = []
    for uid, row in rows.items():
        arrived: datetime = row[b"INTERNALDATE"]
        written = lenient.date_of(lenient.headers(body_of(row)), arrived) or arrived
        found.append((max(int(min(written, arrived).timestamp()), 0), uid))
    return found
