"""The outbox of notifications: one row for each channel, event and stage, however often it is added."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from accounts.models import User
from approvals.core.states import Status
from approvals.models import (
    Content,
    Notification,
    NotificationChannel,
    NotificationSettings,
)

Stage = Notification.Stage
# These stages ask for a decision, so they are not needed once the action is decided.
ASKING = (
    Stage.WAITING,
    Stage.HALF_TIME,
    Stage.LAST_HOUR,
    Stage.ESCALATED,
    Stage.RETURNED,
    Stage.ANSWERED,
)
URGENT = (Stage.LAST_HOUR, Stage.UNKNOWN, Stage.ALSO_SENT, Stage.RECONNECT)
KEPT = timedelta(days=30)
FORGOTTEN_AT_ONCE = 10_000


@dataclass(frozen=True, kw_only=True)
class Event:
    """One event for people, to be added to the outbox.

    `occasion` tells events of one stage and action apart if each of them is news.
    """

    stage: str
    people: Collection[int]
    action_id: UUID | None = None
    mailbox_id: UUID | None = None
    occasion: str = ""

    @property
    def about(self) -> str:
        named = (str(self.action_id or self.mailbox_id or ""), self.occasion)
        return ":".join(part for part in named if part)


def add(events: Sequence[Event], *, now: datetime, wait: timedelta = timedelta()) -> None:
    """Add the events for all working channels of their people, each only once.

    It takes a constant number of statements, and inserts in batches. It may be part of a
    transaction: then the notifications exist exactly if it commits.
    """
    people = {person for event in events for person in event.people}
    if not people:
        return
    offer_email(people)
    channels: dict[int, list[NotificationChannel]] = {}
    for channel in find_working(people):
        channels.setdefault(channel.user_id, []).append(channel)
    Notification.objects.bulk_create(
        (
            Notification(
                user_id=person,
                channel=channel,
                stage=event.stage,
                about=event.about,
                action_id=event.action_id,
                mailbox_id=event.mailbox_id,
                created_at=now,
                due_at=now + wait,
            )
            for event in events
            for person in event.people
            for channel in channels.get(person, ())
            if event.stage != Stage.DIGEST or channel.kind != NotificationChannel.Kind.WEB_PUSH
        ),
        ignore_conflicts=True,
    )


def find_working(people: Collection[int]) -> QuerySet[NotificationChannel]:
    """Return the channels of these people that are not paused and that this server can use."""
    found = NotificationChannel.objects.filter(user__in=people, paused_at=None)
    if not settings.SENDS_MAIL:
        found = found.exclude(kind=NotificationChannel.Kind.EMAIL)
    return found.only("id", "user_id", "kind")


def offer_email(people: Collection[int]) -> None:
    """Add the e-mail channel of people with a proven address, once: a removed one stays removed."""
    offered = NotificationSettings.objects.filter(email_offered=True).values("user")
    fresh = list(
        User.objects.filter(pk__in=people, is_active=True, address_proven_at__isnull=False)
        .exclude(pk__in=offered)
        .values_list("pk", flat=True)
    )
    if not fresh:
        return
    NotificationSettings.objects.bulk_create(
        [NotificationSettings(user_id=person) for person in fresh], ignore_conflicts=True
    )
    # Only the process that sets the mark adds the channel.
    if NotificationSettings.objects.filter(user__in=fresh, email_offered=False).update(
        email_offered=True
    ):
        NotificationChannel.objects.bulk_create(
            [
                NotificationChannel(
                    user_id=person,
                    kind=NotificationChannel.Kind.EMAIL,
                    content=Content.SUBJECT,
                )
                for person in fresh
            ],
            ignore_conflicts=True,
        )


def find_due(now: datetime | Now) -> QuerySet[Notification]:
    """Return the notifications to deliver now, of channels that no worker holds."""
    return Notification.objects.filter(
        Q(channel__busy_until=None) | Q(channel__busy_until__lt=now),
        state=Notification.State.WAITING,
        due_at__lte=now,
        channel__paused_at=None,
    )


def find_lost(now: datetime | Now) -> QuerySet[Notification]:
    """Return the notifications whose worker did not come back from the channel."""
    return Notification.objects.filter(state=Notification.State.SENDING, due_at__lt=now)


def find_withdrawn(now: datetime | Now) -> QuerySet[Notification]:
    """Return the notifications to withdraw now, of channels that no worker holds."""
    return Notification.objects.filter(
        Q(channel__busy_until=None) | Q(channel__busy_until__lt=now),
        withdraw_at__lte=now,
        channel__paused_at=None,
    )


def close_decided(actions: Iterable[tuple[UUID, str]], *, now: datetime) -> None:
    """Drop what no longer needs to be sent about these actions, and withdraw what was sent.

    The actions come with their present state. A channel that can withdraw has given a receipt.
    """
    decided = [action_id for action_id, status in actions if status != Status.PENDING]
    if not decided:
        return
    asking = Notification.objects.filter(action__in=decided, stage__in=ASKING)
    asking.filter(state=Notification.State.WAITING).update(
        state=Notification.State.DROPPED, code="decided"
    )
    asking.filter(state=Notification.State.SENT, withdraw_at=None).exclude(receipt="").update(
        withdraw_at=now
    )


def forget_old() -> None:
    """Delete notifications after 30 days."""
    old = Notification.objects.filter(created_at__lt=Now() - KEPT)
    Notification.objects.filter(
        pk__in=list(old.values_list("pk", flat=True)[:FORGOTTEN_AT_ONCE])
    ).delete()
