"""How people decided on earlier proposals of the same agent in the same mailbox."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from accounts.infra.compiled_sql import Select, slot
from approvals.core.states import Status
from approvals.models import PendingAction, Revision
from approvals.pages import listing

OTHERS = 200  # of an agent that are looked through for one address
RECENT = timedelta(days=30)
NEWEST = 1000  # more would say nothing more about the agent, and cost the page time
APPROVED = (
    Status.APPROVED,
    Status.EXECUTING,
    Status.SUCCEEDED,
    Status.FAILED,
    Status.UNKNOWN,
)
NAMES = (
    "approved", "edited", "rejected", "recently_approved", "recently_edited", "recently_rejected",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class TrackRecord:
    """The decisions on the newest proposals of an agent, and those of the last 30 days.

    `edited` counts those that a person changed, whatever became of them. `is_cut` is True if the
    agent has more proposals than were counted.
    """

    approved: int
    edited: int
    rejected: int
    recently_approved: int
    recently_edited: int
    recently_rejected: int
    is_cut: bool

    @property
    def is_empty(self) -> bool:
        return not (self.approved or self.edited or self.rejected)


def values_of_record(action: PendingAction) -> dict[str, Any]:
    """Return the values for `record_rows`, for the agent that proposed this action."""
    return {
        "action": action.pk,
        "mailbox": action.mailbox_id,
        "proposer": action.proposer_id,
        "proposer_name": action.proposer_name,
        "recent": timezone.now() - RECENT,
    }


def record_from(found: Sequence[tuple[int, ...]]) -> TrackRecord:
    """Return the record in the rows of `record_rows`: one row, or none without other proposals."""
    total, *counted = found[0] if found else (0,) * (1 + len(NAMES))
    return TrackRecord(is_cut=total == NEWEST, **dict(zip(NAMES, counted, strict=True)))


def find_others_to(action: PendingAction, address: str, *, since: datetime) -> list[PendingAction]:
    """Return what the same agent has proposed to this address since then, the newest first."""
    others = PendingAction.objects.filter(
        mailbox=action.mailbox_id,
        proposer=action.proposer_id,
        proposer_name=action.proposer_name,
        created_at__gte=since,
    ).exclude(pk=action.pk)
    ids = list(others.order_by("-created_at").values_list("pk", flat=True)[:OTHERS])
    found = listing.find_by_ids([action.mailbox], ids, what=listing.Wanted(to=(address,)))
    return [
        row
        for row in reversed(found)
        if any(
            target.get("address", "").lower() == address.lower()
            for target in row.shown.get("targets", ())  # type: ignore[attr-defined]
        )
    ]


def _count() -> QuerySet[PendingAction, Any]:
    """Count over the newest `NEWEST` proposals of an agent, from one index."""
    of_agent = PendingAction.objects.filter(
        mailbox=slot(PendingAction, "mailbox"),
        proposer=slot(PendingAction, "proposer"),
        proposer_name=slot(PendingAction, "proposer_name"),
    )
    others = of_agent.exclude(pk=slot(PendingAction, "id", "action"))
    newest = others.order_by("-created_at").values("pk")[:NEWEST]
    present = Revision.objects.filter(action=OuterRef("pk"), number=OuterRef("revision"))
    decided = (
        Q(status__in=APPROVED),
        Q(revision__gt=1) & Q(Exists(present.exclude(changed=[]))),
        Q(status=Status.REJECTED),
    )
    recent = Q(created_at__gt=slot(PendingAction, "created_at", "recent"))
    conditions = (*decided, *(each & recent for each in decided))
    counts = {
        name: Count("pk", filter=which) for name, which in zip(NAMES, conditions, strict=True)
    }
    # All of them are in one mailbox, so this is one group.
    grouped = PendingAction.objects.filter(pk__in=newest).order_by().values("mailbox")
    return grouped.annotate(total=Count("pk"), **counts).values_list("total", *NAMES)


record_rows = Select(_count)
