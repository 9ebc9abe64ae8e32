"""Webhooks: the addresses, how far each has been notified, and the result of each delivery."""

import uuid

from django.db import models
from django.db.models.functions import Now

from accounts.infra.fields import EncryptedTextField
from accounts.models import ApiToken, Mailbox
from approvals.models.action import PendingAction
from approvals.models.audit import AuditEvent


class Webhook(models.Model):
    """An address that belongs to a token.

    It gets the events of all actions in the mailboxes that the token may see at that moment.
    `secret` is encrypted, and so is `url`, whose path may be a secret too. `ended_at` is
    the time at which the receiver answered that it is gone for good (410). Until `busy_until` a
    worker delivers to it, so that messages come one after the other. With `callbacks` it has no
    `url`: it gets the events of the token's own proposals, at the callback address of each.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    token = models.ForeignKey(ApiToken, models.CASCADE, related_name="+")
    url = EncryptedTextField(blank=True, bound_by=["id"])
    callbacks = models.BooleanField(default=False)
    events = models.JSONField()
    secret = models.TextField(editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True)
    busy_until = models.DateTimeField(null=True)

    class Meta:
        ordering = ["created_at", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["token"],
                condition=models.Q(callbacks=True),
                name="webhook_of_callbacks_once",
            )
        ]

    def __str__(self) -> str:
        return str(self.id)

    @classmethod
    def find_active(cls) -> models.QuerySet["Webhook"]:
        """Return the webhooks that have not ended and whose token is still valid."""
        return cls.objects.filter(
            models.Q(token__expires_at=None) | models.Q(token__expires_at__gt=Now()),
            ended_at=None,
            token__revoked_at=None,
            token__user__is_active=True,
        )


class WebhookCursor(models.Model):
    """The last event of a chain that a webhook has seen: the chain is the outbox.

    Without a mailbox it is the chain of people.
    """

    webhook = models.ForeignKey(Webhook, models.CASCADE, related_name="cursors")
    mailbox = models.ForeignKey(Mailbox, models.CASCADE, null=True, related_name="+")
    sequence = models.PositiveBigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["webhook", "mailbox"], name="webhook_cursor_once"),
            models.UniqueConstraint(
                fields=["webhook"],
                condition=models.Q(mailbox=None),
                name="webhook_cursor_of_people_once",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.webhook_id} at {self.sequence}"


class WebhookDelivery(models.Model):
    """One event for one webhook, of an action or of security; `link` is its event in the audit.

    It waits while `next_at` is set, is done with `delivered_at`, and given up without both.
    `answer` is the last status, or a word for why there was no answer.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    webhook = models.ForeignKey(Webhook, models.CASCADE, related_name="deliveries")
    event = models.CharField(max_length=60)
    action = models.ForeignKey(PendingAction, models.CASCADE, null=True, related_name="+")
    link = models.ForeignKey(AuditEvent, models.PROTECT, null=True, related_name="+")
    at = models.DateTimeField()
    tries = models.PositiveSmallIntegerField(default=0)
    next_at = models.DateTimeField(null=True)
    tried_at = models.DateTimeField(null=True)
    delivered_at = models.DateTimeField(null=True)
    answer = models.CharField(max_length=20, blank=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["next_at"],
                condition=models.Q(next_at__isnull=False),
                name="webhook_delivery_due",
            ),
            models.Index(fields=["webhook", "-at", "-id"], name="webhook_delivery_newest"),
            models.Index(fields=["at"], name="webhook_delivery_old"),
        ]

    def __str__(self) -> str:
        return f"{self.event} for {self.webhook_id}"
