"""The audit chains, without personal data: one for each mailbox, for people, and for the server. And
the keys that this database was written with.
"""

import uuid

from django.db import models

from accounts.models import Mailbox

NO_MAILBOX = uuid.UUID(int=0)
# People have their own chain, so a flood of sign-ins never delays the chains that sending needs.
PEOPLE = uuid.UUID(int=1)


class AuditChain(models.Model):
    """The head of a chain; its row lock makes writers wait for each other.

    Its id is the id of the mailbox, PEOPLE or NO_MAILBOX.
    """

    id = models.UUIDField(primary_key=True, editable=False)
    mailbox = models.OneToOneField(Mailbox, models.PROTECT, null=True, related_name="+")
    length = models.PositiveBigIntegerField(default=0)
    head = models.CharField(max_length=64, default="0" * 64)

    def __str__(self) -> str:
        return f"{self.id}: {self.length}"


class AuditEvent(models.Model):
    """One event of a chain: `hash` covers all other columns of the row, `previous` included."""

    # The events of a mailbox are looked up by their chain, with which several indexes begin.
    chain = models.ForeignKey(AuditChain, models.PROTECT, related_name="events", db_index=False)
    mailbox = models.ForeignKey(
        Mailbox, models.PROTECT, null=True, related_name="+", db_index=False
    )
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


class KeyCheck(models.Model):
    """A value that only the right key makes: it shows that a process has the keys of this database.

    `name` is `encryption` for MAILHUB_ENCRYPTION_KEYS and `secret` for SECRET_KEY.
    """

    name = models.CharField(primary_key=True, max_length=20)
    value = models.CharField(max_length=80)

    def __str__(self) -> str:
        return self.name
