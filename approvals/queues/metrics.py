"""Figures about the queue for monitoring, read from the database on demand."""

from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Count, F, Min
from django.utils import timezone

from approvals.core.states import OPEN, Status
from approvals.models import Attempt, DeadLetter, PendingAction
from approvals.worker import heartbeats

COUNTED = 10_000  # 10,000 waiting actions and 11,000 call for the same reaction
SINCE = {
    Status.PENDING: "created_at",
    Status.APPROVED: "approved_at",
    Status.EXECUTING: "attempts__started_at",
    Status.UNKNOWN: "attempts__ended_at",
}


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Figures of the queue; no figure names a person.

    They are the number of actions in each open state (up to COUNTED), the age of the oldest, and
    the verdicts of attempts.
    """

    counts: dict[str, int]
    oldest_seconds: dict[str, float]
    attempts: dict[str, int]
    workers: int
    dead_letters: int
    heartbeat_seconds: float | None = field(default=None)


def figures() -> Figures:
    now = timezone.now()
    in_state = {status: PendingAction.objects.filter(status=status).order_by() for status in OPEN}
    oldest = {status: _oldest(status) for status in OPEN}
    ended = (
        Attempt.objects.exclude(verdict=None)
        .order_by()
        .values("verdict")
        .annotate(number=Count("pk"))
    )
    verdicts = dict.fromkeys(Attempt.Verdict.values, 0) | {
        str(row["verdict"]): row["number"] for row in ended
    }
    return Figures(
        counts={status.value: actions[:COUNTED].count() for status, actions in in_state.items()},
        oldest_seconds={
            status.value: max((now - since).total_seconds(), 0.0) if since else 0.0
            for status, since in oldest.items()
        },
        attempts=verdicts,
        workers=len(heartbeats.alive()),
        dead_letters=DeadLetter.objects.count(),
        heartbeat_seconds=heartbeats.seconds_since_last(),
    )


def _oldest(status: Status) -> datetime | None:
    """Return since when the oldest action is in this state."""
    actions = PendingAction.objects.filter(status=status)
    if SINCE[status].startswith("attempts__"):
        actions = actions.filter(attempts__fence=F("fence"))
    since: datetime | None = actions.aggregate(since=Min(SINCE[status]))["since"]
    return since
