"""Risky operations require a sign-in within the last five minutes; operations that only make things
safer do not.
"""

import re
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client

from accounts.models import ApiToken, Mailbox, Membership, Role, SignInLink, User
from approvals.models import ApprovalPolicy, PendingAction
from tests.accounts.test_sign_in import PASSWORD
from tests.conftest import Api
from tests.support.people.browser import RULES, browser

AGAIN = "Nothing was done yet"
pytestmark = pytest.mark.django_db(transaction=True)
ASKED = re.compile(r"^/sign-in/again/\?next=")


def risky(api: Api) -> PendingAction:
    """Return a waiting action with a warning that requires a step-up."""
    return PendingAction.objects.get(pk=api.propose(body="My card is 4111 1111 1111 1111."))


def test_only_a_risky_approval_needs_a_fresh_sign_in(api: Api, alice: User) -> None:
    window, action = browser(alice, fresh=False), risky(api)
    form = {"digest": action.digest, "revision": 1}

    asked = window.post(f"/actions/{action.pk}/approve/", form)
    assert asked["Location"] == "/sign-in/again/?" + urlencode({"next": f"/actions/{action.pk}/"})
    action.refresh_from_db()
    assert action.status == "pending"
    assert (
        window.post(f"/actions/{action.pk}/reject/", {"note": "no"})["Location"]
        == f"/actions/{action.pk}/"
    )

    again = risky(api)
    answer = browser(alice).post(
        f"/actions/{again.pk}/approve/", {"digest": again.digest, "revision": 1}
    )
    assert answer["Location"] == f"/actions/{again.pk}/"
    ordinary = PendingAction.objects.get(pk=api.propose(subject="ordinary"))
    window.post(f"/actions/{ordinary.pk}/approve/", {"digest": ordinary.digest, "revision": 1})
    ordinary.refresh_from_db()
    assert ordinary.status == "approved"


STEPS: dict[str, tuple[str, dict[str, Any]]] = {
    "rules": ("/mailboxes/{mailbox}/rules/", {**RULES, "daily_cap": 7}),
    "invite": ("/mailboxes/{mailbox}/invite/", {"email": "x@lovelace.example", "role": "manager"}),
    "role": ("/mailboxes/{mailbox}/members/{bob}/role/", {"role": "manager"}),
    "remove": ("/mailboxes/{mailbox}/members/{bob}/remove/", {}),
    "disconnect": ("/mailboxes/{mailbox}/disconnect/", {}),
    "resume": ("/mailboxes/{mailbox}/pause/", {"pause": "off"}),
    "token": ("/tokens/new/", {"name": "t", "scopes": ["mail:read"], "mailboxes": ["{mailbox}"]}),
    "rotate": ("/tokens/{token}/rotate/", {}),
    "passkey": ("/account/factors/webauthn/add/", {}),
    "codes": ("/account/factors/totp/activate/", {}),
}


@pytest.mark.parametrize("step", STEPS)
def test_action_that_grants_power_needs_a_fresh_sign_in(
    api: Api, alice: User, bob: User, mailbox: Mailbox, step: str
) -> None:
    path, form = STEPS[step]
    names = {"mailbox": mailbox.pk, "bob": bob.pk, "token": ApiToken.objects.get().pk}
    path = path.format(**names)
    form = {
        name: [str(v).format(**names) for v in value] if isinstance(value, list) else value
        for name, value in form.items()
    }
    before = api.secret

    answer = browser(alice, fresh=False).post(path, form)

    assert ASKED.match(answer["Location"]), answer["Location"]
    assert Membership.objects.get(user=bob).role == Role.APPROVER
    assert not ApprovalPolicy.objects.exists()
    mailbox.refresh_from_db()
    assert mailbox.status == "active"
    assert Api(secret=before).tool("list_mailboxes").status_code == 200
    assert ApiToken.objects.count() == 1


def test_stopping_needs_no_fresh_sign_in(alice: User, mailbox: Mailbox) -> None:
    window = browser(alice, fresh=False)
    window.post(f"/mailboxes/{mailbox.pk}/pause/", {"pause": "on"})
    assert "paused" in window.get(f"/mailboxes/{mailbox.pk}/").content.decode()


def test_password_refreshes_the_sign_in(alice: User, mailbox: Mailbox) -> None:
    alice.set_password(PASSWORD)
    alice.save()
    window, back = browser(alice, fresh=False), f"/mailboxes/{mailbox.pk}/rules/"

    page = window.get(window.get(back)["Location"]).content.decode()
    assert 'data-way="reauthenticate"' in page
    assert window.post("/account/confirm/", {"password": "wrong", "next": back}).status_code == 200
    assert window.get(back).status_code == 302
    assert (
        window.post("/account/confirm/", {"password": PASSWORD, "next": back})["Location"] == back
    )
    assert AGAIN not in window.get(back).content.decode()  # nobody had sent a form


def test_form_that_was_interrupted_is_asked_for_again(alice: User, mailbox: Mailbox) -> None:
    alice.set_password(PASSWORD)
    alice.save()
    window, back = browser(alice, fresh=False), f"/mailboxes/{mailbox.pk}/"
    invitation = {"email": "bob@lovelace.example", "role": "viewer"}
    assert "/sign-in/again/" in window.post(f"{back}invite/", invitation)["Location"]

    window.post("/account/confirm/", {"password": PASSWORD, "next": back})

    assert AGAIN in window.get(back).content.decode()
    assert AGAIN not in window.get(back).content.decode()


def test_new_link_replaces_missing_password_and_passkey(alice: User, mailbox: Mailbox) -> None:
    window, back = browser(alice, fresh=False), f"/mailboxes/{mailbox.pk}/rules/"

    page = window.get(window.get(back)["Location"]).content.decode()
    assert "sign_in_link --user alice@lovelace.example" in page

    secret = SignInLink.issue(user=alice, lifetime=timedelta(minutes=5))
    assert window.post(f"/sign-in/{secret}/")["Location"] == back
    assert window.get(back).status_code == 200


def test_return_address_never_leads_elsewhere(alice: User) -> None:
    page = (
        browser(alice, fresh=False)
        .get("/sign-in/again/?next=https://evil.example/")
        .content.decode()
    )
    assert "evil" not in page
    assert Client().get("/sign-in/again/?next=/")["Location"].startswith("/sign-in/?next=")
