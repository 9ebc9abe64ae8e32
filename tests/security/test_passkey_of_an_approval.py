"""A passkey confirms a risky approval only for its person, its session and one challenge."""

from datetime import timedelta

import pytest
from allauth.mfa.models import Authenticator
from django.test import Client
from django.utils import timezone

from accounts.models import User
from approvals.models import PendingAction
from tests.approvals.review_pages import seal_of
from tests.conftest import Api
from tests.support.people.browser import browser
from tests.support.people.passkey import Passkey

pytestmark = pytest.mark.django_db(transaction=True)


def propose_risky(api: Api) -> str:
    return api.propose(body="My card is 4111 1111 1111 1111.")


def approve(window: Client, action_id: str, credential: str) -> str:
    form = {**seal_of(action_id), "credential": credential}
    answer = window.post(f"/actions/{action_id}/approve/", form)
    state = PendingAction.objects.get(pk=action_id).status
    assert answer["Location"].startswith("/sign-in/again/") == (state == "pending")
    return str(state)


def grow_stale(window: Client) -> None:
    session = window.session
    session["signed_in_at"] -= 301
    session.save()


def test_passkey_confirms_one_risky_approval(api: Api, alice: User) -> None:
    window, passkey = browser(alice, fresh=False), Passkey(alice)
    action_id = propose_risky(api)
    assert "data-passkey" in window.get(f"/actions/{action_id}/").content.decode()
    credential = passkey.answer(window)
    assert approve(window, action_id, credential) == "approved"
    assert window.get("/sign-in/challenge/").status_code == 204

    grow_stale(window)
    assert approve(window, propose_risky(api), credential) == "pending", "an answer counts once"


@pytest.mark.parametrize("credential", ["nonsense", "[" * 19_000])
def test_credential_that_cannot_be_read_is_refused(api: Api, alice: User, credential: str) -> None:
    form = {**seal_of(action_id := propose_risky(api)), "credential": credential}
    answer = browser(alice, fresh=False).post(f"/actions/{action_id}/approve/", form)
    assert answer.status_code == 400
    assert PendingAction.objects.get(pk=action_id).status == "pending"


@pytest.mark.parametrize("credential", ["", "{}", "[]", "1", '{"id": "x"}'])
def test_anything_else_confirms_nothing(api: Api, alice: User, credential: str) -> None:
    Passkey(alice)
    assert approve(browser(alice, fresh=False), propose_risky(api), credential) == "pending"


def test_answer_for_another_session_confirms_nothing(api: Api, alice: User) -> None:
    passkey, other = Passkey(alice), browser(alice, fresh=False)
    credential = passkey.answer(other)
    assert approve(browser(alice, fresh=False), propose_risky(api), credential) == "pending"


def test_passkey_of_another_person_confirms_nothing(api: Api, alice: User, bob: User) -> None:
    window, foreign = browser(alice, fresh=False), Passkey(bob)
    assert approve(window, propose_risky(api), foreign.answer(window)) == "pending"


def test_passkey_of_this_session_confirms_nothing(api: Api, alice: User) -> None:
    window, passkey = browser(alice, fresh=False), Passkey(alice)
    later = timezone.now() + timedelta(minutes=1)
    Authenticator.objects.filter(pk=passkey.row.pk).update(created_at=later)
    action_id = propose_risky(api)
    assert "data-passkey" not in window.get(f"/actions/{action_id}/").content.decode()
    assert approve(window, action_id, passkey.answer(window)) == "pending"
