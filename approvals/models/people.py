"""What people decide, and what a mailbox asks of them."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from accounts.models import Mailbox
from approvals.models.action import PendingAction


class ApprovalPolicy(models.Model):
    """How many people, whether the proposer may be one of them, and how long a yes is good for (from when the mail may
    leave; as long as the action itself when not set). Without a row the defaults below hold."""

    mailbox = models.OneToOneField(Mailbox, models.CASCADE, related_name="+")
    approvals_needed = models.PositiveSmallIntegerField(default=1)
    self_approval = models.BooleanField(default=True)
    approval_minutes = models.PositiveIntegerField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "approval policies"
        constraints = [
            models.CheckConstraint(
                condition=Q(approvals_needed__gte=1, approvals_needed__lte=5), name="policy_needs_a_person"
            )
        ]

    def __str__(self) -> str:
        return f"{self.approvals_needed} approval(s)"

    def lets_proposer_approve(self) -> bool:
        """With two approvals asked for, the proposer's own is never one of them."""
        return self.self_approval and self.approvals_needed == 1


class Decision(models.Model):
    """What one person said about one revision; never changed. It counts for its round only."""

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
    note = models.TextField(blank=True)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["created_at", "id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(verdict__in=["approved", "rejected", "changes_requested"]), name="decision_known_verdict"
            ),
            models.UniqueConstraint(
                fields=["action", "person", "revision", "approval_round"],
                condition=Q(verdict="approved"),
                name="decision_one_approval_a_person",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.verdict} by {self.person_id}"


class Seen(models.Model):
    """Which revision of an action a person had before them last, so that what has changed since can be shown."""

    action = models.ForeignKey(PendingAction, models.CASCADE, related_name="+")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    revision = models.PositiveIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["action", "person"], name="seen_once")]

    def __str__(self) -> str:
        return f"{self.action_id} r{self.revision} by {self.person_id}"
