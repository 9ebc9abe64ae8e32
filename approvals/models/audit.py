"""The chain of what happened, one for each mailbox, without personal data."""

from django.db import models

from accounts.models import Mailbox


class AuditChain(models.Model):
    """The head of a mailbox's chain; its row lock puts writers in line."""

    mailbox = models.OneToOneField(Mailbox, models.PROTECT, primary_key=True, related_name="+")
    length = models.PositiveBigIntegerField(default=0)
    head = models.CharField(max_length=64, default="0" * 64)

    def __str__(self) -> str:
        return f"{self.mailbox_id}: {self.length}"


class AuditEvent(models.Model):
    """One link: `hash` covers everything else in the row, `previous` included."""

    mailbox = models.ForeignKey(Mailbox, models.PROTECT, related_name="+")
    sequence = models.PositiveBigIntegerField()
    at = models.DateTimeField()
    event = models.CharField(max_length=40)
    action_id = models.UUIDField(null=True, db_index=True)
    actor = models.CharField(max_length=60)
    data = models.JSONField(default=dict)
    previous = models.CharField(max_length=64)
    hash = models.CharField(max_length=64)

    class Meta:
        ordering = ["mailbox", "sequence"]
        constraints = [
            models.UniqueConstraint(fields=["mailbox", "sequence"], name="audit_no_gap_reuse"),
            models.UniqueConstraint(fields=["mailbox", "previous"], name="audit_no_fork"),
        ]

    def __str__(self) -> str:
        return f"{self.sequence} {self.event}"
