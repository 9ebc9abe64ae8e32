"""Approved mails that may leave now, at most one of each mailbox, with the mailbox owner."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery, Window
from django.db.models.functions import Now, RowNumber

from accounts.infra.compiled_sql import Select, slot
from accounts.models import Membership, Role
from approvals.core.states import Status
from approvals.models import ApprovalPolicy, Attempt, PendingAction, Rest
from approvals.rules import conditions

HEADS = 1000


@dataclass(frozen=True, kw_only=True)
class Due:
    """An action that may leave now, or may be: only the claim decides.

    `owner` has managed its mailbox the longest.
    """

    action: UUID
    mailbox: UUID
    owner: int | None


def _owner() -> Subquery:
    managers = Membership.objects.filter(mailbox=OuterRef("mailbox"), role=Role.MANAGER).order_by(
        "created_at", "pk"
    )
    return Subquery(managers.values("user")[:1])


def _rows(
    actions: QuerySet[PendingAction],
) -> QuerySet[PendingAction, tuple[UUID, UUID, int | None]]:
    return actions.annotate(owner=_owner()).values_list("pk", "mailbox", "owner")


def find_unpaused() -> QuerySet[PendingAction]:
    """Return the approved actions that are due and that no pause holds back.

    Pauses come first, because only they hold back thousands of actions for days. The index
    `action_due` has all columns that this reads.
    """
    due = PendingAction.objects.filter(conditions.due(), status=Status.APPROVED)
    for rows in conditions.reasons_of_pauses():
        due = due.filter(~Exists(rows))
    return due


def find_free(unpaused: QuerySet[PendingAction]) -> QuerySet[PendingAction]:
    """Return those of these actions whose mailbox may send. Only the claim looks at the action.

    A void approval must not hide the other mail of its mailbox: the claim returns it to a person.
    """
    return PendingAction.objects.filter(~conditions.must_wait(), pk__in=unpaused.values("pk"))


# Only the longest waiting of each mailbox: more cannot leave at once, and a long queue must not
# hide the other mailboxes.
_heads = Select(
    lambda: _rows(
        find_free(
            find_unpaused()
            .annotate(
                place=Window(RowNumber(), partition_by=F("mailbox"), order_by=F("not_before").asc())
            )
            .filter(place=1)
        ).order_by("not_before")[:HEADS]
    )
)
_place = Select(
    lambda: _rows(PendingAction.objects.filter(pk=slot(PendingAction, "id", "pk")).order_by())
)


def heads() -> list[Due]:
    """Return the longest waiting action of each mailbox that may leave now, longest first."""
    return [Due(action=action, mailbox=mailbox, owner=owner) for action, mailbox, owner in _heads()]


def load_due(action_ids: Sequence[UUID]) -> list[Due]:
    """Return the mailboxes and owners of these actions; it does not check if they may leave."""
    rows = [row for action_id in action_ids for row in _place(pk=action_id)]
    return [Due(action=action, mailbox=mailbox, owner=owner) for action, mailbox, owner in rows]


def some_wait_too_long() -> bool:
    """Return True if a mailbox has mail that could leave, and none has left it for too long.

    The limit is MAILHUB_READY_WAIT_SECONDS. Mail that is held back does not count, nor mail that a
    cool-down or a send window held back within that time. Mail does not count either if its owner
    has other mail under way: a worker lets an owner's slow servers wait for each other.
    """
    since = Now() - timedelta(seconds=settings.MAILHUB_READY_WAIT_SECONDS)
    mine = OuterRef("mailbox")
    waiting = find_free(find_unpaused().filter(not_before__lt=since)).filter(
        conditions.still_holds()
    )
    too_long = waiting.exclude(
        Q(Exists(Attempt.objects.filter(action__mailbox=mine, ended_at__gt=since)))
        | Q(Exists(Rest.objects.filter(mailbox=mine, until__gt=since)))
        | Q(Exists(ApprovalPolicy.objects.filter(mailbox=mine, opens_at__gt=since)))
    )
    owners = {owner for _, _, owner in _rows(too_long)[:HEADS]}
    return bool(owners) and not owners <= {owner for _, _, owner in _rows(_executing_actions())}


def some_lack_the_journal() -> bool:
    """Return True if approved mail waits because the send journal could not be written."""
    codes = ("journal_busy", "journal_failed")
    return PendingAction.objects.filter(status=Status.APPROVED, error__code__in=codes).exists()


def _executing_actions() -> QuerySet[PendingAction]:
    return PendingAction.objects.filter(status=Status.EXECUTING)
