"""How people decided on earlier proposals of the same agent in the same mailbox."""

from dataclasses import dataclass
from datetime import timedelta

from django.db.models import Count, Exists, OuterRef, Q
from django.utils import timezone

from approvals.core.states import Status
from approvals.models import PendingAction, Revision

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


def find_track_record(action: PendingAction) -> TrackRecord | None:
    """Return the record of the agent that proposed this; None if a person did.

    It is one statement over the newest `NEWEST` proposals, from one index.
    """
    if not action.proposer_name:
        return None
    of_agent = PendingAction.objects.filter(
        mailbox=action.mailbox_id,
        proposer=action.proposer_id,
        proposer_name=action.proposer_name,
    )
    newest = of_agent.exclude(pk=action.pk).order_by("-created_at").values("pk")[:NEWEST]
    present = Revision.objects.filter(action=OuterRef("pk"), number=OuterRef("revision"))
    counted = {
        "approved": Q(status__in=APPROVED),
        "edited": Q(revision__gt=1) & Q(Exists(present.exclude(changed=[]))),
        "rejected": Q(status=Status.REJECTED),
    }
    recent = Q(created_at__gt=timezone.now() - RECENT)
    found = PendingAction.objects.filter(pk__in=newest).aggregate(
        total=Count("pk"),
        **{name: Count("pk", filter=which) for name, which in counted.items()},
        **{
            f"recently_{name}": Count("pk", filter=which & recent)
            for name, which in counted.items()
        },
    )
    return TrackRecord(is_cut=found.pop("total") == NEWEST, **found)
