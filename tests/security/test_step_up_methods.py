"""A fresh sign-in counts only by a method that is older than the session."""

from datetime import timedelta
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.test import Client
from django.utils import timezone

from accounts.models import User
from tests.accounts.test_sign_in import PASSWORD
from tests.support.people.authenticator import code_of
from tests.support.people.browser import browser

pytestmark = pytest.mark.django_db
SENSITIVE = "/tokens/new/"


def grow_stale(window: Client) -> None:
    """Make the last sign-in of this browser older than a fresh one may be."""
    session = window.session
    for mark in ("signed_in_at", "session_began_at"):
        session[mark] -= 301
    session.save()


def asks(window: Client) -> bool:
    return window.get(SENSITIVE).get("Location", "").startswith("/sign-in/again/")


def test_stolen_session_cannot_set_a_password(alice: User) -> None:
    window = browser(alice, fresh=False)
    new = {"password1": PASSWORD, "password2": PASSWORD}
    for send in (window.get, window.post):
        assert send("/account/password/set/", new)["Location"].startswith("/sign-in/again/")
    alice.refresh_from_db()
    assert not alice.has_usable_password()


def test_password_set_in_this_session_does_not_step_up(alice: User) -> None:
    window = browser(alice)
    window.post("/account/password/set/", {"password1": PASSWORD, "password2": PASSWORD})
    alice.refresh_from_db()
    assert alice.check_password(PASSWORD)
    grow_stale(window)

    window.post("/account/confirm/", {"password": PASSWORD, "next": SENSITIVE})
    assert asks(window)
    assert (
        "account/confirm" not in window.get("/sign-in/again/", {"next": SENSITIVE}).content.decode()
    )

    later = Client()
    later.post("/sign-in/", {"login": alice.email, "password": PASSWORD})
    grow_stale(later)
    later.post("/account/confirm/", {"password": PASSWORD, "next": SENSITIVE})
    assert not asks(later)


@pytest.mark.parametrize("kind", ["code", "recovery"])
def test_factor_added_in_this_session_does_not_step_up(alice: User, kind: str) -> None:
    window = browser(alice)
    key = window.get("/account/factors/totp/activate/").context["form"].secret
    window.post("/account/factors/totp/activate/", {"code": code_of(key)})
    grow_stale(window)
    recovery = (
        Authenticator.objects.get(user=alice, type="recovery_codes").wrap().get_unused_codes()
    )

    def step_up() -> None:
        code = code_of(key) if kind == "code" else recovery.pop()
        window.post("/account/factors/reauthenticate/", {"code": code, "next": SENSITIVE})

    step_up()
    assert asks(window)
    Authenticator.objects.update(created_at=timezone.now() - timedelta(hours=1))
    step_up()
    assert not asks(window)


def test_new_recovery_codes_with_an_old_factor_do_not_step_up(alice: User) -> None:
    window = browser(alice)
    key = window.get("/account/factors/totp/activate/").context["form"].secret
    window.post("/account/factors/totp/activate/", {"code": code_of(key)})
    Authenticator.objects.filter(type="totp").update(created_at=timezone.now() - timedelta(hours=1))
    grow_stale(window)
    (recovery, *_) = (
        Authenticator.objects.get(user=alice, type="recovery_codes").wrap().get_unused_codes()
    )

    window.post("/account/factors/reauthenticate/", {"code": recovery, "next": SENSITIVE})
    assert asks(window)
    window.post("/account/factors/reauthenticate/", {"code": code_of(key), "next": SENSITIVE})
    assert not asks(window)


@pytest.mark.parametrize("mail", [True, False])
def test_signing_in_again_is_offered_if_one_can_return(
    alice: User, settings: Any, mail: bool
) -> None:
    """Offer it only if a code can be mailed: else a person with links only could not come back."""
    settings.SENDS_MAIL = mail
    window = browser(alice, fresh=False)
    page = window.get(window.get(SENSITIVE)["Location"]).content.decode()
    assert ('data-action="sign-in-again"' in page) is mail
    assert ("sign_in_link" in page) is not mail
    out = window.post("/sign-out/", {"next": "/sign-in/?next=/tokens/new/"})
    assert out["Location"] == "/sign-in/?next=/tokens/new/"
