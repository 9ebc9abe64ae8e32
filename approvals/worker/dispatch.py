"""Approved mails that may leave now, at most one of each mailbox, with the mailbox owner."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery, Window
from django.db.models.functions import Coalesce, Greatest, Least, RowNumber

from accounts.infra.database import database_now
from accounts.models import Membership, Role
from approvals.core.states import Status
from approvals.gate.backoff import LONGEST_RETRY_SECONDS
from approvals.gate.rules import conditions
from approvals.models import ApprovalPolicy, PendingAction, Rest

HEADS = 1000  # a mailbox with much work must not hide others
A_MINUTE = timedelta(minutes=1)
A_SLOW_SEND = timedelta(seconds=5)  # as approvals.queues.slots says


@dataclass(frozen=True, kw_only=True)
class Due:
    """An action that may leave now, or may be: only the claim decides.

    `owner` has managed its mailbox the longest.
    """

    action: UUID
    mailbox: UUID
    owner: int | None


def _owner(mailbox: str = "mailbox") -> Subquery:
    managers = Membership.objects.filter(mailbox=OuterRef(mailbox), role=Role.MANAGER)
    return Subquery(managers.order_by("created_at", "pk").values("user")[:1])


def find_served(
    rows: QuerySet[Any], mailbox: str = "mailbox"
) -> list[tuple[tuple[int | None, UUID], UUID]]:
    """Return the first of these rows for `Background`: the owner and the mailbox, and the row."""
    found = rows.annotate(owner=_owner(mailbox)).values_list("owner", mailbox, "pk")[:HEADS]
    return [((owner, served), row) for owner, served, row in found]


def _rows(
    actions: QuerySet[PendingAction],
) -> QuerySet[PendingAction, tuple[UUID, UUID, int | None]]:
    return actions.annotate(owner=_owner()).values_list("pk", "mailbox", "owner")


def find_unpaused() -> QuerySet[PendingAction]:
    """Return the approved actions that are due and that no pause holds back.

    Pauses come first, because only they hold back thousands of actions for days. The index
    `action_due` has all columns that this reads.
    """
    return _leave_out_paused(PendingAction.objects.filter(conditions.due(), status=Status.APPROVED))


def _leave_out_paused(actions: QuerySet[PendingAction]) -> QuerySet[PendingAction]:
    for rows in conditions.reasons_of_pauses():
        actions = actions.filter(~Exists(rows))
    return actions


def find_free(unpaused: QuerySet[PendingAction]) -> QuerySet[PendingAction]:
    """Return those of these actions whose mailbox may send. Only the claim looks at the action.

    A void approval must not hide the other mail of its mailbox: the claim returns it to a person.
    """
    return PendingAction.objects.filter(~conditions.must_wait(), pk__in=unpaused.values("pk"))


def heads() -> list[Due]:
    """Return the longest waiting action of each mailbox that may leave now, longest first.

    Only one of each mailbox: more cannot leave at once, and a long queue must not hide the other
    mailboxes.
    """
    return _load(find_free(_first_of_each(find_unpaused())).order_by("not_before")[:HEADS])


def _first_of_each(actions: QuerySet[PendingAction]) -> QuerySet[PendingAction]:
    """Return the first one of these actions of each mailbox."""
    place = Window(RowNumber(), partition_by=F("mailbox"), order_by=F("not_before").asc())
    return actions.annotate(place=place).filter(place=1)


def load_due(action_ids: Sequence[UUID]) -> list[Due]:
    """Return the mailboxes and owners of these actions; it does not check if they may leave."""
    found = {due.action: due for due in _load(PendingAction.objects.filter(pk__in=action_ids))}
    return [found[action_id] for action_id in action_ids if action_id in found]


def _load(actions: QuerySet[PendingAction]) -> list[Due]:
    return [
        Due(action=action, mailbox=mailbox, owner=owner)
        for action, mailbox, owner in _rows(actions)
    ]


@dataclass(frozen=True, kw_only=True)
class Standstill:
    """Mail that could leave and has not.

    `oldest_seconds` is since when the oldest could have left, 0 if none waits. `stuck` is True if
    this is too long. `codes` are the last errors of the mails that wait for over a minute.
    """

    oldest_seconds: float
    stuck: bool
    codes: list[str]


def measure_standstill() -> Standstill:
    """Measure how long mail waits that nothing holds back on purpose.

    It is too long if nothing was accepted or refused anywhere for a minute, or by one mailbox for
    MAILHUB_READY_WAIT_SECONDS. Retries do not count: a server without room retries for ever. Mail
    that a cool-down or a send window held back within that time does not count, nor mail whose
    owner has a slow send under way: a worker lets an owner's slow servers wait for each other.
    An attempt that fails at once is no excuse, because one of them is under way at most moments.
    """
    patience = timedelta(seconds=settings.MAILHUB_READY_WAIT_SECONDS)
    now = database_now()
    waiting = _find_overdue(now)
    late = [each for each in waiting if each.since < now - A_MINUTE]
    slow = PendingAction.objects.filter(
        status=Status.EXECUTING, attempts__verdict=None, attempts__started_at__lt=now - A_SLOW_SEND
    )
    excused = {owner for _, _, owner in _rows(slow)} if late else set()
    late = [each for each in late if each.owner not in excused]
    stuck = bool(late) and not _find_ended_since(now - A_MINUTE).exists()
    if late and not stuck:
        mailboxes = {each.mailbox_id for each in late if each.since < now - patience}
        moved = _find_ended_since(now - patience).filter(mailbox__in=mailboxes)
        stuck = bool(mailboxes - set(moved.values_list("mailbox", flat=True)))
    return Standstill(
        oldest_seconds=max((now - waiting[0].since).total_seconds(), 0.0) if waiting else 0.0,
        stuck=stuck,
        codes=sorted({each.error["code"] for each in late if each.error}),
    )


def _find_overdue(now: datetime) -> list[Any]:
    """Return the mail that could have left, the longest waiting first: mailbox, owner, since, error.

    Of each mailbox these are the first that is due and the first that is tried again later: anybody
    may ask, and judging a backlog takes seconds.
    """
    retried = PendingAction.objects.filter(
        status=Status.APPROVED,
        fence__gt=0,
        not_before__gt=now,
        not_before__lte=now + timedelta(seconds=LONGEST_RETRY_SECONDS),
    )
    due = [*_judge(find_unpaused(), now), *_judge(_leave_out_paused(retried), now)]
    return sorted(due, key=lambda each: each.since)[:HEADS]


def _judge(unpaused: QuerySet[PendingAction], now: datetime) -> QuerySet[PendingAction, Any]:
    """Return those of the first actions of each mailbox that could have left.

    An attempt that failed moves `not_before` on, by a quarter of an hour at most; the undo window and
    the time of the mail do not move.
    """
    since = Greatest(
        "approved_at", Coalesce("undo_until", "approved_at"), Coalesce("send_at", "approved_at")
    )
    mine = OuterRef("mailbox")
    lately = now - A_MINUTE
    return (
        find_free(_first_of_each(unpaused))
        .filter(conditions.still_holds())
        .exclude(
            Q(Exists(Rest.objects.filter(mailbox=mine, until__gt=lately)))
            | Q(Exists(ApprovalPolicy.objects.filter(mailbox=mine, opens_at__gt=lately)))
        )
        .annotate(since=Least("not_before", since), owner=_owner())
        .filter(since__lte=now)
        .order_by("since")
        .values_list("mailbox_id", "owner", "since", "error", named=True)[:HEADS]
    )


def _find_ended_since(moment: datetime) -> QuerySet[PendingAction]:
    return PendingAction.objects.filter(
        finished_at__gt=moment,
        purged_at=None,  # for the index; no mail is purged that soon
        status__in=(Status.SUCCEEDED, Status.FAILED),
    )


def some_lack_the_journal() -> bool:
    """Return True if approved mail waits because the send journal could not be written."""
    codes = ("journal_busy", "journal_failed")
    return PendingAction.objects.filter(status=Status.APPROVED, error__code__in=codes).exists()
