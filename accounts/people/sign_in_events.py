"""Events of sign-ins, sessions and factors: for the audit, and mailed to the person if needed."""

from typing import Any

from allauth.account import signals as account
from allauth.account.adapter import get_adapter
from allauth.account.internal.flows.login import get_authentication_records
from allauth.mfa import signals as mfa
from allauth.mfa.models import Authenticator
from allauth.socialaccount import signals as social
from django.contrib.auth.signals import user_logged_out
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.dispatch import Signal, receiver
from django.http import HttpRequest

from accounts.audit_hook import record_event
from accounts.infra.networks import network_of
from accounts.models import SignInPlace, User
from accounts.people.devices import remember_device
from accounts.people.guessing import record_failure
from accounts.people.recovery import hold_account

FACTOR_EVENTS = {
    mfa.authenticator_added: "factor_added",
    mfa.authenticator_removed: "factor_removed",
    mfa.authenticator_reset: "factor_reset",
}
PASSWORD_EVENTS = {
    account.password_set: "password_set",
    account.password_changed: "password_changed",
    account.password_reset: "password_reset",
}


@receiver(account.user_logged_in)
def _record_sign_in(sender: Any, request: HttpRequest, user: User, **_: Any) -> None:
    network = network_of(request)
    is_first = not SignInPlace.objects.filter(user=user).exists()
    SignInPlace.objects.update_or_create(user=user, network=network)
    is_new = remember_device(request, user)
    record_event("signed_in", person=user, method=_methods(request, user), new_browser=is_new)
    if is_new and not is_first:
        get_adapter().send_notification_mail("account/email/new_sign_in", user)


def _methods(request: HttpRequest, user: User) -> str:
    """Return the methods of a sign-in, such as `password+totp`; `link` for one without a record."""
    records = get_authentication_records(request, user)
    return "+".join(str(each.get("type") or each["method"]) for each in records) or "link"


@receiver(user_logged_out)
def _record_sign_out(sender: Any, user: User | None, **_: Any) -> None:
    if user is not None:
        record_event("signed_out", person=user)


@receiver(account.authentication_step_completed)
def _record_reauthentication(sender: Any, user: User, method: str, **extra: Any) -> None:
    if extra.get("reauthenticated"):
        record_event("signed_in_again", person=user, method=str(extra.get("type") or method))


@receiver(mfa.authentication_failed)
def _record_factor_failure(
    sender: Any, request: HttpRequest, user: User, authenticator: Any = None, **_: Any
) -> None:
    record_failure(
        user=user,
        network=network_of(request),
        method=authenticator.type if authenticator else "factor",
    )


@receiver(account.login_code_rejected)
def _record_code_failure(
    sender: Any, request: HttpRequest, user: User | None = None, **_: Any
) -> None:
    record_failure(user=user, network=network_of(request), method="code")


@receiver(list(FACTOR_EVENTS))
def _record_factor(
    sender: Any, signal: Signal, user: User, authenticator: Authenticator, **_: Any
) -> None:
    record_event(FACTOR_EVENTS[signal], person=user, method=authenticator.type)


@receiver(list(PASSWORD_EVENTS))
def _record_password(sender: Any, signal: Signal, user: User, **_: Any) -> None:
    method = "link" if signal is account.password_reset else ""
    record_event(PASSWORD_EVENTS[signal], person=user, method=method)


@receiver(social.social_account_added)
def _record_sign_on_connected(
    sender: Any, request: HttpRequest, sociallogin: Any, **_: Any
) -> None:
    try:
        with transaction.atomic():
            hold_account(sociallogin.user)
            record_event(
                "sign_on_connected", person=sociallogin.user, method=sociallogin.account.provider
            )
    except PermissionDenied:  # the account was recovered while the provider was asked
        sociallogin.account.delete()
        raise


@receiver(social.social_account_removed)
def _record_sign_on_removed(
    sender: Any, request: HttpRequest, socialaccount: Any, **_: Any
) -> None:
    record_event("sign_on_removed", person=socialaccount.user, method=socialaccount.provider)
