"""Managers and staff need a second factor for approvals and security, as soon as they are not the
only person.
"""

from datetime import timedelta
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.utils import timezone

from accounts.models import Mailbox, Membership, User
from accounts.people.second_factor import FactorMissing
from approvals.gate.pauses import switch
from approvals.models import PendingAction
from tests.approvals.conftest import approve, approved, script
from tests.approvals.lost_answers import lost, order_again
from tests.conftest import Api, Reviewer
from tests.support.people.browser import browser

__all__ = ["approved", "lost", "script"]
pytestmark = pytest.mark.django_db(transaction=True)
SECURITY = [
    "/tokens/new/", "/webhooks/new/", "/mailboxes/connect/", "/admin/", "/admin/accounts/user/",
    "/mailboxes/{mailbox}/rules/",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _auto(settings: Any) -> None:
    settings.MAILHUB_SECOND_FACTOR = "auto"


def led(answer: Any) -> bool:
    return bool(
        answer.status_code == 302 and answer["Location"].startswith("/account/second-factor/")
    )


def add_passkey(person: User) -> None:
    Authenticator.objects.create(
        user=person, type=Authenticator.Type.WEBAUTHN, data={"name": "key"}
    )


def test_only_person_of_a_server_needs_no_factor(api: Api, reviewer: Reviewer) -> None:
    assert reviewer.decide(api.propose(), "approve").status_code == 302
    assert PendingAction.objects.get().status == "approved"
    assert browser(reviewer.user).get("/tokens/new/").status_code == 200


def test_manager_without_factor_cannot_approve(api: Api, reviewer: Reviewer, bob: User) -> None:
    answer = reviewer.decide(api.propose(), "approve")
    assert led(answer)
    assert PendingAction.objects.get().status == "pending"
    page = reviewer.client.get(answer["Location"]).content.decode()
    assert "Add a passkey" in page
    assert "/account/factors/totp/activate/" in page

    add_passkey(reviewer.user)
    assert not led(reviewer.decide(str(PendingAction.objects.get().pk), "approve"))
    assert PendingAction.objects.get().status == "approved"
    assert "Continue" in reviewer.client.get(answer["Location"]).content.decode()


def test_manager_without_factor_cannot_approve_several(
    api: Api, reviewer: Reviewer, bob: User
) -> None:
    action = PendingAction.objects.get(pk=api.propose())
    window = browser(reviewer.user)
    reviewer.look(str(action.pk))
    form = {"item": f"{action.pk}:{action.digest}:{action.revision}"}
    assert led(window.post("/bulk/approve/", form))
    add_passkey(reviewer.user)
    assert window.post("/bulk/approve/", form).status_code == 200
    action.refresh_from_db()
    assert action.status == "approved"


def test_recovery_codes_are_no_factor(api: Api, reviewer: Reviewer, bob: User) -> None:
    Authenticator.objects.create(
        user=reviewer.user, type=Authenticator.Type.RECOVERY_CODES, data={}
    )
    assert led(reviewer.decide(api.propose(), "approve"))


def test_staff_who_manage_nothing_need_a_factor(bob: User) -> None:
    User.objects.filter(pk=bob.pk).update(is_staff=True, is_superuser=True)
    assert led(browser(bob).get("/admin/"))


def test_return_address_of_the_set_up_leads_nowhere_else(alice: User, bob: User) -> None:
    add_passkey(alice)
    page = browser(alice).get("/account/second-factor/?next=https://evil.example/").content.decode()
    assert "Continue" in page
    assert "evil.example" not in page


def test_approver_who_manages_nothing_needs_no_factor(api: Api, bob: User) -> None:
    Reviewer.signed_in(bob).decide(api.propose(), "approve")
    assert PendingAction.objects.get().status == "approved"


@pytest.mark.parametrize("path", SECURITY)
def test_security_pages_lead_to_the_set_up(
    alice: User, bob: User, mailbox: Mailbox, path: str
) -> None:
    alice.is_staff = alice.is_superuser = True
    alice.save()
    window, address = browser(alice), path.format(mailbox=mailbox.pk)
    assert led(window.get(address))
    assert led(window.post(address))
    add_passkey(alice)
    assert not led(browser(alice).get(address))


def test_person_without_factor_can_view_and_improve_safety(
    api: Api, reviewer: Reviewer, bob: User
) -> None:
    action = api.propose()
    assert reviewer.page(action).status_code == 200
    assert reviewer.client.get("/account/").status_code == 200
    for path in (
        "/account/factors/totp/activate/",
        "/account/factors/webauthn/add/",
        "/account/password/set/",
    ):
        assert browser(reviewer.user).get(path).status_code == 200
    reviewer.decide(action, "reject")
    assert PendingAction.objects.get().status == "rejected"


def test_every_way_to_approve_asks_the_manager(
    api: Api, reviewer: Reviewer, lost: PendingAction, bob: User
) -> None:
    """The functions ask, whatever address leads to them. The right of the moment decides."""
    waiting = api.propose(subject="Another")

    with pytest.raises(FactorMissing):
        approve(waiting, reviewer.user)
    with pytest.raises(FactorMissing):
        order_again(lost, reviewer.user)
    lost.refresh_from_db()
    assert lost.status == "unknown"
    limited = Membership.objects.get(user=bob)
    Membership.objects.filter(pk=limited.pk).update(role="manager")
    with pytest.raises(FactorMissing):
        approve(waiting, bob)
    past = timezone.now() - timedelta(days=1)
    other = Mailbox.objects.create(address="other@lovelace.example", provider="memory")
    Membership.objects.filter(pk=limited.pk).update(role="approver")
    Membership.objects.create(mailbox=other, user=bob, role="manager", ends_at=past)
    assert approve(waiting, bob).status == "approved"


def test_manager_without_factor_resumes_nothing(
    reviewer: Reviewer, bob: User, mailbox: Mailbox
) -> None:
    window, where = browser(reviewer.user), f"/mailboxes/{mailbox.pk}/pause/"
    assert not led(window.post(where, {"pause": "on"}))
    assert led(window.post(where, {"pause": "off"}))
    assert switch.is_paused(mailbox)
    add_passkey(reviewer.user)
    window.post(where, {"pause": "off"})
    assert not switch.is_paused(mailbox)


def test_setting_decides(reviewer: Reviewer, api: Api, settings: Any) -> None:
    settings.MAILHUB_SECOND_FACTOR = "required"
    assert led(reviewer.decide(api.propose(), "approve"))
    settings.MAILHUB_SECOND_FACTOR = "optional"
    assert not led(browser(reviewer.user).get("/tokens/new/"))
