"""What the sign-in library asks us: who may come in, whether a sign-in is fresh, how its secrets
are kept.
"""

from functools import partial
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.core import context
from allauth.core.exceptions import ReauthenticationRequired
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django.conf import settings
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from accounts.audit_hook import record_event
from accounts.models import User
from accounts.people import factor_secrets
from accounts.people.address_proof import is_untouched, prove_account
from accounts.people.guessing import TooSoon, begin_attempt, end_attempt, record_failure
from accounts.people.own_mail import send_later
from accounts.people.step_up import factors_that_count, is_fresh, password_counts


class AccountAdapter(DefaultAccountAdapter):
    """Nobody signs up: people come by command or by invitation."""

    error_messages = {
        **DefaultAccountAdapter.error_messages,
        # The same whether the address is known or not.
        "email_password_mismatch": _("The e-mail address or the password is not right."),
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def send_mail(self, template_prefix: str, email: str, context: dict[str, Any]) -> None:
        """Send once, after the answer: its words and its time are the same for known and unknown
        addresses.
        """
        if settings.SENDS_MAIL:
            send_later(partial(super().send_mail, template_prefix, email, context))

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        """Count the attempt; one that comes too soon is refused before its password is looked at."""
        try:
            self._attempt = begin_attempt(request, credentials.get("email") or "")
        except TooSoon as soon:
            raise ValidationError(
                ngettext(
                    "Too many attempts. Wait %(n)s second, then try again.",
                    "Too many attempts. Wait %(n)s seconds, then try again.",
                    soon.seconds,
                )
                % {"n": soon.seconds},
                code="too_many_login_attempts",
            ) from None

    def _rollback_login_failed_rl_usage(self) -> None:
        """Called by the library when the password was right."""
        end_attempt(self._attempt)

    def authentication_failed(self, request: HttpRequest, **credentials: Any) -> None:
        record_failure(user=self._attempt.user, network=self._attempt.network, method="password")

    def get_reset_password_from_key_url(self, key: str) -> str:
        """On the public host, whatever the request says it came to."""
        uid, _, secret = key.partition("-")
        return str(settings.MAILHUB_PUBLIC_URL) + reverse(
            "account_reset_password_from_key", args=[uid, secret]
        )

    def is_reauthentication_required(self, *, app: str, **more: Any) -> bool:
        """One rule for the library's pages and ours; the library itself would let in who has
        neither password nor passkey.
        """
        if not is_fresh(context.request):
            raise ReauthenticationRequired
        return False

    def get_reauthentication_methods(self, user: Any) -> list[dict[str, Any]]:
        """The first is where the library sends people; the page there knows what they can do."""
        here: dict[str, Any] = {
            "id": "again",
            "description": _("Other ways"),
            "url": reverse("sign_in_again"),
        }
        return [
            here,
            *(way for way in super().get_reauthentication_methods(user) if _counts(way["id"])),
        ]


def _counts(way: str) -> bool:
    """Return False for a way that was set up in the session that it would vouch for."""
    if way == "reauthenticate":
        return password_counts(context.request)
    types = {"webauthn"} if way.endswith("webauthn") else {"totp", "recovery_codes"}
    return bool(types & factors_that_count(context.request))


class SecondFactors(DefaultMFAAdapter):
    """Keys of one-time codes are encrypted at rest and bound to their row (`factor_secrets`)."""

    def generate_authenticator_name(self, user: Any, type: Any) -> str:
        return f"Passkey {user.authenticator_set.filter(type=type).count() + 1}"

    def encrypt(self, text: str) -> str:
        return factor_secrets.encrypt(text)

    def decrypt(self, encrypted_text: str) -> str:
        return factor_secrets.decrypt(encrypted_text)


class SingleSignOn(DefaultSocialAccountAdapter):
    """It lets in people who are known here by the address that the provider has verified, and makes
    nobody known.

    An account whose address nobody has proven may hold a password or a passkey of the person who
    made it. Its owner would share it with that person, so single sign-on does not lead there.
    """

    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        return False

    def can_authenticate_by_email(self, login: Any, email: str) -> bool:
        if not super().can_authenticate_by_email(login, email):
            return False
        person = User.objects.filter(email=email.strip().lower()).first()
        if person is None or person.address_proven_at:
            return person is not None
        if is_untouched(person):
            prove_account(person, how="single_sign_on")
            return True
        record_event(
            "sign_on_refused",
            person=None,
            subject=person,
            method="single_sign_on",
            reason="address_not_proven",
        )
        return False
