"""New audit events of all chains, for the process that follows them, and the notification of them.

On PostgreSQL a trigger notifies at the end of a transaction that records events (migration
`event_notifications`), without content. The trigger notifies only if it gets a lock at once: a
NOTIFY makes commits wait for each other, so one of several transactions that end together is
enough. Its reader therefore looks twice, and from time to time without a notification.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from django.db import connection
from django.db.models import QuerySet

from approvals.models import AuditEvent

if TYPE_CHECKING:
    from approvals.core import notifications

CHANNEL = "mailhub_events"
BATCH = 1000
# A transaction takes the ids of its events before it commits, so a lower id may appear later.
LATE_SECONDS = 30.0
MOST_MISSING = 1000
BEFORE = 100  # ids before the first look that may still be missing

LOOK_SECONDS = 1.5  # without notifications
SAFETY_SECONDS = 2.5  # with notifications
SECOND_LOOK_SECONDS = 0.05  # for the transactions that ended together with the one that notified

Row = tuple[int, UUID | None, UUID | None]  # the ids of the event, its mailbox and its action


def last_event() -> int:
    """Return the id of the newest audit event; 0 before the first."""
    return AuditEvent.objects.order_by("-pk").values_list("pk", flat=True).first() or 0


def last_event_of(action_id: UUID) -> int:
    """Return the id of the newest audit event of an action; 0 before the first.

    The events of one action are committed in the order of their ids.
    """
    mine = AuditEvent.objects.filter(action_id=action_id).order_by("-pk")
    return mine.values_list("pk", flat=True).first() or 0


def rows_after(event: int) -> QuerySet[AuditEvent, Row]:
    """Return the events with a higher id, in the order of their ids."""
    later = AuditEvent.objects.filter(pk__gt=event).order_by("pk")
    return later.values_list("pk", "mailbox_id", "action_id")


class Feed:
    """The events with an id above `after`; each is returned once, when its transaction has ended."""

    def __init__(self, after: int) -> None:
        self.newest = after
        self._missing: dict[int, float] = {}  # and until when their transactions may end
        before = max(after - BEFORE, 0)
        here = rows_after(before).filter(pk__lt=after)
        self._expect(range(before + 1, after), known=[pk for pk, _, _ in here])

    def read(self) -> Iterator[Sequence[Row]]:
        """Yield what is new, in batches. The cost is proportional to it."""
        if late := self._read_late():
            yield late
        full = True
        while full:
            rows = list(rows_after(self.newest)[:BATCH])
            full = len(rows) == BATCH
            if rows:
                ids = [pk for pk, _, _ in rows]
                self._expect(range(self.newest + 1, ids[-1]), known=ids)
                self.newest = ids[-1]
                yield rows
            else:  # lower only in an older copy of the database
                self.newest = min(self.newest, last_event())

    def _read_late(self) -> list[Row]:
        now = time.monotonic()
        waited_for = [pk for pk, until in self._missing.items() if until > now][-MOST_MISSING:]
        rows = list(rows_after(0).filter(pk__in=waited_for)) if waited_for else []
        found = {pk for pk, _, _ in rows}
        self._missing = {pk: self._missing[pk] for pk in waited_for if pk not in found}
        return rows

    def _expect(self, ids: range, *, known: Iterable[int]) -> None:
        """Remember the missing ids: those of running transactions, and of cancelled ones."""
        until = time.monotonic() + LATE_SECONDS
        newest = ids[-MOST_MISSING:]
        self._missing |= dict.fromkeys(sorted(set(newest).difference(known)), until)


class Pace:
    """The time between two looks at the feed; a notification ends it early."""

    def __init__(self) -> None:
        self._channel = _listen()
        if self._channel:
            self._channel.reconnect()

    def wait(self, *, news: bool) -> bool:
        """Wait until the next look, and return True if a notification came.

        `news` says that the last look found events, or came after a notification.
        """
        if self._channel is None or self._channel.fileno() is None:
            time.sleep(LOOK_SECONDS)
            return self._channel is not None and self._channel.reconnect()
        if news:
            time.sleep(SECOND_LOOK_SECONDS)
            return bool(self._channel.payloads())
        return bool(self._channel.payloads(wait=SAFETY_SECONDS))

    def close(self) -> None:
        if self._channel:
            self._channel.close()


def _listen() -> "notifications.NotifyChannel | None":
    if connection.vendor != "postgresql":
        return None
    # Imported only if needed: SQLite does not use the library behind it.
    from approvals.core import notifications

    return notifications.NotifyChannel(CHANNEL)
