"""The tokens of programs, their requests, and their use of quotas."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.db import models
from django.db.models import F, Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from accounts.models.mailboxes import Mailbox
from accounts.models.people import Role, User, digest_of

SCOPES = {
    "mail:read": _("read and search mail"),
    "mail:draft": _("write drafts"),
    "mail:propose": _("propose mail that a person must approve"),
    "agent:chat": _("ask the chat of this server, with the tools that the token may use"),
    "webhooks:manage": _("manage webhooks that report what happens to actions"),
    "m365:run": _("run commands in Microsoft 365 with this server's sign-in"),
}


# The least role on a mailbox with which a scope is of any use; the tools check the role on each call.
SCOPE_ROLES = {
    "mail:read": Role.VIEWER,
    "mail:draft": Role.PROPOSER,
    "mail:propose": Role.PROPOSER,
}
# A program without a token of its own asks for these.
USUAL_SCOPES = tuple(SCOPE_ROLES)
# They reach beyond a token's mailboxes, so only staff can grant and use them.
STAFF_SCOPES = frozenset({"m365:run"})
# A program is found by its name, and this is the name of the chat.
CHAT_NAME = "chat"


def allowed_scopes(person: User, scopes: Iterable[str]) -> frozenset[str]:
    """Return these scopes without the ones for staff, unless the person is staff now."""
    return frozenset(scopes) - (frozenset() if person.is_staff else STAFF_SCOPES)


class Tokens(models.QuerySet["ApiToken"]):
    def update(self, **changes: Any) -> int:
        if "revoked_at" in changes or "scopes" in changes:
            changes["generation"] = F("generation") + 1
        return super().update(**changes)


class ApiToken(models.Model):
    """The rights of a program in a person's name.

    A program holds it in one of two ways. A token that a person made has a secret, which is shown
    once and stored as its SHA-256. Each sign-in of a program by OAuth has a `client`; its access
    tokens are rows of the library (`accounts.oauth`), and nobody knows a secret for `digest`. It is
    `unproven` if a device code began it: nothing shows that it is really a sign-in of this program.

    `generation` counts how often rights were taken away from it. The page of a waiting proposal says
    so.
    """

    PREFIX = "mh_"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(User, models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=100)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    hint = models.CharField(max_length=12, editable=False)
    scopes = models.JSONField(default=list)
    mailboxes = models.ManyToManyField(Mailbox, related_name="tokens")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    generation = models.PositiveIntegerField(default=0, db_default=0, editable=False)
    last_used_at = models.DateTimeField(null=True, blank=True)
    rotated_at = models.DateTimeField(null=True, blank=True)
    client = models.ForeignKey(
        "allauth_idp_oidc.Client",
        models.PROTECT,
        null=True,
        blank=True,
        editable=False,
        related_name="grants",
    )
    unproven = models.BooleanField(default=False, editable=False)

    objects = Tokens.as_manager()

    class Meta:
        constraints = [
            # Actions, keys and chats of a program are found by its name, so nothing takes the name
            # of a revoked token.
            models.UniqueConstraint(fields=["user", "name"], name="token_name_once_for_a_user"),
            models.CheckConstraint(condition=~Q(name=CHAT_NAME), name="token_is_not_named_chat"),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.hint}…)" if self.hint else self.name

    @classmethod
    def issue(
        cls,
        *,
        user: User,
        name: str,
        scopes: list[str],
        mailboxes: list[Mailbox],
        lifetime: timedelta | None = None,
    ) -> tuple[ApiToken, str]:
        """Make a token; return the row and the secret, which only this call knows."""
        secret = cls.PREFIX + secrets.token_urlsafe(32)
        token = cls.objects.create(
            user=user,
            name=name,
            scopes=sorted(set(scopes)),
            digest=digest_of(secret),
            hint=secret[:8],
            expires_at=timezone.now() + lifetime if lifetime else None,
        )
        token.mailboxes.set(mailboxes)
        return token, secret

    def rotate(self) -> str:
        """Replace the secret and return the new one, valid for the same time; the old one ends now.

        The row and its name stay, and with them the proposer. So waiting actions and idempotency
        keys are not affected.
        """
        secret = self.PREFIX + secrets.token_urlsafe(32)
        now = timezone.now()
        if self.expires_at is not None:
            self.expires_at = now + (self.expires_at - (self.rotated_at or self.created_at))
        self.digest, self.hint, self.rotated_at = digest_of(secret), secret[:8], now
        self.save(update_fields=["digest", "hint", "rotated_at", "expires_at"])
        return secret

    @property
    def is_expired(self) -> bool:
        return self.expires_at is not None and self.expires_at <= timezone.now()


class RequestRecord(models.Model):
    """One call of a tool by a token: the tool and the outcome, never the content."""

    at = models.DateTimeField(default=timezone.now)
    token = models.ForeignKey(ApiToken, models.CASCADE, related_name="requests")
    request_id = models.CharField(max_length=64, blank=True)
    surface = models.CharField(max_length=8)
    tool = models.CharField(max_length=40)
    outcome = models.CharField(max_length=24)
    action_id = models.UUIDField(null=True)
    replayed = models.BooleanField(default=False)
    duration_ms = models.PositiveIntegerField()

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["token", "-id"], name="request_of_token"),
            models.Index(fields=["at"], name="request_to_forget"),
        ]

    def __str__(self) -> str:
        return f"{self.tool} {self.outcome}"


class QuotaUse(models.Model):
    """The used amount of one subject's quota; see `accounts.access.quotas`."""

    key = models.CharField(max_length=150, unique=True)
    used = models.BigIntegerField()
    ends_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["ends_at"], name="quota_to_forget")]

    def __str__(self) -> str:
        return self.key
