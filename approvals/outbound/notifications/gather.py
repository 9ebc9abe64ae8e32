"""Notifications from the audit events: the send path writes nothing for them, yet none is missed.

One cursor follows the ids of the events of all chains. Transactions commit in another order than
they took their ids. So the cursor passes an event only when it is SETTLED old, and remembers the
later ones that it has read.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Max, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from accounts.infra.database import database_now
from accounts.models import Role
from approvals.core.states import Status
from approvals.gate.reconcile import find_unshown_send
from approvals.gate.rules.approvers import find_approvers, find_first, find_with_role
from approvals.gate.send_back import WITHDRAWN_ANSWERED
from approvals.models import (
    AuditEvent,
    Decision,
    Notification,
    NotificationCursor,
    PendingAction,
)
from approvals.outbound.notifications import outbox, reminders
from approvals.outbound.notifications.outbox import Event
from approvals.reports.steps import event_of

BATCH = 250  # of events, so that a round takes half a second
ROUNDS = 20  # in one sweep: a thousand events a second
SETTLED = timedelta(minutes=2)  # no transaction that records an event takes this long
# The lookups in Sent come first: most outcomes are known before.
UNKNOWN_WAIT = timedelta(minutes=10)
ONLY = 1  # the primary key of the cursor
COLUMNS = ("pk", "event", "actor", "action_id", "mailbox_id", "data", "sequence")
# After these events a pending action asks again those who had approved it.
VOIDING = ("edited", "undone", "noticed", "approvals_void")

Stage = Notification.Stage
Links = Sequence[AuditEvent]


def find_unread() -> QuerySet[AuditEvent]:
    """Return the events after the cursor."""
    return AuditEvent.objects.filter(
        pk__gt=Coalesce(Subquery(NotificationCursor.objects.values("event")[:1]), 0)
    )


def gather_all() -> None:
    """Gather until the events are read, so that a busy installation is not notified late."""
    for _ in range(ROUNDS):
        if gather() < BATCH:
            return


def gather(now: datetime | None = None) -> int:
    """Add notifications for new events, each only once, by any number of workers.

    Return the number of events read. It is one transaction with a constant number of statements, apart
    from late answers: after a crash, the next worker reads the same events again.
    """
    now = now or database_now()
    if not NotificationCursor.objects.filter(pk=ONLY).exists():
        # Another worker may create it too.
        first = NotificationCursor(pk=ONLY)
        NotificationCursor.objects.bulk_create([first], ignore_conflicts=True)
    with transaction.atomic():
        cursor = (
            NotificationCursor.objects.select_for_update(no_key=True, skip_locked=True)
            .filter(pk=ONLY)
            .first()
        )
        if cursor is None:
            return 0
        links = _read(cursor, now)
        if links:
            _notify(links, now)
        cursor.save()
    return len(links)


def _read(cursor: NotificationCursor, now: datetime) -> list[AuditEvent]:
    """Return the next unread events, and move the cursor past them."""
    known = set(cursor.later)
    after = AuditEvent.objects.filter(pk__gt=cursor.event).order_by("pk")
    # Only the ids of the events that were read already, which may be thousands.
    found = list(after.values_list("pk", flat=True)[: BATCH + len(known)])
    # Asked last, so that no event that is committed meanwhile is passed.
    young = after.filter(at__gt=now - SETTLED).values_list("pk", flat=True).first()
    unread = [pk for pk in found if pk not in known]
    if found:
        cursor.event = found[-1] if young is None else min(found[-1], young - 1)
    cursor.later = [pk for pk in found if pk > cursor.event]
    return list(after.filter(pk__in=unread).only(*COLUMNS))


def _notify(links: Links, now: datetime) -> None:
    named = [(link, event_of(link)) for link in links if link.action_id]
    actions = {
        action.pk: action
        for action in PendingAction.objects.filter(
            pk__in={link.action_id for link, name in named if name or link.event in VOIDING}
        )
    }
    by_name: dict[str, list[AuditEvent]] = {}
    for link, name in named:
        if name and link.action_id in actions:
            by_name.setdefault(name, []).append(link)
    events = [
        *_of_new(by_name.get("action.proposed", ()), actions),
        *_of_returned(by_name.get("action.returned", ()), actions),
        *_of_void([link for link in links if link.event in VOIDING], actions),
        *_of_approved(by_name.get("action.failed", ()), Stage.FAILED),
        # It was approved, and nothing left: a closed send window, a pause, a server that was away.
        *_of_approved(by_name.get("action.expired", ()), Stage.FAILED),
        *_of_approved(_without_answered(by_name.get("action.cancelled", ())), Stage.FAILED),
        *_of_approved(by_name.get("action.bounced", ()), Stage.BOUNCED),
        *_of_refused([link for link in links if link.event == "mailbox_refused"]),
        *_of_late([link for link in links if link.event == "late_outcome"]),
    ]
    outbox.add(events, now=now, wait=timedelta(seconds=settings.MAILHUB_NOTIFICATION_WAIT_SECONDS))
    unknown = _of_unknown(by_name.get("action.unknown", ()), actions)
    outbox.add(unknown, now=now, wait=UNKNOWN_WAIT)
    reminders.plan(
        [actions[link.action_id] for link in by_name.get("action.proposed", ()) if link.action_id]
    )
    # An approval may have moved the expiry, too; it is news once it is undone.
    renewing = ("action.edited", "action.returned", "action.undone")
    renewed = [link for name in renewing for link in by_name.get(name, ())]
    reminders.renew(_pending(renewed, actions))
    outbox.close_decided([(action.pk, action.status) for action in actions.values()], now=now)


def _pending(links: Links, actions: dict[UUID, PendingAction]) -> list[PendingAction]:
    found = {link.action_id: actions[link.action_id] for link in links if link.action_id}
    return [action for action in found.values() if action.status == Status.PENDING]


def _of_new(links: Links, actions: dict[UUID, PendingAction]) -> list[Event]:
    """Return the events of new proposals: for approvers, and for people who asked for them."""
    pending = _pending(links, actions)
    approvers, first = find_approvers(pending), find_first(pending)
    asked = set(
        Decision.objects.filter(
            action__in=[action.replaces_id for action in pending if action.replaces_id],
            verdict=Decision.Verdict.CHANGES_REQUESTED,
            person__is_active=True,
        ).values_list("action", "person")
    )
    events = []
    for action in pending:
        answered = {person for replaced, person in asked if replaced == action.replaces_id}
        answered &= approvers[action.pk]
        events += [
            Event(stage=Stage.ANSWERED, action_id=action.pk, people=answered),
            Event(stage=Stage.WAITING, action_id=action.pk, people=first[action.pk] - answered),
        ]
    return events


def _of_returned(links: Links, actions: dict[UUID, PendingAction]) -> list[Event]:
    approvers = find_approvers(_pending(links, actions))
    return [
        Event(
            stage=Stage.RETURNED,
            action_id=link.action_id,
            people=approvers[link.action_id],
            occasion=str(link.sequence),
        )
        for link in links
        if link.action_id in approvers
    ]


def _of_void(links: Links, actions: dict[UUID, PendingAction]) -> list[Event]:
    """Return the events of approvals that somebody else, rules or news have made void: without another
    decision of these people the action waits, and they believe that they have decided.
    """
    pending = _pending([link for link in links if link.action_id in actions], actions)
    approvers = find_approvers(pending)
    # A person who changed the rules did not look at this action, so they hear of it like the others.
    actors = {(link.action_id, link.actor) for link in links if link.event != "approvals_void"}
    given = Decision.objects.filter(action__in=approvers, verdict=Decision.Verdict.APPROVED)
    last = given.order_by().values("action", "person").annotate(decision=Max("pk"))
    return [
        Event(
            stage=Stage.RETURNED,
            action_id=action_id,
            people=[person],
            occasion=f"approval {decision}",
        )
        for action_id, person, decision in last.values_list("action", "person", "decision")
        if person in approvers[action_id] and (action_id, f"user:{person}") not in actors
    ]


def _of_unknown(links: Links, actions: dict[UUID, PendingAction]) -> list[Event]:
    """Return the events of unknown outcomes: everybody who may rule gets them."""
    unknown = [
        actions[link.action_id]
        for link in links
        if link.action_id and actions[link.action_id].status == Status.UNKNOWN
    ]
    people = find_with_role({action.mailbox_id for action in unknown}, Role.APPROVER)
    return [
        Event(
            stage=Stage.UNKNOWN,
            action_id=action.pk,
            people=people[action.mailbox_id],
            occasion=str(action.fence),
        )
        for action in unknown
    ]


def _of_late(links: Links) -> list[Event]:
    """Return the events of copies that left and that no state shows: all who may rule get them."""
    late = [
        action
        for action in PendingAction.objects.filter(pk__in={link.action_id for link in links})
        if find_unshown_send(action)
    ]
    people = find_with_role({action.mailbox_id for action in late}, Role.APPROVER)
    return [
        Event(stage=Stage.ALSO_SENT, action_id=action.pk, people=people[action.mailbox_id])
        for action in late
    ]


def _of_approved(links: Links, stage: Stage) -> list[Event]:
    """Return the events of mail that failed, expired, was withdrawn or came back from a server: the
    people who approved it get them, but not the one who withdrew it.
    """
    # The ruling that withdraws an unknown mail names the attempt, and has begun another round.
    ruled = [link.action_id for link in links if "fence" in link.data and stage == Stage.FAILED]
    now = PendingAction.objects.filter(pk=OuterRef("action")).values("approval_round")
    approved = Decision.objects.filter(
        Q(approval_round=Subquery(now))
        | Q(action__in=ruled, approval_round=Subquery(now) - 1, action__status=Status.CANCELLED),
        action__in={link.action_id for link in links},
        verdict=Decision.Verdict.APPROVED,
    )
    people: dict[UUID, set[int]] = {}
    for action_id, person in approved.values_list("action", "person"):
        people.setdefault(action_id, set()).add(person)
    return [
        Event(
            stage=stage,
            action_id=link.action_id,
            people=[each for each in people[link.action_id] if link.actor != f"user:{each}"],
            occasion=str(link.sequence) if stage == Stage.BOUNCED else "",
        )
        for link in links
        if link.action_id in people
    ]


def _without_answered(links: Links) -> Links:
    """Return the withdrawals without those that the approval itself has asked for."""
    return [link for link in links if link.data.get("code") != WITHDRAWN_ANSWERED]


def _of_refused(links: Links) -> list[Event]:
    """Return the events of mailboxes that must be reconnected: their managers get them."""
    people = find_with_role({link.mailbox_id for link in links if link.mailbox_id}, Role.MANAGER)
    return [
        Event(
            stage=Stage.RECONNECT,
            mailbox_id=link.mailbox_id,
            people=people[link.mailbox_id],
            occasion=str(link.sequence),
        )
        for link in links
        if link.mailbox_id
    ]
