"""Retention of audit events: old ones go to the archive, and only then out of the database.

The order of the steps makes a crash harmless. Each step is durable before the next one begins:

1. A file of the archive is written and synced, or one that a crash left is compared with the rows.
2. The file is read again, and each link verified.
3. A line in the file of anchors says that these events are archived.
4. In slices: the chain's row names the new beginning, and the rows before it are deleted.

An event that something still needs stays, and so do all later ones of its chain.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Literal, TypeVar
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F, Min, Q
from django.utils import timezone

from approvals.audit import anchors, archive, beginnings, proof
from approvals.audit.anchors import Head
from approvals.audit.archive import Part
from approvals.audit.beginnings import Beginning
from approvals.audit.chain import Link
from approvals.audit.orders import VERDICTS
from approvals.audit.walk import check_link
from approvals.core.states import FINAL
from approvals.models import (
    AuditChain,
    AuditEvent,
    Decision,
    NotificationCursor,
    PendingAction,
    Webhook,
    WebhookCursor,
    WebhookDelivery,
)
from approvals.models.audit import PEOPLE

T = TypeVar("T")
PART = 10_000  # events of a file, so that one takes a second or two
SLICE = 500  # rows of one transaction, which holds the row of the chain
ASKED = 1000  # rows of one question

Stopped = Literal[
    "busy", "moved", "anchors", "action", "webhook", "notification", "decision",
    "broken", "differs", "damaged",
]  # fmt: skip
# After these something is wrong, and an operator must look.
PROBLEMS = frozenset({"anchors", "broken", "differs", "damaged"})


@dataclass(frozen=True, kw_only=True)
class Step:
    """The number of events of a chain that went to a file, and why not more."""

    chain: UUID
    archived: int = 0
    file: str = ""
    stopped: Stopped | None = None
    at: int = 0  # the number of the event at which it stopped


class _Stop(Exception):
    def __init__(self, why: Stopped, at: int, file: str = "") -> None:
        super().__init__(why)
        self.why: Stopped = why
        self.at = at
        self.file = file


def archive_old() -> Iterator[Step]:
    """Archive all events that are due, one file for each step.

    Yields nothing if MAILHUB_AUDIT_RETENTION_DAYS is 0.
    """
    if not settings.MAILHUB_AUDIT_RETENTION_DAYS:
        return
    before = _end_of_retention(timezone.now())
    wrong = {finding.chain for finding in proof.compare_with_anchors()}
    due = AuditEvent.objects.filter(sequence=F("chain__archived") + 1, at__lt=before)
    for chain in list(due.order_by("chain").values_list("chain", flat=True)):
        if chain in wrong:
            yield Step(chain=chain, stopped="anchors")
            continue
        goes_on = True
        while goes_on:
            step = _archive_part(chain, before)
            yield step
            goes_on = step.archived > 0 and step.stopped is None


def _end_of_retention(now: datetime) -> datetime:
    """Return the beginning of the first month that stays: whole months are archived."""
    oldest = now - timedelta(days=settings.MAILHUB_AUDIT_RETENTION_DAYS)
    return oldest.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def _archive_part(chain: UUID, before: datetime) -> Step:
    with archive.locked() as is_mine:
        if not is_mine:
            return Step(chain=chain, stopped="busy")
        try:
            return _archive_next(AuditChain.objects.get(pk=chain), before)
        except _Stop as stop:
            return Step(chain=chain, stopped=stop.why, at=stop.at, file=stop.file)


def _archive_next(row: AuditChain, before: datetime) -> Step:
    beginning = Beginning(
        chain=row.pk, length=row.archived, hash=row.archived_hash, seal=row.archived_seal
    )
    links, stop = _find_removable(row, before)
    if not links:
        if stop is not None:
            raise stop
        return Step(chain=row.pk)
    _verify(links, beginning)
    part, links = _find_or_write(links)
    # Only the bytes on the disk count, not those that were written.
    stored = [link for link in _read(part, row.pk) if link.sequence >= links[0].sequence]
    if stored[: len(links)] != links:
        raise _Stop("differs", links[0].sequence, part.name)
    last = links[-1]
    anchors.append(Head(chain=row.pk, length=last.sequence, hash=last.hash, archived=True))
    anchors.sync()
    for some in _slices(links, SLICE):
        moved = _remove(beginning, some)
        if moved is None:
            raise _Stop("moved", some[0].sequence)
        beginning = moved
    why = stop.why if stop is not None and last.sequence == stop.at - 1 else None
    at = stop.at if stop is not None else 0
    return Step(chain=row.pk, archived=len(links), file=part.name, stopped=why, at=at)


def _find_removable(row: AuditChain, before: datetime) -> tuple[list[Link], _Stop | None]:
    """Return the next events of one month that nothing needs, and what needs the next one."""
    known = anchors.READER.newest().get(row.pk)
    anchored = known.length if known else 0
    until = min(row.length - 1, anchored)
    rows = AuditEvent.objects.filter(
        chain=row.pk, sequence__gt=row.archived, sequence__lte=until
    ).order_by("sequence")
    found = list(rows.values_list("pk", *Link._fields)[:PART])
    if not found:
        return [], None
    first = Link._make(found[0][1:])
    month = (first.at.year, first.at.month)
    found = list(
        takewhile(
            lambda each: each[3] < before and (each[3].year, each[3].month) == month,
            found,
        )
    )
    links = [Link._make(each[1:]) for each in found]
    stop = min(_find_needed(row.pk, [each[0] for each in found], links), default=None, key=_place)
    if stop is not None:
        links = [link for link in links if link.sequence < stop.at]
    return links, stop


def _place(stop: _Stop) -> int:
    return stop.at


def _find_needed(chain: UUID, keys: Sequence[int], links: Sequence[Link]) -> Iterator[_Stop]:
    """Yield the events that something still needs: for each reason at least the first."""
    numbers = dict(zip(keys, (link.sequence for link in links), strict=True))
    owed = WebhookCursor.objects.filter(
        webhook__in=Webhook.find_active(), mailbox=None if chain == PEOPLE else chain
    )
    seen = owed.aggregate(least=Min("sequence"))["least"]
    if seen is not None:
        yield from [_Stop("webhook", number) for number in numbers.values() if number > seen][:1]
    read = NotificationCursor.objects.values_list("event", flat=True).first() or 0
    yield from [_Stop("notification", numbers[key]) for key in keys if key > read][:1]
    for some in _slices(keys, ASKED):
        linked = WebhookDelivery.objects.filter(link__in=some).values_list("link", flat=True)
        yield from (_Stop("webhook", numbers[key]) for key in linked if key is not None)
    actions = list(dict.fromkeys(link.action_id for link in links if link.action_id))
    for asked in _slices(actions, ASKED):
        open_ = set(
            PendingAction.objects.filter(~Q(status__in=FINAL) | Q(settle_at__isnull=False))
            .filter(pk__in=asked)
            .values_list("pk", flat=True)
        )
        # An older version signed no decision, so their events prove them.
        unsigned = set(
            Decision.objects.filter(action__in=asked, seal="").values_list("action", flat=True)
        )
        for link in links:
            if link.action_id in open_:
                yield _Stop("action", link.sequence)
            elif link.action_id in unsigned and link.event in VERDICTS:
                yield _Stop("decision", link.sequence)


def _verify(links: Sequence[Link], beginning: Beginning) -> None:
    """Raise _Stop at the first link that does not follow the one before it."""
    sequence, previous = beginning.length, beginning.hash
    for link in links:
        if any(check_link(link, sequence, previous)):
            raise _Stop("broken", link.sequence)
        sequence, previous = link.sequence, link.hash


def _find_or_write(links: list[Link]) -> tuple[Part, list[Link]]:
    """Return a file of the archive and the links that are in it.

    A file that exists already is not written again: a crash left it, or the database is older.
    """
    first = links[0].sequence
    for part in archive.parts_of(links[0].chain_id):
        if part.first <= first <= part.last:
            return part, [link for link in links if link.sequence <= part.last]
        if part.first > first:  # a file that belongs after them
            links = [link for link in links if link.sequence < part.first]
            break
    return archive.write(links), links


def _read(part: Part, chain: UUID) -> list[Link]:
    try:
        return list(part.read(chain))
    except archive.Unreadable:
        raise _Stop("damaged", part.first, part.name) from None


def _slices(rows: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (rows[at : at + size] for at in range(0, len(rows), size))


def _remove(beginning: Beginning, links: Sequence[Link]) -> Beginning | None:
    """Remove these events; return the new beginning, or None if another process has moved it."""
    with transaction.atomic():
        # The chain before the attempts, as where an outcome is recorded.
        moved = beginnings.move(beginning, links)
        if moved is None:
            return None
        beginnings.sign_claims(links)
        last = links[-1].sequence
        AuditEvent.objects.filter(chain=beginning.chain, sequence__lte=last).only("pk").delete()
    return moved
