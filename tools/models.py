"""The rows of the tools: short names of messages, drafts as last seen, uploads, download links,
commands that ran.
"""

import hashlib
import secrets
import uuid
from datetime import timedelta
from typing import Any, Self

from django.conf import settings
from django.db import models
from django.db.models.functions import Now
from django.utils import timezone

from accounts.infra.fields import EncryptedBinaryField, EncryptedTextField
from accounts.models import ApiToken, Mailbox, digest_of

UPLOAD_LIFETIME = timedelta(hours=24)
LINK_LIFETIME = timedelta(minutes=10)


class Draft(models.Model):
    """A draft that was written through mailhub. The provider holds it; this row follows it.

    `sha256` is the hash of the bytes that mailhub wrote last: other bytes mean that a person has
    changed the draft. `surface` names the place where it was written (rest, mcp, agent, web,
    command); it is empty in rows of older versions.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    mailbox = models.ForeignKey(Mailbox, models.CASCADE, related_name="+")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    author_name = models.CharField(max_length=100, blank=True)
    surface = models.CharField(max_length=10, blank=True, default="")
    provider_id = models.CharField(max_length=1000)
    message_id = models.CharField(max_length=255)
    sha256 = models.CharField(max_length=64)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["mailbox", "message_id"], name="draft_once")]

    def __str__(self) -> str:
        return str(self.id)


class DraftAuthor(models.Model):
    """A person whose words are in a draft that mailhub wrote.

    The row is written before the draft, because the answer to that may be lost. It names the
    Message-ID, because some providers give a draft another id whenever a mail program saves it.
    """

    mailbox = models.ForeignKey(Mailbox, models.CASCADE, related_name="+")
    message_id = models.CharField(max_length=255)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["mailbox", "message_id", "person"], name="draft_author_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.person_id} wrote {self.message_id}"


class DraftInTransit(models.Model):
    """An action that handed this draft over to be sent, if nobody has removed the draft since.

    It may be listed for ever, if its removal fails. Only the hash of its id is stored. Nobody
    deletes the row after a proof that nothing left: the attempts of the action say so themselves.
    Rows of older versions name no action.
    """

    mailbox = models.ForeignKey(Mailbox, models.CASCADE, related_name="+")
    digest = models.CharField(max_length=64)
    action_id = models.UUIDField(null=True)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["mailbox", "digest", "action_id"], name="draft_in_transit_once"
            )
        ]

    def __str__(self) -> str:
        return self.digest[:8]

    @classmethod
    def of(cls, mailbox: Mailbox, draft_id: str) -> "models.QuerySet[DraftInTransit]":
        """Return the rows of this draft."""
        return DraftInTransit.objects.filter(mailbox=mailbox, digest=digest_of(draft_id))

    @classmethod
    def note(cls, mailbox: Mailbox, draft_id: str, action_id: uuid.UUID) -> None:
        DraftInTransit.objects.get_or_create(
            mailbox=mailbox, digest=digest_of(draft_id), action_id=action_id
        )


class Acquaintance(models.Model):
    """An address that this mailbox has written to, found in its Sent or sent by us.

    Only its hash and its domain are stored. `answered`: mail from it answers a mail in Sent.
    """

    mailbox = models.ForeignKey(Mailbox, models.CASCADE, related_name="+")
    digest = models.CharField(max_length=64)
    domain = models.CharField(max_length=255)
    since = models.DateTimeField(db_default=Now())
    answered = models.BooleanField(default=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["mailbox", "digest"], name="acquaintance_once")
        ]
        indexes = [models.Index(fields=["mailbox", "domain"], name="acquaintance_domains")]

    def __str__(self) -> str:
        return self.digest[:8]


class MessageHandle(models.Model):
    """The short name of a long id of a provider. See `tools.providers.handles`."""

    mailbox = models.ForeignKey(Mailbox, models.CASCADE, related_name="+")
    handle = models.CharField(max_length=20)
    named = models.TextField()
    used_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["mailbox", "handle"], name="handle_once")]
        indexes = [models.Index(fields=["used_at"], name="handle_age")]

    def __str__(self) -> str:
        return self.handle


class Upload(models.Model):
    """An uploaded attachment that is not used yet; its handle is its id."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    owner_name = models.CharField(max_length=100, blank=True)
    name = models.CharField(max_length=255)
    type = models.CharField(max_length=255)
    size = models.PositiveIntegerField()
    sha256 = models.CharField(max_length=64)
    content = EncryptedBinaryField(bound_by=["id"])
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return str(self.id)

    @classmethod
    def keep(
        cls, *, owner: models.Model, owner_name: str, name: str, type: str, content: bytes
    ) -> Self:
        return cls.objects.create(
            owner=owner,
            owner_name=owner_name,
            name=name,
            type=type,
            size=len(content),
            content=content,
            sha256=hashlib.sha256(content).hexdigest(),
            expires_at=timezone.now() + UPLOAD_LIFETIME,
        )


class DownloadLink(models.Model):
    """A single-use link to one attachment, which is fetched when the link is used, with the rights
    that its program still has: a token, or the chat of the person.
    """

    digest = models.CharField(max_length=64, unique=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, null=True, related_name="+")
    token = models.ForeignKey(ApiToken, models.CASCADE, null=True, related_name="+")
    mailbox = models.ForeignKey(Mailbox, models.CASCADE, related_name="+")
    message_id = models.CharField(max_length=1000)
    attachment_id = models.CharField(max_length=500)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"link {self.pk}"

    @classmethod
    def issue(cls, **fields: Any) -> tuple[Self, str]:
        """Create a link; return the row and its secret part, which is not stored."""
        secret = secrets.token_urlsafe(32)
        expires_at = timezone.now() + LINK_LIFETIME
        return cls.objects.create(digest=digest_of(secret), expires_at=expires_at, **fields), secret

    @classmethod
    def redeem(cls, secret: str) -> Self | None:
        """Use the link up and return it, or None; only one of two simultaneous uses gets it."""
        links = cls.objects.filter(
            digest=digest_of(secret), used_at=None, expires_at__gt=timezone.now()
        )
        link = links.select_related("mailbox").first()
        return link if link is not None and links.update(used_at=timezone.now()) == 1 else None

    def give_back(self) -> None:
        """Let the link be used again, because its use gave nothing."""
        DownloadLink.objects.filter(pk=self.pk).update(used_at=None)


class CommandRun(models.Model):
    """One run of a command in another system: the line that really ran.

    `output` is the shortened answer to an approved command, which the program may ask for later; of
    a read it is empty. Both are encrypted. A read has a user, an approved command has an action. The
    row belongs to no conversation.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    at = models.DateTimeField(auto_now_add=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+", null=True)
    caller_name = models.CharField(max_length=100, blank=True)
    surface = models.CharField(max_length=10)
    action_id = models.UUIDField(null=True)
    line = EncryptedTextField(bound_by=["id"])
    output = EncryptedTextField(blank=True, bound_by=["id"])
    outcome = models.CharField(max_length=32)
    duration_ms = models.PositiveIntegerField()

    class Meta:
        ordering = ["-at"]
        indexes = [
            models.Index(fields=["user", "-at"], name="command_run_newest"),
            models.Index(fields=["at"], name="command_run_age"),
            models.Index(fields=["action_id"], name="command_run_of_action"),
        ]

    def __str__(self) -> str:
        return f"{self.outcome} {self.pk}"
