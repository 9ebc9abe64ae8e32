"""What holds mail back although it is approved. Both are read inside the claim's UPDATE."""

import uuid

from django.db import models
from django.db.models.functions import Coalesce

from accounts.models import Mailbox


class Pause(models.Model):
    """The kill switch, set by a person: for one mailbox, or for everything where there is none."""

    mailbox = models.ForeignKey(Mailbox, models.CASCADE, null=True, related_name="+")
    since = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                Coalesce("mailbox", models.Value(uuid.UUID(int=0), models.UUIDField())), name="pause_once_a_mailbox"
            )
        ]

    def __str__(self) -> str:
        return f"paused: {self.mailbox_id or 'everything'}"


class Rest(models.Model):
    """The provider asked for a rest (429, 421, Retry-After): nothing leaves this mailbox until then."""

    mailbox = models.OneToOneField(Mailbox, models.CASCADE, primary_key=True, related_name="+")
    until = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.mailbox_id} rests until {self.until:%c}"
