"""The people who must have a second factor: a passkey or one-time codes.

A person without one reads, rejects and pauses as before. An approval is refused by the function that
judges the right to approve, and its page leads to the set-up. `mailhub.middleware.second_factor` keeps the
pages that change security.
"""

from allauth.mfa.models import Authenticator
from django.conf import settings
from django.contrib.auth.models import AnonymousUser

from accounts.infra.problems import Problem
from accounts.infra.texts import translatable
from accounts.models import Membership, Role, User

FACTORS = (Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN)


class FactorMissing(Problem):
    """A refusal that ends as soon as the person has set up a second factor."""

    def __init__(self) -> None:
        super().__init__(
            "forbidden", translatable("Set up a second factor first. Managers and staff need one.")
        )


def needs_factor_later(person: User) -> bool:
    """Return True if this person will need a second factor, and has none, as soon as there is a
    second person.
    """
    return (
        settings.MAILHUB_SECOND_FACTOR == "auto"
        and not _has_factor(person)
        and User.objects.filter(is_active=True)[:2].count() < 2
    )


def managers_need_factor() -> bool:
    """Return True if managers of mailboxes need a second factor as soon as there are two people."""
    return bool(settings.MAILHUB_SECOND_FACTOR != "optional")


def _has_factor(person: User) -> bool:
    return Authenticator.objects.filter(user=person, type__in=FACTORS).exists()


def lacks_factor(person: User | AnonymousUser) -> bool:
    """Return True if this person must have a second factor but has none.

    Managers of any mailbox and staff must have one (`MAILHUB_SECOND_FACTOR`).
    """
    if not isinstance(person, User) or settings.MAILHUB_SECOND_FACTOR == "optional":
        return False
    if not (person.is_staff or Membership.objects.filter(user=person, role=Role.MANAGER).exists()):
        return False
    if (
        settings.MAILHUB_SECOND_FACTOR == "auto"
        and User.objects.filter(is_active=True)[:2].count() < 2
    ):
        return False
    return not _has_factor(person)
