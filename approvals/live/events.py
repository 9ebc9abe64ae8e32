"""Live updates of open pages: other viewers, changes, and the stream of notifications.

The ids of audit events are the clock: a page knows the last one it has seen and asks for later
changes. The hub (`hub.py`) only notifies.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.db.models import F
from django.utils import timezone

from accounts.infra.credentials import CannotDecrypt, decrypt_text, encrypt_text
from accounts.models import Mailbox, User
from approvals.audit.feed import BATCH, last_event, rows_after
from approvals.live.hub import HUB, Listener
from approvals.models import Presence
from approvals.models.pages import PRESENT

STREAM_SECONDS = 300.0  # then the browser reconnects, and its session is checked again
# Transactions commit in another order than they took their ids, so an event may appear after a
# later one. A stream names it; a page that polls reads so many events again.
OVERLAP = 20
FORGET = timedelta(hours=1)
MOST_CHANGES = 200
MOST_BATCHES = 20
MARK = "approvals:live_mark"


@dataclass(frozen=True, kw_only=True)
class Changes:
    """Changed actions, the last event that they cover, and True if there may be more after it.

    Those in `later` changed after the event of the page, and not only in the overlap before it.
    """

    actions: list[UUID]
    later: frozenset[UUID]
    last: int
    more: bool


def write_mark(event: int) -> str:
    """Return an event's id for a page, encrypted: the ids of all mailboxes are from one sequence, so
    a readable one would tell how much happens in the others.
    """
    return encrypt_text(f"{event:019}", bound_to=MARK)


def read_mark(mark: str) -> int:
    """Return the id of the event; 0 for a text that is no mark."""
    try:
        return int(decrypt_text(mark, bound_to=MARK))
    except (CannotDecrypt, ValueError):
        return 0


def find_changes(mailboxes: Sequence[Mailbox], event: int) -> Changes:
    """Return the changes in these mailboxes after an event: some of them, the oldest first."""
    mine = {mailbox.pk for mailbox in mailboxes}
    event = min(event, last_event())  # lower only in an older copy of the database
    found: dict[UUID, bool] = {}
    last, more = max(event - OVERLAP, 0), True
    for _ in range(MOST_BATCHES):
        rows = list(rows_after(last)[:BATCH])
        for last, mailbox, action in rows:
            if action is not None and mailbox in mine:
                found[action] = found.get(action, False) or last > event
            if len(found) == MOST_CHANGES:
                break
        more = len(found) == MOST_CHANGES or len(rows) == BATCH
        if len(rows) < BATCH or len(found) == MOST_CHANGES:
            break
    return Changes(
        actions=list(found),
        later=frozenset(action for action, later in found.items() if later),
        last=max(event, last),
        more=more,
    )


def record_presence(person: User, action_id: UUID) -> None:
    """Record that this person has the action open; repeat it while they have."""
    now = timezone.now()
    Presence.objects.update_or_create(action_id=action_id, person=person, defaults={"seen_at": now})
    Presence.objects.filter(seen_at__lt=now - FORGET).delete()


def delete_presence(person: User, action_id: UUID) -> None:
    Presence.objects.filter(action=action_id, person=person).delete()


def find_present(
    action_ids: Iterable[UUID], *, mailboxes: Sequence[Mailbox], but: User
) -> dict[UUID, list[str]]:
    """Return the names of others who have each of these open, only within these mailboxes."""
    fresh = Presence.objects.filter(
        action__in=list(action_ids), seen_at__gt=timezone.now() - PRESENT
    ).annotate(mailbox=F("action__mailbox"))
    rows = fresh.exclude(person=but).select_related("person").order_by("person__email")
    # Few people look at the same time, but a statement with all mailboxes can be long.
    mine = {each.pk for each in mailboxes}
    return _names_from(row for row in rows if row.mailbox in mine)


def _names_from(rows: Iterable[Presence]) -> dict[UUID, list[str]]:
    found: dict[UUID, list[str]] = {}
    for row in rows:
        found.setdefault(row.action_id, []).append(row.person.get_short_name() or str(row.person))
    return found


async def stream(
    person: User, mailboxes: frozenset[UUID], *, since: int, now: int
) -> AsyncGenerator[str, None]:
    """Yield server-sent events for one page.

    They are a mark before the oldest event that is new for the page. `now` is a result of
    `last_event` from before.
    """
    listener = Listener(
        person_id=person.pk,
        mailboxes=mailboxes,
        loop=asyncio.get_running_loop(),
        oldest=asyncio.Queue(maxsize=1),
    )
    HUB.add(listener, seen=now)
    try:
        yield "retry: 3000\n\n"
        # Events that were missed while the connection was lost; if none was missed, the page asks
        # once in vain.
        yield _event(now) if since and now > since else ": hello\n\n"
        async with asyncio.timeout(STREAM_SECONDS):
            while True:
                yield _event(await listener.oldest.get())
    except TimeoutError:
        pass
    finally:
        HUB.remove(listener)


def _event(event: int) -> str:
    return f"id: {write_mark(event)}\ndata: {write_mark(event - 1)}\n\n"
