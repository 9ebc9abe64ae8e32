"""The work of the workers: attempts, and signs of life."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from approvals.models.action import PendingAction


class Attempt(models.Model):
    """One attempt to carry an action out.

    It is written before the provider is called, so that a crash leaves a trace.

    `proof` is the kind of the proof that it sent nothing; empty if nothing proves that.
    `notes` name the objects at the provider that the send uses, such as the id of a draft. They are
    those of the Preparation at the moment when the wire started. `ruled_at` is the time of a
    person's ruling that it was not sent. `account` is the fingerprint of the provider account to
    which the mailbox was connected; empty for attempts of older versions.
    """

    class Phase(models.TextChoices):
        PREPARED = "prepared"  # nothing can have been sent
        WIRE_STARTED = "wire_started"  # from here on the mail may have been sent

    class Verdict(models.TextChoices):
        ACCEPTED = "accepted"
        REFUSED = "refused"
        NOT_SENT = "not_sent"
        UNKNOWN = "unknown"

    action = models.ForeignKey(
        PendingAction, models.CASCADE, related_name="attempts", db_index=False
    )
    fence = models.PositiveIntegerField()
    phase = models.CharField(max_length=12, choices=Phase.choices, default=Phase.PREPARED)
    verdict = models.CharField(max_length=12, choices=Verdict.choices, null=True)
    code = models.CharField(max_length=60, blank=True)
    evidence = models.CharField(max_length=60, blank=True)
    reference = models.CharField(max_length=255, blank=True)
    worker = models.CharField(max_length=100)
    started_at = models.DateTimeField()
    wire_started_at = models.DateTimeField(null=True)
    proof = models.CharField(max_length=12, default="", db_default="")
    notes = models.JSONField(null=True)
    account = models.CharField(max_length=64, default="", db_default="")
    ruled_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["fence"]
        constraints = [
            models.CheckConstraint(
                condition=Q(phase__in=["prepared", "wire_started"]), name="attempt_known_phase"
            ),
            models.CheckConstraint(
                condition=Q(verdict__isnull=True)
                | Q(verdict__in=["accepted", "refused", "not_sent", "unknown"]),
                name="attempt_known_verdict",
            ),
            models.CheckConstraint(
                condition=Q(verdict__isnull=True, ended_at__isnull=True)
                | Q(verdict__isnull=False, ended_at__isnull=False),
                name="attempt_ended_has_verdict",
            ),
            models.CheckConstraint(
                condition=~Q(verdict="accepted") | Q(phase="wire_started"),
                name="attempt_accepted_was_on_wire",
            ),
            models.UniqueConstraint(fields=["action", "fence"], name="attempt_one_a_fence"),
            models.UniqueConstraint(
                fields=["action"], condition=Q(verdict=None), name="attempt_one_open"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.action_id} #{self.fence} {self.phase} {self.verdict or 'open'}"


class Preparation(models.Model):
    """The objects that a kind left at the provider for an unsent mail: ids and hashes.

    It holds no content, and belongs to the revision with this digest: another one needs a new
    preparation. So does another `account`, as in an attempt. `gone_at` is when the objects were found
    gone: their owner may have carried the effect out.
    """

    action = models.OneToOneField(
        PendingAction, models.CASCADE, primary_key=True, related_name="preparation"
    )
    digest = models.CharField(max_length=64)
    notes = models.JSONField()
    account = models.CharField(max_length=64, default="", db_default="")
    tidy_at = models.DateTimeField(auto_now_add=True)
    gone_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return str(self.pk)


class Heartbeat(models.Model):
    """The time at which a worker was last seen."""

    worker = models.CharField(primary_key=True, max_length=100)
    seen_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.worker


class DeadLetter(models.Model):
    """An action that a task of the sweeper could not process: set aside, and shown to operators."""

    action = models.ForeignKey(PendingAction, models.CASCADE, related_name="+")
    chore = models.CharField(max_length=30)
    error = models.CharField(max_length=100)
    failures = models.PositiveIntegerField(default=1)
    first_at = models.DateTimeField(db_default=Now())
    last_at = models.DateTimeField(db_default=Now())
    again_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["action", "chore"], name="dead_letter_once")]

    def __str__(self) -> str:
        return f"{self.chore}: {self.action_id}"
