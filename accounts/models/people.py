"""People, their roles, and their sign-in links, codes and failures."""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta
from typing import Any, ClassVar

from django.apps import apps
from django.contrib.auth.models import AbstractUser, BaseUserManager
from django.db import models
from django.db.models import F
from django.db.models.functions import Lower
from django.utils import timezone
from django.utils.functional import cached_property
from django.utils.translation import gettext_lazy as _

JUDGED = frozenset({"is_active", "is_staff"})  # what the account may do rests on these


class Users(models.QuerySet["User"]):
    def update(self, **changes: Any) -> int:
        if JUDGED & changes.keys():
            changes["generation"] = F("generation") + 1
        return super().update(**changes)


class UserManager(BaseUserManager["User"]):
    def get_queryset(self) -> Users:
        return Users(self.model, using=self._db)

    def create_user(self, email: str, password: str | None = None, **fields: Any) -> User:
        user = self.model(email=email.strip().lower(), **fields)
        user.set_password(password)  # None makes an unusable password: sign-in only by link
        user.save()
        return user

    def create_superuser(self, email: str, password: str | None = None, **fields: Any) -> User:
        return self.create_user(email, password, is_staff=True, is_superuser=True, **fields)

    def get_by_natural_key(self, username: str | None) -> User:
        return self.get(email=(username or "").strip().lower())


class User(AbstractUser):
    """A person; the e-mail address, in lower case, is the login.

    `generation` counts how often the account was closed, opened or recovered, or joined or left the
    staff: an approval holds for one.
    """

    username = None  # type: ignore[assignment]
    email = models.EmailField(_("e-mail address"), unique=True)
    # When the person showed that they read mail at this address, or an operator's command
    # confirmed it.
    address_proven_at = models.DateTimeField(_("address proven at"), null=True, editable=False)
    # A code of settings.LANGUAGES, or "" for the language of the browser.
    language = models.CharField(
        _("language"), max_length=10, blank=True, default="", db_default="", editable=False
    )

    generation = models.PositiveIntegerField(default=0, db_default=0, editable=False)

    _read: dict[str, Any] | None = None  # the fields as they were read

    USERNAME_FIELD = "email"
    REQUIRED_FIELDS: ClassVar[list[str]] = []
    objects: ClassVar[UserManager] = UserManager()  # type: ignore[assignment]

    class Meta(AbstractUser.Meta):
        constraints = [models.UniqueConstraint(Lower("email"), name="user_email_any_case")]

    def __str__(self) -> str:
        return self.get_full_name() or self.email

    @property
    def with_address(self) -> str:
        """Return the name, which an invited person chooses, with the address, which nobody does."""
        name = self.get_full_name()
        return f"{name} ({self.email})" if name else self.email

    @classmethod
    def from_db(cls, *args: Any, **kwargs: Any) -> User:
        user = super().from_db(*args, **kwargs)
        user._read = user._fields()
        return user

    def _fields(self) -> dict[str, Any]:
        held = self.__dict__
        fields = self._meta.concrete_fields
        return {each.name: held[each.attname] for each in fields if each.attname in held}

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Store the account; of one that was read, only what has changed since.

        The library stores it whole, long after it has read it. That must not open an account again
        that was closed meanwhile.
        """
        if self._read is not None:
            changed = [each for each, now in self._fields().items() if now != self._read.get(each)]
            kwargs.setdefault("update_fields", changed)
        fields = kwargs.get("update_fields")
        judged = {name: getattr(self, name) for name in JUDGED if fields is None or name in fields}
        if self.pk and judged:
            others = type(self).objects.filter(pk=self.pk).exclude(**judged)
            if others.update(**judged):
                self.refresh_from_db(fields=["generation"])
        super().save(*args, **kwargs)
        if self._read is not None:
            self._read = self._fields()

    @cached_property
    def sees_audit(self) -> bool:
        """Return True if there is an audit to see: for managers of a mailbox, and for staff.

        It is only for links; the audit itself asks again. A page that knows the roles sets it.
        """
        members = apps.get_model("accounts", "Membership")
        return self.is_staff or members.objects.filter(user=self, role=Role.MANAGER).exists()


class Role(models.TextChoices):
    """A role on a mailbox; each one includes the roles before it."""

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


def digest_of(secret: str) -> str:
    """Return the digest of 256 random bits: nobody can guess them, so it need not be slow."""
    return hashlib.sha256(secret.encode()).hexdigest()


class SignInLink(models.Model):
    """A one-time link to sign in; its GET only shows a button."""

    user = models.ForeignKey(User, models.CASCADE, related_name="sign_in_links")
    digest = models.CharField(max_length=64, unique=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"link {self.pk} for user {self.user_id}"

    @classmethod
    def issue(cls, *, user: User, lifetime: timedelta) -> str:
        """Make a link for a person and return its secret, which only this call knows."""
        secret = secrets.token_urlsafe(32)
        cls.objects.create(
            user=user, digest=digest_of(secret), expires_at=timezone.now() + lifetime
        )
        return secret

    @classmethod
    def find_usable(cls, secret: str) -> models.QuerySet[SignInLink]:
        return cls.objects.filter(
            digest=digest_of(secret),
            used_at=None,
            expires_at__gt=timezone.now(),
            user__is_active=True,
        )

    @classmethod
    def redeem(cls, secret: str) -> User | None:
        """Use the link and return its person; of two simultaneous uses only one gets the person."""
        links = cls.find_usable(secret)
        link = links.select_related("user").first()
        if link is None or links.update(used_at=timezone.now()) != 1:
            return None
        return link.user


class AddressCode(models.Model):
    """A code that was mailed to an address, to prove that a person reads mail there."""

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


class SignInPlace(models.Model):
    """A network from which a person has signed in; failures elsewhere do not delay them there."""

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
    """The number of failed sign-ins to an account from one place, and of failures that are not in
    the audit yet.

    `account` is a keyed hash of the typed address, or empty for all. `place` is a network or
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
