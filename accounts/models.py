"""People, mailboxes, who may do what with which mailbox, and the tokens of programs."""

from __future__ import annotations

import hashlib
import secrets
import uuid
from datetime import timedelta
from typing import Any, ClassVar

from django.contrib.auth.models import AbstractUser, BaseUserManager
from django.db import models
from django.db.models.functions import Lower, Now
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

SCOPES = {
    "mail:read": _("read and search mail"),
    "mail:draft": _("write drafts"),
    "mail:propose": _("propose mail that a person must approve"),
    "webhooks:manage": _("have webhooks told what becomes of actions"),
    "m365:run": _("run commands in Microsoft 365 with this server's sign-in"),
}
# They reach beyond the mailboxes of a token, so on the page only who runs this server gives them.
STAFF_SCOPES = frozenset({"m365:run"})


class UserManager(BaseUserManager["User"]):
    def create_user(self, email: str, password: str | None = None, **fields: Any) -> User:
        user = self.model(email=email.strip().lower(), **fields)
        user.set_password(password)  # None makes an unusable password: sign-in by link alone
        user.save()
        return user

    def create_superuser(self, email: str, password: str | None = None, **fields: Any) -> User:
        return self.create_user(email, password, is_staff=True, is_superuser=True, **fields)

    def get_by_natural_key(self, username: str | None) -> User:
        return self.get(email=(username or "").strip().lower())


class User(AbstractUser):
    """A person; the e-mail address, in lower case, is the login."""

    username = None  # type: ignore[assignment]
    email = models.EmailField(_("e-mail address"), unique=True)
    # When a person showed that they read mail at this address, or an operator vouched for it by a
    # command.
    address_proven_at = models.DateTimeField(_("address proven at"), null=True, editable=False)

    USERNAME_FIELD = "email"
    REQUIRED_FIELDS: ClassVar[list[str]] = []
    objects: ClassVar[UserManager] = UserManager()  # type: ignore[assignment]

    class Meta(AbstractUser.Meta):
        constraints = [models.UniqueConstraint(Lower("email"), name="user_email_any_case")]

    def __str__(self) -> str:
        return self.get_full_name() or self.email

    @property
    def sees_audit(self) -> bool:
        """Whether there is an audit for them to see: who manages a mailbox, or runs this server."""
        return self.is_staff or self.memberships.filter(role=Role.MANAGER).exists()


class Role(models.TextChoices):
    """Each role may do what the ones before it may."""

    VIEWER = "viewer", _("may look")
    PROPOSER = "proposer", _("may propose")
    APPROVER = "approver", _("may approve")
    MANAGER = "manager", _("may manage")

    def covers(self, needed: Role) -> bool:
        order = list(Role)
        return order.index(self) >= order.index(needed)

    @classmethod
    def at_least(cls, needed: Role) -> list[Role]:
        return [role for role in cls if role.covers(needed)]


class Mailbox(models.Model):
    """A connected mailbox.

    `credentials` is a record of `accounts.infra.credentials`, bound to this row.
    """

    class Provider(models.TextChoices):
        IMAP = "imap", "IMAP"
        GMAIL = "gmail", "Gmail"
        MICROSOFT = "microsoft", "Microsoft 365"

    class Status(models.TextChoices):
        ACTIVE = "active", _("works")
        NEEDS_REAUTH = "needs_reauth", _("must be reconnected")
        ERROR = "error", _("cannot be reached")
        PAUSED = "paused", _("paused")
        DISCONNECTED = "disconnected", _("disconnected")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    address = models.EmailField(max_length=254)
    name = models.CharField(max_length=255, blank=True)
    provider = models.CharField(max_length=16, choices=Provider.choices)
    status = models.CharField(max_length=16, choices=Status.choices, default=Status.ACTIVE)
    credentials = models.BinaryField(editable=False)
    credentials_version = models.PositiveIntegerField(default=1)
    scopes = models.JSONField(default=list)
    created_at = models.DateTimeField(auto_now_add=True)
    checked_at = models.DateTimeField(null=True)
    members = models.ManyToManyField(User, through="Membership", related_name="mailboxes")

    class Meta:
        verbose_name_plural = "mailboxes"
        ordering = ["address"]
        constraints = [
            models.UniqueConstraint(Lower("address"), name="mailbox_address_once"),
            models.CheckConstraint(
                condition=models.Q(
                    status__in=["active", "needs_reauth", "error", "paused", "disconnected"]
                ),
                name="mailbox_known_status",
            ),
        ]

    def __str__(self) -> str:
        return self.address

    @property
    def domain(self) -> str:
        return self.address.rpartition("@")[2].lower()


class TokenRefresh(models.Model):
    """Who refreshes a mailbox's access token, and how the last try ended.

    See `accounts.connect.refreshing`.

    `number` counts the refreshes that were begun, `kept` is the one whose tokens are stored.
    """

    mailbox = models.OneToOneField(Mailbox, models.CASCADE, primary_key=True, related_name="+")
    number = models.PositiveIntegerField(default=0)
    kept = models.PositiveIntegerField(default=0)
    lease_until = models.DateTimeField(null=True)
    try_again_at = models.DateTimeField(null=True)
    grant_ended = models.BooleanField(default=False)

    def __str__(self) -> str:
        return f"{self.mailbox_id} #{self.number}"


class Membership(models.Model):
    mailbox = models.ForeignKey(Mailbox, models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=16, choices=Role.choices)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["mailbox", "user"], name="membership_once"),
            models.CheckConstraint(
                condition=models.Q(role__in=Role.values), name="membership_known_role"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user_id} {self.role} {self.mailbox_id}"


def digest_of(secret: str) -> str:
    """The stored form of a random secret. 256 random bits need no slow hash: there is nothing to
    guess.
    """
    return hashlib.sha256(secret.encode()).hexdigest()


class ApiToken(models.Model):
    """A program's key: shown once, stored as its SHA-256."""

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
    last_used_at = models.DateTimeField(null=True, blank=True)
    rotated_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user", "name"],
                condition=models.Q(revoked_at=None),
                name="token_name_once_for_a_user",
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.hint}…)"

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
        """Make a token; returns the row and the secret, which is known only now."""
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
        """Give it a new secret, valid as long again; the old one ends now.

        The row and its name stay, and with them the proposer: waiting actions and idempotency keys
        are untouched. Returns the secret.
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


class SignInLink(models.Model):
    """A one-time way in; its GET only shows a button."""

    user = models.ForeignKey(User, models.CASCADE, related_name="sign_in_links")
    digest = models.CharField(max_length=64, unique=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"link {self.pk} for user {self.user_id}"

    @classmethod
    def issue(cls, *, user: User, lifetime: timedelta) -> str:
        """Make a link for a person; returns its secret part, which is known only now."""
        secret = secrets.token_urlsafe(32)
        cls.objects.create(
            user=user, digest=digest_of(secret), expires_at=timezone.now() + lifetime
        )
        return secret

    @classmethod
    def usable(cls, secret: str) -> models.QuerySet[SignInLink]:
        return cls.objects.filter(
            digest=digest_of(secret),
            used_at=None,
            expires_at__gt=timezone.now(),
            user__is_active=True,
        )

    @classmethod
    def redeem(cls, secret: str) -> User | None:
        """Use the link up; only one of two simultaneous uses gets the person."""
        links = cls.usable(secret)
        link = links.select_related("user").first()
        if link is None or links.update(used_at=timezone.now()) != 1:
            return None
        return link.user


class Invitation(models.Model):
    """An offer to one person to join a mailbox; used once, and only by who has its secret."""

    mailbox = models.ForeignKey(Mailbox, models.CASCADE, related_name="invitations")
    email = models.EmailField(max_length=254)
    role = models.CharField(max_length=16, choices=Role.choices)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    invited_by = models.ForeignKey(User, models.CASCADE, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["created_at"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(role__in=Role.values), name="invitation_known_role"
            ),
        ]

    def __str__(self) -> str:
        return f"invitation {self.pk} to {self.mailbox_id}"

    @classmethod
    def open(cls) -> models.QuerySet[Invitation]:
        return cls.objects.filter(used_at=None, expires_at__gt=timezone.now())


class AddressCode(models.Model):
    """A code that was mailed to an address, by which a person proves that they read mail there."""

    person = models.ForeignKey(User, models.CASCADE, related_name="+")
    address = models.EmailField(max_length=254)
    digest = models.CharField(max_length=64, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    tries = models.PositiveSmallIntegerField(default=0)
    proven_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["person", "created_at"], name="address_code_of_person"),
            models.Index(fields=["address", "created_at"], name="address_code_of_address"),
        ]

    def __str__(self) -> str:
        return f"code {self.pk} of person {self.person_id}"


class RequestRecord(models.Model):
    """One call of a tool by a token: what was called and how it ended, never what it said."""

    at = models.DateTimeField(auto_now_add=True)
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
    """How much of a quota one subject has used; see `accounts.access.quotas`."""

    key = models.CharField(max_length=150, unique=True)
    used = models.BigIntegerField()
    ends_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["ends_at"], name="quota_to_forget")]

    def __str__(self) -> str:
        return self.key


class SignInPlace(models.Model):
    """A network from which a person has signed in: there, guesses made elsewhere hold them up no
    longer.
    """

    user = models.ForeignKey(User, models.CASCADE, related_name="+")
    network = models.CharField(max_length=50)
    last_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "network"], name="sign_in_place_once")
        ]

    def __str__(self) -> str:
        return f"{self.user_id} from {self.network}"


class FailedSignIns(models.Model):
    """How often signing in to an account failed from one place, and how many failures the audit
    does not hold yet.

    `account` is a keyed hash of the typed address, or empty for all; `place` is a network or
    browser, or empty for all.
    """

    account = models.CharField(max_length=64, blank=True)
    place = models.CharField(max_length=80, blank=True)
    user = models.ForeignKey(User, models.CASCADE, null=True, related_name="+")
    network = models.CharField(max_length=50, blank=True)
    failures = models.PositiveIntegerField(default=0)
    last_at = models.DateTimeField()
    unrecorded = models.PositiveIntegerField(default=0)
    recorded_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["account", "place"], name="failed_sign_ins_once")
        ]
        indexes = [models.Index(fields=["last_at"], name="failed_sign_ins_old")]

    def __str__(self) -> str:
        return f"{self.failures} from {self.place or 'anywhere'}"
