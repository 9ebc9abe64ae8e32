"""The steps of an action: the events of its audit chain that a program learns, and their order."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import structlog

from approvals.core.states import FINAL, Status
from approvals.models import AuditEvent, Watch

log = structlog.get_logger(__name__)

# The name of a step, and the state of the action after it.
EVENTS = {
    "action.proposed": Status.PENDING,
    "action.edited": Status.PENDING,
    "action.changes_requested": Status.PENDING,
    "action.approved": Status.APPROVED,
    "action.undone": Status.PENDING,
    "action.returned": Status.PENDING,
    "action.leaving": Status.EXECUTING,
    "action.retrying": Status.APPROVED,
    "action.succeeded": Status.SUCCEEDED,
    "action.failed": Status.FAILED,
    "action.unknown": Status.UNKNOWN,
    "action.rejected": Status.REJECTED,
    "action.cancelled": Status.CANCELLED,
    "action.expired": Status.EXPIRED,
    "action.superseded": Status.SUPERSEDED,
    "action.unsettled": Status.SUCCEEDED,
    "action.bounced": Status.SUCCEEDED,
    "action.unanswered": Status.SUCCEEDED,
}
_OF_LINKS = {
    "created": "action.proposed",
    "edited": "action.edited",
    "changes_requested": "action.changes_requested",
    "approved": "action.approved",
    "undone": "action.undone",
    "returned": "action.returned",
    "claimed": "action.leaving",
    "outcome_not_sent": "action.retrying",
    "outcome_accepted": "action.succeeded",
    "outcome_refused": "action.failed",
    "outcome_unknown": "action.unknown",
    "rejected": "action.rejected",
    "cancelled": "action.cancelled",
    "expired": "action.expired",
    "superseded": "action.superseded",
    "settling_given_up": "action.unsettled",
    "bounced": "action.bounced",
    "unanswered": "action.unanswered",
}
ORDERED_AGAIN = "ordered_again"  # the code of a return that a person's ruling caused


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of an action, and the event of the audit that it comes from."""

    name: str
    link: AuditEvent

    @property
    def state(self) -> Status:
        return EVENTS[self.name]

    @property
    def code(self) -> str:
        """Return why the action came back; empty for any other step."""
        if self.name != "action.returned":
            return ""
        return str(self.link.data.get("code") or ORDERED_AGAIN)

    @property
    def withdrawn_code(self) -> str:
        """Return why mailhub itself withdrew the action; empty for any other step."""
        code = self.link.data.get("code", "") if self.name == "action.cancelled" else ""
        return str(code)


def event_of(link: AuditEvent) -> str | None:
    """Return the name of the step of a link; None if it is no step, or cannot be read."""
    try:
        if link.event == "approved" and link.data["given"] < link.data["needed"]:
            return None  # one approval of several is not enough
        if link.event == "outcome_not_sent" and link.data.get("evidence") == "person":
            return "action.returned"
    except (
        AttributeError,
        KeyError,
        TypeError,
    ):  # altered, or written by an older version: later links are still read
        log.warning("audit_link_unreadable", action=str(link.action_id), count=link.sequence)
        return None
    return _OF_LINKS.get(link.event)


def steps_of(action_id: UUID, *, until: int | None = None) -> list[Step]:
    """Return the steps of an action in their order, up to this place in the chain.

    The number of a step, from 1, is its `sequence` for programs.
    """
    links = AuditEvent.objects.filter(action_id=action_id, event__in=_OF_LINKS)
    if until is not None:
        links = links.filter(sequence__lte=until)
    return as_steps(list(links.order_by("sequence")))


def as_steps(links: Sequence[AuditEvent]) -> list[Step]:
    """Return the steps among these links."""
    return [Step(name=name, link=link) for link in links if (name := event_of(link)) is not None]


def has_news(action_id: UUID) -> bool:
    """Return True if a program has nothing to wait for: it ended, or a person asks for changes.

    A mail that was sent with a follow-up has ended when it was answered, or nobody did in time.
    """
    steps = steps_of(action_id)
    last = steps[-1] if steps else None
    if last is None or last.name == "action.changes_requested":
        return True
    open_ = Watch.objects.filter(action=action_id, follow_up_at__isnull=False)
    return last.state in FINAL and not open_.exists()
