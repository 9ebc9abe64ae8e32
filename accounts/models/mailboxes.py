"""Mailboxes, and the roles of people on them."""

from __future__ import annotations

import uuid
from datetime import date, timedelta
from typing import ClassVar

from django.db import models
from django.db.models.functions import Lower, Now
from django.utils import timezone
from django.utils.timezone import localdate
from django.utils.translation import gettext_lazy as _

from accounts.models.people import Role, User


class Mailbox(models.Model):
    """A connected mailbox.

    `credentials` is a record of `accounts.infra.credentials`, bound to this row. `generation` counts
    how often the mailbox was disconnected, or connected to another account or server: an approval
    holds for one generation. `sent_folder` and `drafts_folder` are the folders that a manager chose on
    an IMAP server; empty: by role. `provider_files_copies` is what mailhub has seen after a send: that
    the provider put its own copy into Sent, or that it did not.
    """

    class Provider(models.TextChoices):
        IMAP = "imap", "IMAP"
        GMAIL = "gmail", "Gmail"
        MICROSOFT = "microsoft", "Microsoft 365"

    class Status(models.TextChoices):
        ACTIVE = "active", _("works")
        NEEDS_REAUTH = "needs_reauth", _("must be reconnected")
        ERROR = "error", _("cannot be reached")
        PAUSED = "paused", _("paused")
        DISCONNECTED = "disconnected", _("disconnected")

    class SentCopies(models.TextChoices):
        AUTOMATIC = "automatic", _("Automatic: mailhub looks whether the provider saves it")
        MAILHUB = "mailhub", _("mailhub saves it")
        PROVIDER = "provider", _("The provider saves it")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    address = models.EmailField(max_length=254)
    name = models.CharField(max_length=255, blank=True)
    provider = models.CharField(max_length=16, choices=Provider.choices)
    status = models.CharField(max_length=16, choices=Status.choices, default=Status.ACTIVE)
    credentials = models.BinaryField(editable=False)
    credentials_version = models.PositiveIntegerField(default=1)
    generation = models.PositiveIntegerField(default=0, db_default=0)
    scopes = models.JSONField(default=list)
    created_at = models.DateTimeField(auto_now_add=True)
    checked_at = models.DateTimeField(null=True)
    sent_folder = models.CharField(max_length=500, blank=True, db_default="")
    drafts_folder = models.CharField(max_length=500, blank=True, db_default="")
    sent_copies = models.CharField(
        max_length=16,
        choices=SentCopies.choices,
        default=SentCopies.AUTOMATIC,
        db_default=SentCopies.AUTOMATIC,
    )
    provider_files_copies = models.BooleanField(null=True)

    class Meta:
        verbose_name_plural = "mailboxes"
        ordering = ["address"]
        constraints = [
            models.UniqueConstraint(Lower("address"), name="mailbox_address_once"),
            models.CheckConstraint(
                condition=models.Q(
                    status__in=["active", "needs_reauth", "error", "paused", "disconnected"]
                ),
                name="mailbox_known_status",
            ),
        ]

    def __str__(self) -> str:
        return self.address

    @property
    def gets_copies_from_provider(self) -> bool:
        """Return True if the provider itself puts a copy of each sent mail into Sent."""
        if self.sent_copies == self.SentCopies.AUTOMATIC:
            return bool(self.provider_files_copies)
        return self.sent_copies == self.SentCopies.PROVIDER

    @property
    def domain(self) -> str:
        return self.address.rpartition("@")[2].lower()


class TokenRefresh(models.Model):
    """The lease for refreshing a mailbox's access token, and the result of the last attempt.

    See `accounts.connect.refreshing`.

    `number` counts the refreshes that began; `kept` is the number of the one whose tokens are
    stored.
    """

    mailbox = models.OneToOneField(Mailbox, models.CASCADE, primary_key=True, related_name="+")
    number = models.PositiveIntegerField(default=0)
    kept = models.PositiveIntegerField(default=0)
    lease_until = models.DateTimeField(null=True)
    try_again_at = models.DateTimeField(null=True)
    grant_ended = models.BooleanField(default=False)

    def __str__(self) -> str:
        return f"{self.mailbox_id} #{self.number}"


class CurrentMemberships(models.Manager["Membership"]):
    """The memberships that hold now, by the database's clock."""

    def get_queryset(self) -> models.QuerySet[Membership]:
        has_begun = models.Q(starts_at=None) | models.Q(starts_at__lte=Now())
        goes_on = models.Q(ends_at=None) | models.Q(ends_at__gt=Now())
        return super().get_queryset().filter(has_begun, goes_on)


class Membership(models.Model):
    """The role of a person on a mailbox: always, or from `starts_at` until before `ends_at`.

    Every right is read through `objects`. No other model leads here, because a join would skip the
    period. Only code that shows or changes the members uses `on_any_day`.
    """

    mailbox = models.ForeignKey(Mailbox, models.CASCADE, related_name="+")
    user = models.ForeignKey(User, models.CASCADE, related_name="+")
    role = models.CharField(max_length=16, choices=Role.choices)
    starts_at = models.DateTimeField(null=True)
    ends_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    objects = CurrentMemberships()
    on_any_day: ClassVar[models.Manager[Membership]] = models.Manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["mailbox", "user"], name="membership_once"),
            models.CheckConstraint(
                condition=models.Q(role__in=Role.values), name="membership_known_role"
            ),
            models.CheckConstraint(
                condition=models.Q(starts_at=None)
                | models.Q(ends_at=None)
                | models.Q(ends_at__gt=models.F("starts_at")),
                name="membership_has_a_period",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user_id} {self.role} {self.mailbox_id}"

    @property
    def first_day(self) -> date | None:
        """Return the first day in the reader's time zone; None without one."""
        return self.starts_at and localdate(self.starts_at)

    @property
    def last_day(self) -> date | None:
        return self.ends_at and localdate(self.ends_at - timedelta.resolution)


class Invitation(models.Model):
    """An offer to one person to join a mailbox; used once, and only with its secret."""

    mailbox = models.ForeignKey(Mailbox, models.CASCADE, related_name="invitations")
    email = models.EmailField(max_length=254)
    role = models.CharField(max_length=16, choices=Role.choices)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    invited_by = models.ForeignKey(User, models.CASCADE, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["created_at"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(role__in=Role.values), name="invitation_known_role"
            ),
        ]

    def __str__(self) -> str:
        return f"invitation {self.pk} to {self.mailbox_id}"

    @classmethod
    def open(cls) -> models.QuerySet[Invitation]:
        return cls.objects.filter(used_at=None, expires_at__gt=timezone.now())
