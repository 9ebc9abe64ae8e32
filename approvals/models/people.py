"""Decisions of people, and the rules of a mailbox for them."""

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from accounts.infra.fields import EncryptedTextField
from accounts.models import Mailbox, Role
from approvals.models.action import PendingAction
from approvals.models.notifications import Content


class ApprovalPolicy(models.Model):
    """The rules of a mailbox: who decides, how many, how long, to whom and when mail may leave.

    Without a row the defaults below hold. An empty number means the value of the environment, or no
    limit. No rule approves. With `files_opened`, an approval counts only after its person opened each
    file. `version` counts changes of the recipient lists: an approval counts
    only for the lists under which it was given. `confirmed_domains` are right, although they look
    like others. `opens_at` and `closes_at` are the present or next send window; both are empty if
    mail may leave at any time. `window_set_at` is when they were set, by the database's clock.
    `notify_content` is the most that a notification may show; with `notify_urgent`, urgent ones
    arrive in quiet hours too.
    """

    class Approvers(models.TextChoices):
        APPROVER = Role.APPROVER.value, _("everybody who may approve")
        MANAGER = Role.MANAGER.value, _("managers only")

    mailbox = models.OneToOneField(Mailbox, models.CASCADE, related_name="+")
    approvals_needed = models.PositiveSmallIntegerField(default=1)
    approver_role = models.CharField(
        max_length=16, choices=Approvers.choices, default=Approvers.APPROVER
    )
    self_approval = models.BooleanField(default=True)
    files_opened = models.BooleanField(default=False, db_default=False)
    action_hours = models.PositiveIntegerField(null=True, blank=True)
    approval_minutes = models.PositiveIntegerField(null=True, blank=True)
    undo_seconds = models.PositiveIntegerField(null=True, blank=True)
    allowed = models.JSONField(default=list, blank=True)
    refused = models.JSONField(default=list, blank=True)
    confirmed_domains = models.JSONField(default=list, blank=True)
    daily_cap = models.PositiveIntegerField(null=True, blank=True)
    open_days = models.CharField(max_length=7, blank=True)
    open_from = models.TimeField(null=True, blank=True)
    open_until = models.TimeField(null=True, blank=True)
    time_zone = models.CharField(max_length=64, default="UTC")
    notify_content = models.CharField(
        max_length=10, choices=Content.choices, default=Content.PREVIEW
    )
    notify_urgent = models.BooleanField(default=False)
    # Empty: all approvers are notified at once. 0: managers only at half time.
    escalation_minutes = models.PositiveIntegerField(null=True, blank=True)
    opens_at = models.DateTimeField(null=True, editable=False)
    closes_at = models.DateTimeField(null=True, editable=False)
    window_set_at = models.DateTimeField(null=True, editable=False)
    version = models.PositiveIntegerField(default=0, editable=False)

    class Meta:
        verbose_name_plural = "approval policies"
        indexes = [
            models.Index(
                fields=["closes_at"], condition=Q(closes_at__isnull=False), name="policy_closing"
            ),
            models.Index(
                fields=["window_set_at"],
                condition=Q(window_set_at__isnull=False),
                name="policy_window_set",
            ),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(approvals_needed__gte=1, approvals_needed__lte=5),
                name="policy_needs_a_person",
            ),
            models.CheckConstraint(
                condition=Q(approver_role__in=[Role.APPROVER, Role.MANAGER]),
                name="policy_known_approvers",
            ),
            models.CheckConstraint(
                condition=Q(opens_at__isnull=True, closes_at__isnull=True)
                | Q(opens_at__isnull=False, closes_at__gt=F("opens_at")),
                name="policy_window_has_both_ends",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.approvals_needed} approval(s)"

    def lets_proposer_approve(self) -> bool:
        """Return True if the proposer may approve.

        If two approvals are needed, the proposer's own is never one of them.
        """
        return self.self_approval and self.approvals_needed == 1


class Decision(models.Model):
    """The decision of one person about one revision; never changed. It counts for its round only.

    `membership` and `account_generation` name the membership and the account of the person on which
    an approval rests. `passage` is the text of the mail that a note is about. `method` says how the
    person had signed in. `seal` proves that mailhub wrote the row (`approvals.core.signatures`). It is
    empty for decisions from older versions; such a decision lets no mail leave.
    """

    class Verdict(models.TextChoices):
        APPROVED = "approved"
        REJECTED = "rejected"
        CHANGES_REQUESTED = "changes_requested"

    action = models.ForeignKey(PendingAction, models.CASCADE, related_name="decisions")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    verdict = models.CharField(max_length=20, choices=Verdict.choices)
    revision = models.PositiveIntegerField()
    approval_round = models.PositiveIntegerField()
    digest = models.CharField(max_length=64)
    note = EncryptedTextField(
        blank=True, bound_by=["action_id", "person_id", "verdict", "created_at"]
    )
    passage = EncryptedTextField(
        blank=True,
        bound_by=["action_id", "person_id", "verdict", "created_at"],
        default="",
        db_default="",
    )
    created_at = models.DateTimeField()
    method = models.CharField(max_length=60, blank=True)
    account_generation = models.PositiveIntegerField(default=0, db_default=0)
    membership = models.BigIntegerField(null=True)
    seal = models.CharField(max_length=80, blank=True)

    class Meta:
        ordering = ["created_at", "id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(verdict__in=["approved", "rejected", "changes_requested"]),
                name="decision_known_verdict",
            ),
            models.UniqueConstraint(
                fields=[
                    *("action", "person", "revision", "approval_round"),
                    *("membership", "account_generation"),
                ],
                condition=Q(verdict="approved"),
                name="decision_one_approval_a_person",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.verdict} by {self.person_id}"


class Seen(models.Model):
    """The revision of an action that a person saw last, so that later changes can be shown."""

    action = models.ForeignKey(PendingAction, models.CASCADE, related_name="+")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    revision = models.PositiveIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["action", "person"], name="seen_once")]

    def __str__(self) -> str:
        return f"{self.action_id} r{self.revision} by {self.person_id}"
