"""The chains of events, without personal data: one for each mailbox, one for people, one for the
server.
"""

import uuid

from django.db import models

from accounts.models import Mailbox

NO_MAILBOX = uuid.UUID(int=0)
# Of its own, so that a flood of sign-ins never holds up the chains that sending needs.
PEOPLE = uuid.UUID(int=1)


class AuditChain(models.Model):
    """The head of a chain; its row lock puts writers in line.

    Its id is the mailbox's, PEOPLE or NO_MAILBOX.
    """

    id = models.UUIDField(primary_key=True, editable=False)
    mailbox = models.OneToOneField(Mailbox, models.PROTECT, null=True, related_name="+")
    length = models.PositiveBigIntegerField(default=0)
    head = models.CharField(max_length=64, default="0" * 64)

    def __str__(self) -> str:
        return f"{self.id}: {self.length}"


class AuditEvent(models.Model):
    """One link: `hash` covers everything else in the row, `previous` included."""

    chain = models.ForeignKey(AuditChain, models.PROTECT, related_name="events")
    mailbox = models.ForeignKey(Mailbox, models.PROTECT, null=True, related_name="+")
    sequence = models.PositiveBigIntegerField()
    at = models.DateTimeField()
    event = models.CharField(max_length=40)
    action_id = models.UUIDField(null=True, db_index=True)
    actor = models.CharField(max_length=60)
    data = models.JSONField(default=dict)
    previous = models.CharField(max_length=64)
    hash = models.CharField(max_length=64)

    class Meta:
        ordering = ["chain", "sequence"]
        constraints = [
            models.UniqueConstraint(fields=["chain", "sequence"], name="audit_no_gap_reuse"),
            models.UniqueConstraint(fields=["chain", "previous"], name="audit_no_fork"),
        ]
        indexes = [models.Index(fields=["chain", "at", "id"], name="audit_newest")]

    def __str__(self) -> str:
        return f"{self.sequence} {self.event}"
