"""Adapters of the sign-in library: they decide if a person may sign in and if a sign-in is fresh,
and encrypt the library's secrets.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.core import context
from allauth.core.exceptions import ImmediateHttpResponse, ReauthenticationRequired
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django.conf import settings
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from accounts.access.provider_calls import STRANGERS, limit_waiting
from accounts.access.quotas import Quota, take
from accounts.access.signed_in import take_landing
from accounts.audit_hook import record_event
from accounts.infra.database import give_back_connection
from accounts.infra.networks import network_of
from accounts.infra.problems import Problem
from accounts.models import User
from accounts.people import factor_secrets
from accounts.people.address_proof import is_untouched, prove_account
from accounts.people.guessing import TooSoon, begin_attempt, end_attempt, record_failure
from accounts.people.own_mail import send_later
from accounts.people.step_up import factors_that_count, is_fresh, password_counts

# Requests to the provider that one network causes within a minute; a sign-in takes about four.
SIGN_ONS = Quota(name="single-sign-on", amount=240, seconds=60, refusal="")


class AccountAdapter(DefaultAccountAdapter):
    """Accounts without sign-up: people are added by a command or by an invitation."""

    error_messages = {
        **DefaultAccountAdapter.error_messages,
        # The text is the same for known and unknown addresses.
        "email_password_mismatch": _("The e-mail address or the password is incorrect."),
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def send_mail(self, template_prefix: str, email: str, context: dict[str, Any]) -> None:
        """Send once, after the answer, so that text and time of the answer are the same for known
        and unknown addresses.
        """
        if settings.SENDS_MAIL:
            send_later(partial(super().send_mail, template_prefix, email, context))

    def set_password(self, user: Any, password: str) -> None:
        """Store a password, unless the account was closed or recovered while the hash was made."""
        user.set_password(password)
        same = User.objects.filter(pk=user.pk, generation=user.generation)
        if not same.update(password=user.password):
            raise PermissionDenied

    def get_password_change_redirect_url(self, request: HttpRequest) -> str:
        return take_landing(request)

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        """Count the attempt; refuse one that comes too soon before its password is checked."""
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
        """End the attempt; the library calls this when the password was right."""
        end_attempt(self._attempt)

    def authentication_failed(self, request: HttpRequest, **credentials: Any) -> None:
        record_failure(user=self._attempt.user, network=self._attempt.network, method="password")

    def get_reset_password_from_key_url(self, key: str) -> str:
        """Return the link on the public host, because a request can name any host."""
        uid, _, secret = key.partition("-")
        return str(settings.MAILHUB_PUBLIC_URL) + reverse(
            "account_reset_password_from_key", args=[uid, secret]
        )

    def is_reauthentication_required(self, *, app: str, **more: Any) -> bool:
        """Raise ReauthenticationRequired unless the sign-in is fresh.

        The library's pages and ours follow the same rule. The library itself would accept people
        with neither password nor passkey.
        """
        if not is_fresh(context.request):
            raise ReauthenticationRequired
        return False

    def get_reauthentication_methods(self, user: Any) -> list[dict[str, Any]]:
        """Return the person's methods: our page first, because the library redirects to the first,
        then a passkey, because it takes one touch.
        """
        here: dict[str, Any] = {
            "id": "again",
            "description": _("Use another way"),
            "url": reverse("sign_in_again"),
        }
        ways = [way for way in super().get_reauthentication_methods(user) if _counts(way["id"])]
        ways.sort(key=lambda way: not _is_passkey(way["id"]))
        return [here, *(way | {"description": _describe(way["id"])} for way in ways)]


def _is_passkey(way: str) -> bool:
    return way.endswith("webauthn")


def _describe(way: str) -> str:
    """Return the words of a button. The library says "security key" for a passkey."""
    if _is_passkey(way):
        return str(_("Use a passkey"))
    return str(_("Use your password") if way == "reauthenticate" else _("Use a code"))


def _counts(way: str) -> bool:
    """Return False for a method that was set up in the session that it would confirm."""
    if way == "reauthenticate":
        return password_counts(context.request)
    types = {"webauthn"} if _is_passkey(way) else {"totp", "recovery_codes"}
    return bool(types & factors_that_count(context.request))


class SecondFactors(DefaultMFAAdapter):
    """Second factors; keys of one-time codes are encrypted and bound to their row."""

    def generate_authenticator_name(self, user: Any, type: Any) -> str:
        number = user.authenticator_set.filter(type=type).count() + 1
        return str(_("Passkey %(n)s") % {"n": number})

    def encrypt(self, text: str) -> str:
        return factor_secrets.encrypt(text)

    def decrypt(self, encrypted_text: str) -> str:
        return factor_secrets.decrypt(encrypted_text)


def answer_without_sign_on(request: HttpRequest) -> HttpResponse:
    """Return the page for a provider of single sign-on that gives no usable answer."""
    reason = _("The single sign-on of your organisation gives no answer. Try again in a minute.")
    return render(request, "refused.html", {"reason": reason}, status=503)


class SingleSignOn(DefaultSocialAccountAdapter):
    """Single sign-on for people who have an account with the address that the provider verified; it
    creates no account.

    An account whose address nobody has proven may hold a password or a passkey of the person who
    made it. The owner of the address would share it with that person, so single sign-on refuses it.
    """

    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        return False

    def pre_social_login(self, request: HttpRequest, sociallogin: Any) -> None:
        """Link an account that was found by its address. The library would first remove its password and
        end its sessions, because it does not know that the address is proven.
        """
        if sociallogin.account.uid == "None":  # a `sub` of null, which is nobody
            raise ImmediateHttpResponse(answer_without_sign_on(request))
        begun = sociallogin.state.get("process")
        if sociallogin._did_authenticate_by_email and begun not in ("connect", "redirect"):
            sociallogin._did_authenticate_by_email = None
            if sociallogin.user.is_active:
                sociallogin.connect(request, sociallogin.user)

    def populate_user(self, request: HttpRequest, sociallogin: Any, data: Any) -> Any:
        """Take what the provider said about the person; the library believes `userinfo`, and does not
        compare it with the ID token (OpenID Connect Core 5.3.2).
        """
        said = sociallogin.account.extra_data
        answers = [said[name] for name in ("userinfo", "id_token") if said.get(name)]
        if len({str(each.get("sub")) for each in answers}) > 1:
            raise ImmediateHttpResponse(answer_without_sign_on(request))
        return super().populate_user(request, sociallogin, data)

    def get_requests_session(self) -> Any:
        """Return a session whose requests are counted, and of which few wait at once, without a
        database connection: strangers begin a sign-in, and the provider may say nothing.
        """
        session = super().get_requests_session()  # type: ignore[no-untyped-call]
        session.request = partial(self._ask, session.request)
        return session

    def _ask(self, request: Callable[..., Any], *args: Any, **options: Any) -> Any:
        try:
            take(SIGN_ONS, network_of(self.request) or "unknown")
            give_back_connection()
            with limit_waiting(STRANGERS):
                response = request(*args, **options)
            response.raise_for_status()
        except (OSError, Problem) as error:
            raise ImmediateHttpResponse(answer_without_sign_on(self.request)) from error
        return response

    def can_authenticate_by_email(self, login: Any, email: str) -> bool:
        if not super().can_authenticate_by_email(login, email):
            return False
        # Some providers write a text, and the library takes each text for true, "false" too.
        said = [each.verified for each in login.email_addresses if each.email == email]
        if not any(str(each).lower() == "true" for each in said):
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
