"""Reminders of actions that still wait: a table of times, filled when an action is proposed."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from accounts.infra.database import database_now
from approvals.audit import chain
from approvals.core.states import Status
from approvals.gate.rules.approvers import People, find_approvers, find_first, find_next
from approvals.models import ApprovalPolicy, Notification, PendingAction, Reminder
from approvals.outbound.notifications import outbox
from approvals.outbound.notifications.outbox import Event

BATCH = 250
BEFORE_EXPIRY = timedelta(hours=1)
# The people of each stage that is reached by time.
RECIPIENTS: dict[str, Callable[[Sequence[PendingAction]], People]] = {
    Notification.Stage.HALF_TIME: find_first,
    Notification.Stage.ESCALATED: find_next,
    Notification.Stage.LAST_HOUR: find_approvers,
}


def plan(actions: Iterable[PendingAction]) -> None:
    """Store the times at which people are reminded of new actions."""
    actions = list(actions)
    escalation = dict(
        ApprovalPolicy.objects.filter(
            mailbox__in={action.mailbox_id for action in actions},
            escalation_minutes__isnull=False,
        ).values_list("mailbox", "escalation_minutes")
    )
    Reminder.objects.bulk_create(
        (
            Reminder(action=action, stage=stage, due_at=at)
            for action in actions
            for stage, at in times_of(action, escalation.get(action.mailbox_id))
        ),
        ignore_conflicts=True,
    )


def renew(actions: Iterable[PendingAction]) -> None:
    """Move the reminder of the last hour of actions that have got a new time to be decided."""
    last = Notification.Stage.LAST_HOUR.value
    Reminder.objects.bulk_create(
        (
            Reminder(action=action, stage=last, due_at=times[last])
            for action in actions
            if last in (times := dict(times_of(action, None)))
        ),
        update_conflicts=True,
        unique_fields=["action", "stage"],
        update_fields=["due_at"],
    )


def times_of(action: PendingAction, escalation: int | None) -> list[tuple[str, datetime]]:
    """Return the stages of an action's reminders and their times.

    An action that waits for two hours or less has no reminder in its last hour. `escalation` is the
    rule of the mailbox: minutes, 0 for half time, or None.
    """
    half = action.created_at + (action.expires_at - action.created_at) / 2
    last = action.expires_at - BEFORE_EXPIRY
    times = [(Notification.Stage.HALF_TIME.value, half)]
    if last > half:
        times.append((Notification.Stage.LAST_HOUR.value, last))
    if escalation is not None:
        after = action.created_at + timedelta(minutes=escalation) if escalation else half
        times.append((Notification.Stage.ESCALATED.value, after))
    return times


def find_due(now: datetime | Now) -> QuerySet[Reminder]:
    return Reminder.objects.filter(due_at__lte=now)


def remind(now: datetime | None = None) -> int:
    """Add the notifications of due reminders, and return the number of reminders.

    A reminder is deleted in the same transaction. If the action was decided meanwhile, nobody is
    reminded.
    """
    now = now or database_now()
    with transaction.atomic():
        due = list(
            find_due(now)
            .select_for_update(no_key=True, skip_locked=True)
            .order_by("due_at")[:BATCH]
        )
        if not due:
            return 0
        still = {
            action.pk: action
            for action in PendingAction.objects.filter(
                pk__in={reminder.action_id for reminder in due},
                status=Status.PENDING,
                expires_at__gt=now,
            )
        }
        events = _events_of(due, still)
        outbox.add(events, now=now)
        _record_escalations(events, still, now)
        Reminder.objects.filter(pk__in=[reminder.pk for reminder in due]).delete()
    return len(due)


def _events_of(due: Sequence[Reminder], still: Mapping[UUID, PendingAction]) -> list[Event]:
    events = []
    for stage, find_people in RECIPIENTS.items():
        ids = {reminder.action_id for reminder in due if reminder.stage == stage}
        people = find_people([still[pk] for pk in ids if pk in still])
        if stage == Notification.Stage.ESCALATED:
            people = _leave_out_asked(people)
        events += [
            Event(
                stage=stage,
                action_id=action_id,
                people=those,
                # Each renewed time has a last hour; the others come once.
                occasion=f"{still[action_id].expires_at:%Y%m%d%H%M}"
                if stage == Notification.Stage.LAST_HOUR
                else "",
            )
            for action_id, those in people.items()
        ]
    return events


def _leave_out_asked(people: People) -> People:
    """Return the people without those who were asked before to decide about the same action."""
    asked = set(
        Notification.objects.filter(action__in=people, stage__in=outbox.ASKING).values_list(
            "action", "user"
        )
    )
    return {
        action_id: {each for each in those if (action_id, each) not in asked}
        for action_id, those in people.items()
    }


def _record_escalations(
    events: Sequence[Event], still: Mapping[UUID, PendingAction], now: datetime
) -> None:
    """Record in the history of each action who was notified because nobody had decided."""
    escalated = [
        (still[event.action_id], event.people)
        for event in events
        if event.stage == Notification.Stage.ESCALATED and event.action_id and event.people
    ]
    reached = {
        channel.user_id
        for channel in outbox.find_working({person for _, some in escalated for person in some})
    }
    # In the order in which every writer locks chains.
    for action, people in sorted(escalated, key=lambda each: each[0].mailbox_id):
        chain.record(
            mailbox=action.mailbox_id,
            event="escalated",
            actor="worker",
            action_id=action.pk,
            minutes=int((now - action.created_at) / timedelta(minutes=1)),
            people=sorted(reached & set(people)),
        )
