"""The tables of the chat: threads of one person, messages, calls of tools, and checkpoints."""

import uuid
from datetime import timedelta

from django.conf import settings
from django.db import models
from django.utils import timezone

from accounts.infra.fields import EncryptedBinaryField, EncryptedTextField
from accounts.models import Mailbox

TITLE_CHARS = 80


class Thread(models.Model):
    """A conversation.

    `name` is the client's own id for it; `caller_name` is the token's name, empty for the person.

    A token does not share the person's threads, because they may hold content of mailboxes that
    the token may not read.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    caller_name = models.CharField(max_length=100, blank=True)
    name = models.CharField(max_length=100)
    title = EncryptedTextField(blank=True, bound_by=["id"])
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)
    busy_until = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "caller_name", "name"], name="thread_once")
        ]
        indexes = [
            models.Index(fields=["user", "caller_name", "-updated_at"], name="thread_newest"),
            models.Index(fields=["updated_at"], name="thread_age"),
        ]

    def __str__(self) -> str:
        return str(self.id)


class Message(models.Model):
    """One message, for the page; the model's own memory is the checkpoint."""

    class Author(models.TextChoices):
        PERSON = "person"
        AGENT = "agent"
        TOOL = "tool"

    thread = models.ForeignKey(Thread, models.CASCADE, related_name="messages")
    author = models.CharField(max_length=8, choices=Author.choices)
    text = EncryptedTextField(blank=True, bound_by=["thread_id", "author", "created_at"])
    tool = models.CharField(max_length=64, blank=True)
    action_id = models.UUIDField(null=True)
    failed = models.BooleanField(default=False)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(author__in=["person", "agent", "tool"]),
                name="message_known_author",
            )
        ]

    def __str__(self) -> str:
        return f"{self.author} {self.pk}"


class ToolCall(models.Model):
    """One call of a tool, without its input; of the output only a hash of the first 4 KB is kept.

    It outlives its conversation, for the managers of the mailbox that it was about. `caller_name` is
    the token's name, empty for the person.
    """

    thread = models.ForeignKey(Thread, models.SET_NULL, related_name="tool_calls", null=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+", null=True)
    caller_name = models.CharField(max_length=100, blank=True)
    mailbox = models.ForeignKey(Mailbox, models.CASCADE, related_name="+", null=True)
    action_id = models.UUIDField(null=True)
    at = models.DateTimeField(default=timezone.now)
    tool = models.CharField(max_length=64)
    status = models.CharField(max_length=32)
    sha256 = models.CharField(max_length=64)
    duration_ms = models.PositiveIntegerField()
    mode = models.CharField(max_length=16)

    class Meta:
        ordering = ["id"]
        indexes = [
            models.Index(fields=["at"], name="tool_call_age"),
            models.Index(fields=["mailbox", "-at"], name="tool_call_newest"),
        ]

    def __str__(self) -> str:
        return f"{self.tool} {self.status}"


class Checkpoint(models.Model):
    """The model's memory of a thread, encrypted and bound to thread and checkpoint id."""

    thread = models.OneToOneField(
        Thread, models.CASCADE, primary_key=True, related_name="checkpoint"
    )
    checkpoint_id = models.CharField(max_length=64)
    type = models.CharField(max_length=32)
    content = EncryptedBinaryField(bound_by=["thread_id", "checkpoint_id"], strict=True)

    def __str__(self) -> str:
        return f"checkpoint of {self.thread_id}"


def purge() -> None:
    """Delete threads and tool calls that are older than MAILHUB_RETENTION_DAYS.

    Calls stay as long as the memory of their thread: they say whether its caller may still know it.
    """
    before = timezone.now() - timedelta(days=settings.MAILHUB_RETENTION_DAYS)
    Thread.objects.filter(updated_at__lt=before).delete()
    ToolCall.objects.filter(at__lt=before, thread__checkpoint=None).delete()
