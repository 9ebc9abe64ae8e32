"""Calls with an idempotency key that are no proposals: each key leads to one result for a day."""

import uuid
from datetime import timedelta

from django.conf import settings
from django.db import models

from accounts.infra.fields import EncryptedBinaryField

KEPT = timedelta(days=1)


class KeyedCall(models.Model):
    """One key of a caller for one tool and mailbox, with the answer as soon as there is one.

    `place` is the id of the mailbox, or empty. An empty `answer` means that the call runs, or that
    its outcome is not known.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    caller_name = models.CharField(max_length=100, blank=True)
    tool = models.CharField(max_length=60)
    place = models.CharField(max_length=36, blank=True)
    key = models.CharField(max_length=255)
    request_digest = models.CharField(max_length=64)
    answer = EncryptedBinaryField(bound_by=["id"], default=b"")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user", "caller_name", "tool", "place", "key"], name="keyed_call_once"
            )
        ]
        indexes = [models.Index(fields=["created_at"], name="keyed_calls_to_forget")]

    def __str__(self) -> str:
        return f"{self.tool} {self.id}"
