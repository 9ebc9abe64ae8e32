"""Delivery of notifications.

At most once: rows are marked before the channel is called. If no answer comes back, they are not
sent again, because the person may have the message. The reminders still follow.
"""

import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

import structlog
from django.conf import settings
from django.db.models import F, Q

from accounts.access.quotas import Quota, count
from accounts.infra.database import database_now
from accounts.infra.texts import translatable
from approvals.models import (
    Notification,
    NotificationChannel,
    NotificationSettings,
    PendingAction,
)
from approvals.outbound.notifications import outbox
from approvals.outbound.notifications.channels.port import (
    DeliveryAnswer,
    NotificationMessage,
    Transport,
    get_transport,
)
from approvals.outbound.notifications.fitness import judge
from approvals.outbound.notifications.messages import count_waiting, write_message

log = structlog.get_logger(__name__)

AT_ONCE = 100  # rows in one message
LISTED = 1000
HELD = timedelta(minutes=2)  # longer than any attempt of a channel
# The waits after the first, second, … attempt; after the last one there is no other.
AGAIN = tuple(timedelta(seconds=seconds) for seconds in (30, 120, 600, 1800, 7200))
PAUSED_AFTER = 5  # failed deliveries in a row
HOUR = 3600  # seconds

State = Notification.State


def find_waiting(now: datetime | None = None) -> list[tuple[tuple[int, UUID], UUID]]:
    """Return the channels with something to deliver for `Background`, each with its person."""
    now = now or database_now()
    due = outbox.find_due(now).order_by().values_list("channel__user", "channel")
    withdrawn = outbox.find_withdrawn(now).order_by().values_list("channel__user", "channel")
    found = dict.fromkeys([*due.distinct()[:LISTED], *withdrawn.distinct()[:LISTED]])
    return [((person, channel), channel) for person, channel in found]


def end_lost(now: datetime | None = None) -> None:
    """Close the rows whose worker died while it sent them: nobody knows whether they arrived."""
    lost = outbox.find_lost(now or database_now())
    if gone := lost.update(state=State.UNKNOWN, code="worker_lost"):
        log.warning("notification_lost", count=gone)


def deliver(channel_id: UUID, *, now: datetime | None = None) -> None:
    """Deliver what is due on one channel, as one message; no other worker does so meanwhile."""
    now = now or database_now()
    free = NotificationChannel.objects.filter(
        Q(busy_until=None) | Q(busy_until__lt=now), pk=channel_id, paused_at=None
    )
    if not free.update(busy_until=now + HELD):
        return
    try:
        channel = NotificationChannel.objects.select_related("user").get(pk=channel_id)
        _deliver_due(channel, now)
        _withdraw_due(channel, now)
    finally:
        NotificationChannel.objects.filter(pk=channel_id, busy_until=now + HELD).update(
            busy_until=None
        )


def _deliver_due(channel: NotificationChannel, now: datetime) -> None:
    rows = list(
        Notification.objects.filter(channel=channel, state=State.WAITING, due_at__lte=now)
        .select_related("action__mailbox", "mailbox")
        .order_by("created_at", "pk")[:AT_ONCE]
    )
    if not channel.user.is_active:
        _drop([(row, "not_active") for row in rows])
        return
    person = NotificationSettings.objects.filter(user=channel.user_id).first()
    person = person or NotificationSettings(user_id=channel.user_id)
    judged = judge(rows, person, now=now)
    _drop(judged.drop)
    _postpone(judged.later)
    digests = [row for row in judged.send if row.stage == outbox.Stage.DIGEST]
    news = [row for row in judged.send if row.stage != outbox.Stage.DIGEST]
    for group in (news, digests):
        if group:
            _send(channel, group, person, now)


def _send(
    channel: NotificationChannel,
    rows: Sequence[Notification],
    person: NotificationSettings,
    now: datetime,
) -> None:
    """Send one message for these rows, if the channel's quota has room."""
    use = count(_quota(), str(channel.pk))
    if not use.granted:
        _postpone([(row, now + timedelta(seconds=max(use.reset, 1))) for row in rows])
        return
    transport, delivery = get_transport(channel.kind), uuid.uuid4()
    message = write_message(delivery, channel, transport, rows, person)
    if rows[0].stage == outbox.Stage.DIGEST and not message.summary:
        _drop([(row, "nothing") for row in rows])
        return
    if not _mark(rows, delivery, now):
        return
    answer = call(transport, channel, message)
    _record(channel, delivery, rows, answer, now)
    log.info(
        "notification_tried",
        channel=str(channel.pk),
        kind=channel.kind,
        code=answer.code or answer.result,
        count=len(rows),
    )


def _quota() -> Quota:
    return Quota(
        name="notifications-of-channel",
        amount=settings.MAILHUB_NOTIFICATIONS_PER_HOUR,
        seconds=HOUR,
        refusal=translatable("Too many notifications were sent within an hour."),
    )


def _mark(rows: Sequence[Notification], delivery: UUID, now: datetime) -> bool:
    """Mark the rows before the call; return False if another worker was faster with one of them."""
    mine = Notification.objects.filter(pk__in=[row.pk for row in rows], state=State.WAITING)
    marked = mine.update(
        state=State.SENDING, delivery=delivery, attempts=F("attempts") + 1, due_at=now + HELD
    )
    if marked == len(rows):
        return True
    taken = Notification.objects.filter(pk__in=[row.pk for row in rows], delivery=delivery)
    taken.update(state=State.WAITING, due_at=now)
    return False


def call(
    transport: Transport, channel: NotificationChannel, message: NotificationMessage
) -> DeliveryAnswer:
    """Return the answer of the channel; an error that it did not expect is an unknown outcome."""
    try:
        return transport.send(channel, message)
    except Exception:  # a library may raise anything; the log holds no text of the error
        log.exception("notification_failed", channel=str(channel.pk), kind=channel.kind)
        return DeliveryAnswer(result="unknown", code="channel_error")


def _record(
    channel: NotificationChannel,
    delivery: UUID,
    rows: Sequence[Notification],
    answer: DeliveryAnswer,
    now: datetime,
) -> None:
    """Store the answer, also if this attempt was closed as lost meanwhile."""
    mine = Notification.objects.filter(
        pk__in=[row.pk for row in rows],  # no index has the delivery
        delivery=delivery,
        state__in=(State.SENDING, State.UNKNOWN),
    )
    if answer.result == "taken":
        mine.update(state=State.SENT, sent_at=now, code="", receipt=answer.receipt[:200])
        NotificationChannel.objects.filter(pk=channel.pk).exclude(failures=0).update(failures=0)
        # The gatherer closes no row that is being sent, so a decision meanwhile is found here.
        outbox.close_decided(
            PendingAction.objects.filter(
                pk__in={row.action_id for row in rows if row.action_id}
            ).values_list("pk", "status"),
            now=now,
        )
        return
    code = answer.code[:40] or answer.result
    attempts = max(row.attempts for row in rows)
    if answer.result == "unknown":
        mine.update(state=State.UNKNOWN, code=code)
    elif answer.result == "not_sent" and attempts < len(AGAIN):
        mine.update(state=State.WAITING, code=code, due_at=now + AGAIN[attempts])
        # Nothing has failed yet. Else a server that is away for minutes would pause every channel.
        return
    else:
        mine.update(state=State.FAILED, code=code)
    NotificationChannel.objects.filter(pk=channel.pk).update(failures=F("failures") + 1)
    if answer.result == "gone" or channel.failures + 1 >= PAUSED_AFTER:
        _pause(channel, code, now)


def _pause(channel: NotificationChannel, code: str, now: datetime) -> None:
    """Pause a channel that does not work; what waits on it is not sent later."""
    NotificationChannel.objects.filter(pk=channel.pk, paused_at=None).update(
        paused_at=now, pause_code=code
    )
    Notification.objects.filter(channel=channel, state=State.WAITING).update(
        state=State.DROPPED, code="channel_paused"
    )
    log.warning("channel_paused", channel=str(channel.pk), kind=channel.kind, code=code)


def _withdraw_due(channel: NotificationChannel, now: datetime) -> None:
    """Withdraw the messages whose actions were all decided; one attempt, because it is a courtesy."""
    transport = get_transport(channel.kind)
    due = Notification.objects.filter(channel=channel, withdraw_at__lte=now)
    for delivery, receipt in set(due.values_list("delivery", "receipt")[:AT_ONCE]):
        message = Notification.objects.filter(channel=channel, delivery=delivery)
        # An empty receipt marks a decided action; the message stays for the others.
        message.exclude(withdraw_at=None).update(withdraw_at=None, receipt="")
        if transport.withdraws and not message.exclude(receipt="").exists():
            try:
                transport.withdraw(channel, receipt, waiting=count_waiting(channel.user_id))
            except Exception:  # as in `call`
                log.exception("notification_not_withdrawn", channel=str(channel.pk))


def _drop(dropped: Sequence[tuple[Notification, str]]) -> None:
    by_code: dict[str, list[int]] = {}
    for row, code in dropped:
        by_code.setdefault(code, []).append(row.pk)
    for code, rows in by_code.items():
        Notification.objects.filter(pk__in=rows, state=State.WAITING).update(
            state=State.DROPPED, code=code
        )


def _postpone(postponed: Sequence[tuple[Notification, datetime]]) -> None:
    by_time: dict[datetime, list[int]] = {}
    for row, at in postponed:
        by_time.setdefault(at, []).append(row.pk)
    for at, rows in by_time.items():
        Notification.objects.filter(pk__in=rows, state=State.WAITING).update(due_at=at)
