"""Notifications of people: their channels and settings, and the outbox of what was sent to them."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from accounts.infra.fields import EncryptedTextField
from accounts.models import Mailbox
from approvals.models.action import PendingAction


class Content(models.TextChoices):
    """How much a notification shows of a mail, from little to more."""

    LINK = "link", _("only a link")
    SUBJECT = "subject", _("the sender and the subject")
    PREVIEW = "preview", _("a preview of the text")

    @classmethod
    def least(cls, *levels: "Content | str") -> "Content":
        """Return the level that shows the least."""
        order = list(cls)
        return min((cls(level) for level in levels), key=order.index)


class NotificationChannel(models.Model):
    """One way to reach a person.

    `address` is encrypted; it is empty for e-mail, which goes to the proven address of the account.
    `failures` counts failed deliveries in a row, not attempts that are retried. A paused channel
    gets nothing until its person resumes it. Until `busy_until` a worker delivers to it. `device` is
    the browser of a push channel, as `accounts.people.devices` names it.
    """

    class Kind(models.TextChoices):
        EMAIL = "email", _("e-mail")
        WEB_PUSH = "web_push", _("this browser")
        APPRISE = "apprise", _("chat or phone")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    kind = models.CharField(max_length=10, choices=Kind.choices)
    label = models.CharField(max_length=100, blank=True)
    address = EncryptedTextField(blank=True, bound_by=["id"])
    content = models.CharField(max_length=10, choices=Content.choices, default=Content.LINK)
    created_at = models.DateTimeField(auto_now_add=True)
    failures = models.PositiveSmallIntegerField(default=0)
    device = models.CharField(max_length=40, blank=True)
    paused_at = models.DateTimeField(null=True)
    pause_code = models.CharField(max_length=40, blank=True)
    busy_until = models.DateTimeField(null=True)

    class Meta:
        ordering = ["created_at", "id"]
        indexes = [models.Index(fields=["user"], name="notification_channel_user")]
        constraints = [
            models.UniqueConstraint(
                fields=["user"], condition=Q(kind="email"), name="notification_email_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.user_id}"


class NotificationSettings(models.Model):
    """When a person is notified. The row is made with their e-mail channel.

    Notifications arrive on `days` (ISO, Monday is 1; empty: every day) outside of the quiet hours,
    in `time_zone`. Urgent ones arrive at any time if the rules of the mailbox allow it. `email_offered`
    is set once the e-mail channel was added, so that a removed one does not come back.
    """

    class Digest(models.TextChoices):
        NONE = "none", _("never")
        DAILY = "daily", _("every day")
        WEEKLY = "weekly", _("every Monday")

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, models.CASCADE, primary_key=True, related_name="+"
    )
    days = models.CharField(max_length=7, blank=True)
    quiet_from = models.TimeField(null=True, blank=True)
    quiet_until = models.TimeField(null=True, blank=True)
    time_zone = models.CharField(max_length=64, default="UTC")
    digest = models.CharField(max_length=8, choices=Digest.choices, default=Digest.NONE)
    digest_due_at = models.DateTimeField(null=True, editable=False)
    email_offered = models.BooleanField(default=False, editable=False)

    class Meta:
        indexes = [
            models.Index(
                fields=["digest_due_at"],
                condition=Q(digest_due_at__isnull=False),
                name="notification_digest_due",
            )
        ]

    def __str__(self) -> str:
        return f"settings of {self.user_id}"


class Notification(models.Model):
    """One event for one channel: the outbox, and the record of what was sent and why.

    `about` names the event among those of its stage: the id of an action, with the number of the
    occasion if the stage can be reached several times. The row holds no content of a mail. Rows of
    one message have the same `delivery`, and `receipt` is how the channel names that message, if it
    can withdraw it.
    """

    class Stage(models.TextChoices):
        WAITING = "waiting", _("it waits for you")
        HALF_TIME = "half_time", _("half of its time has passed")
        LAST_HOUR = "last_hour", _("it expires within an hour")
        ESCALATED = "escalated", _("nobody has decided yet")
        RETURNED = "returned", _("it came back")
        ANSWERED = "answered", _("your question was answered")
        MENTIONED = "mentioned", _("somebody mentioned you")
        ASSIGNED = "assigned", _("somebody assigned it to you")
        UNKNOWN = "unknown", _("nobody knows whether it was sent")
        ALSO_SENT = "also_sent", _("it was sent all the same")
        FAILED = "failed", _("it was not sent")
        BOUNCED = "bounced", _("a recipient did not get it")
        RECONNECT = "reconnect", _("the mailbox must be reconnected")
        DIGEST = "digest", _("your digest")

    class State(models.TextChoices):
        WAITING = "waiting", _("waits")
        SENDING = "sending", _("is being sent")
        SENT = "sent", _("sent")
        DROPPED = "dropped", _("not needed")
        FAILED = "failed", _("failed")
        UNKNOWN = "unknown", _("not known whether it arrived")

    id = models.BigAutoField(primary_key=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    channel = models.ForeignKey(NotificationChannel, models.CASCADE, related_name="notifications")
    stage = models.CharField(max_length=12)
    about = models.CharField(max_length=60)
    action = models.ForeignKey(PendingAction, models.CASCADE, null=True, related_name="+")
    mailbox = models.ForeignKey(Mailbox, models.CASCADE, null=True, related_name="+")
    created_at = models.DateTimeField()
    due_at = models.DateTimeField()
    state = models.CharField(max_length=8, default=State.WAITING)
    attempts = models.PositiveSmallIntegerField(default=0)
    delivery = models.UUIDField(null=True)
    sent_at = models.DateTimeField(null=True)
    code = models.CharField(max_length=40, blank=True)
    receipt = models.CharField(max_length=200, blank=True)
    withdraw_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [
            models.UniqueConstraint(fields=["channel", "about", "stage"], name="notification_once")
        ]
        indexes = [
            models.Index(fields=["due_at"], condition=Q(state="waiting"), name="notification_due"),
            models.Index(
                fields=["due_at"], condition=Q(state="sending"), name="notification_sending"
            ),
            models.Index(
                fields=["withdraw_at"],
                condition=Q(withdraw_at__isnull=False),
                name="notification_withdrawn",
            ),
            models.Index(fields=["user", "-created_at", "-id"], name="notification_newest"),
            models.Index(fields=["created_at"], name="notification_old"),
        ]

    def __str__(self) -> str:
        return f"{self.stage} of {self.about} to {self.channel_id}"


class Reminder(models.Model):
    """A time at which the people of a stage are notified of an action that still waits."""

    action = models.ForeignKey(PendingAction, models.CASCADE, related_name="+")
    stage = models.CharField(max_length=12)
    due_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["action", "stage"], name="reminder_once")]
        indexes = [models.Index(fields=["due_at"], name="reminder_due")]

    def __str__(self) -> str:
        return f"{self.stage} of {self.action_id}"


class NotificationCursor(models.Model):
    """How far the audit events were read for notifications; one row, locked by its reader.

    Every event up to `event` was read. `later` holds the ids of later events that were read too:
    an earlier id may still be committed after them.
    """

    event = models.PositiveBigIntegerField(default=0)
    later = models.JSONField(default=list)

    def __str__(self) -> str:
        return str(self.event)
