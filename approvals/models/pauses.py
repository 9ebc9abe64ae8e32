"""Reasons to hold approved mail back. The claim's UPDATE reads both."""

import uuid

from django.db import models
from django.db.models.functions import Coalesce

from accounts.models import Mailbox


class Pause(models.Model):
    """The kill switch for one mailbox, or for all mailboxes if `mailbox` is empty.

    A person sets it. mailhub itself sets another one, with a `reason`, if the database does not know
    which mail was sent. Only the command `after_restore` ends a pause that has a reason.
    """

    mailbox = models.ForeignKey(Mailbox, models.CASCADE, null=True, related_name="+")
    since = models.DateTimeField()
    reason = models.CharField(max_length=20, blank=True, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                Coalesce("mailbox", models.Value(uuid.UUID(int=0), models.UUIDField())),
                "reason",
                name="pause_once_a_reason",
            )
        ]

    def __str__(self) -> str:
        return f"paused: {self.mailbox_id or 'everything'}"


class Rest(models.Model):
    """A cool-down that the provider asked for (429, 421, Retry-After): no mail leaves before."""

    mailbox = models.OneToOneField(Mailbox, models.CASCADE, primary_key=True, related_name="+")
    until = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.mailbox_id} rests until {self.until:%c}"


class Instance(models.Model):
    """The one row that names the generation of this database; each restore begins another one.

    `journal` is the identity of its send journal; it is empty before the first comparison.
    """

    identity = models.UUIDField()
    journal = models.CharField(max_length=64, blank=True, default="", db_default="")

    def __str__(self) -> str:
        return str(self.identity)
