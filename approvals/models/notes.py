"""The words of a proposer about an action, beside its content: reason, metadata, callback address."""

from django.db import models

from accounts.infra.fields import EncryptedTextField
from approvals.models.action import PendingAction


class ProposerNote(models.Model):
    """The claim of the proposer about an action; written with the proposal and never changed.

    The digest of the content does not cover it, because none of it leaves. The audit event of the
    proposal holds a keyed hash of it. `reason` and `callback_url` are encrypted at rest.
    """

    action = models.OneToOneField(
        PendingAction, models.CASCADE, primary_key=True, related_name="proposer_note"
    )
    reason = EncryptedTextField(blank=True, bound_by=["action_id"])
    callback_url = EncryptedTextField(blank=True, bound_by=["action_id"])

    def __str__(self) -> str:
        return str(self.pk)


class MetadataPair(models.Model):
    """A name and a value with which a program finds its action again. They are not encrypted."""

    action = models.ForeignKey(PendingAction, models.CASCADE, related_name="metadata")
    name = models.CharField(max_length=40)
    value = models.CharField(max_length=200)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["action", "name"], name="metadata_name_once")
        ]
        indexes = [models.Index(fields=["name", "value", "action"], name="metadata_by_value")]

    def __str__(self) -> str:
        return f"{self.action_id} {self.name}"
