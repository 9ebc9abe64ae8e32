"""How people decided on earlier proposals of the same agent in the same mailbox."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django.utils import timezone

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


def track_record_of(action: PendingAction) -> TrackRecord:
    """Return the record of the agent that proposed this action, without the action itself."""
    newest = _others(action).order_by("-created_at").values("pk")[:NEWEST]  # from one index
    present = Revision.objects.filter(action=OuterRef("pk"), number=OuterRef("revision"))
    decided = {
        "approved": Q(status__in=APPROVED),
        "edited": Q(revision__gt=1) & Q(Exists(present.exclude(changed=[]))),
        "rejected": Q(status=Status.REJECTED),
    }
    recent = Q(created_at__gt=timezone.now() - RECENT)
    counts = {name: Count("pk", filter=which) for name, which in decided.items()} | {
        f"recently_{name}": Count("pk", filter=which & recent) for name, which in decided.items()
    }
    found = PendingAction.objects.filter(pk__in=newest).aggregate(total=Count("pk"), **counts)
    return TrackRecord(is_cut=found.pop("total") == NEWEST, **found)


def _others(action: PendingAction) -> QuerySet[PendingAction]:
    """Return what the same agent has proposed in the same mailbox besides."""
    return PendingAction.objects.filter(
        mailbox=action.mailbox_id,
        proposer=action.proposer_id,
        proposer_name=action.proposer_name,
    ).exclude(pk=action.pk)


def find_others_to(action: PendingAction, address: str, *, since: datetime) -> list[PendingAction]:
    """Return what the same agent has proposed to this address since then, the newest first."""
    others = _others(action).filter(created_at__gte=since)
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
