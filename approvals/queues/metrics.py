"""Figures about the queue for monitoring, read from the database on demand."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.core.cache import cache
from django.db.models import Count, F, Min
from django.utils import timezone

from accounts.models import Mailbox
from approvals.core.states import OPEN, Status
from approvals.models import Attempt, DeadLetter, Pause, PendingAction
from approvals.worker import heartbeats

COUNTED = 10_000  # 10,000 waiting actions and 11,000 call for the same reaction
COUNTED_ATTEMPTS = "mailhub-counted-attempts"
KEPT_EVERY = 1000  # attempts
LATE = timedelta(minutes=10)  # longer than the transaction that writes an attempt
SINCE = {
    Status.PENDING: "created_at",
    Status.APPROVED: "approved_at",
    Status.EXECUTING: "attempts__started_at",
    Status.UNKNOWN: "attempts__ended_at",
}


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Figures of the queue; no figure names a person.

    They are the number of actions in each open state (up to COUNTED), the age of the oldest, the
    verdicts of attempts, and the numbers of pauses and mailboxes.
    """

    counts: dict[str, int]
    oldest_seconds: dict[str, float]
    attempts: dict[str, int]
    dead_letters: int
    pauses: dict[str, int]
    mailboxes: dict[str, int]
    heartbeat_seconds: float | None = field(default=None)


def figures() -> Figures:
    now = timezone.now()
    in_state = {status: PendingAction.objects.filter(status=status).order_by() for status in OPEN}
    oldest = {status: _oldest(status) for status in OPEN}
    return Figures(
        counts={status.value: actions[:COUNTED].count() for status, actions in in_state.items()},
        oldest_seconds={
            status.value: max((now - since).total_seconds(), 0.0) if since else 0.0
            for status, since in oldest.items()
        },
        attempts=_count_verdicts(),
        dead_letters=DeadLetter.objects.count(),
        pauses={
            "everything": Pause.objects.filter(mailbox=None).count(),
            "mailbox": Pause.objects.exclude(mailbox=None).count(),
        },
        mailboxes=dict.fromkeys(Mailbox.Status.values, 0)
        | dict(Mailbox.objects.order_by().values_list("status").annotate(number=Count("pk"))),
        heartbeat_seconds=heartbeats.seconds_since_last(),
    )


def _count_verdicts() -> dict[str, int]:
    """Return how many attempts have ended with each verdict, as it was known when they were counted.

    An earlier scrape has counted the older ones; the cache keeps that. Only the later ones are read.
    """
    upto = _find_last_ended()
    kept = cache.get(COUNTED_ATTEMPTS) or {}
    if not 0 <= kept.get("upto", -1) <= upto:  # the first scrape, or another database
        kept = {"upto": 0, "counts": {}}
    older = Counter(kept["counts"])
    if upto - kept["upto"] >= KEPT_EVERY:
        older += _count(pk__gt=kept["upto"], pk__lte=upto)
        kept = {"upto": upto, "counts": older}
        cache.set(COUNTED_ATTEMPTS, kept, None)
    return dict.fromkeys(Attempt.Verdict.values, 0) | older + _count(pk__gt=kept["upto"])


def _find_last_ended() -> int:
    """Return a key up to which every attempt has ended, and none can be committed any more."""
    attempts = Attempt.objects.order_by("-pk").values_list("pk", flat=True)
    older = attempts.filter(started_at__lt=timezone.now() - LATE).first() or 0
    # A list, because the database would look for the lowest key from the first attempt on.
    still_open = Attempt.objects.filter(verdict=None).order_by().values_list("pk", flat=True)
    return min([older, *(pk - 1 for pk in still_open)])


def _count(**which: int) -> Counter[str]:
    ended = Attempt.objects.filter(**which).exclude(verdict=None).order_by()
    return Counter(dict(ended.values_list("verdict").annotate(number=Count("pk"))))


def _oldest(status: Status) -> datetime | None:
    actions = PendingAction.objects.filter(status=status)
    if SINCE[status].startswith("attempts__"):
        actions = actions.filter(attempts__fence=F("fence"))
    since: datetime | None = actions.aggregate(since=Min(SINCE[status]))["since"]
    return since
