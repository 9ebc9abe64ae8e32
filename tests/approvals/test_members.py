"""Members of a mailbox: invited once, never without a manager; the approvals of a removed member no
longer count.
"""

from contextlib import suppress
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from accounts.infra.problems import Problem
from accounts.models import Invitation, Mailbox, Membership, Role, User
from approvals.gate.rules.change import RULES, change_rules
from approvals.gate.rules.policy import policy_of
from approvals.models import ApprovalPolicy, AuditEvent, PendingAction
from approvals.pages.mailboxes import members
from approvals.worker import maintenance
from tests.approvals.conftest import approve
from tests.conftest import Api, Reviewer, make_api
from tests.support.people.browser import browser
from tests.support.servers.memory import MemoryServer
from tests.support.work import work

pytestmark = pytest.mark.django_db(transaction=True)


def invited(manager: User, mailbox: Mailbox, email: str, role: str = "approver") -> str:
    """Invite by the page, and return the path of the link that an operator's command prints."""
    page = browser(manager).post(f"/mailboxes/{mailbox.pk}/invite/", {"email": email, "role": role})
    assert page.status_code == 200, page.content
    printed = StringIO()
    call_command("invitation_link", "--mailbox", mailbox.address, "--email", email, stdout=printed)
    return f"/invitations/{printed.getvalue().strip().partition('/invitations/')[2]}"


def role_of(person: User, mailbox: Mailbox) -> str | None:
    return (
        Membership.objects.filter(user=person, mailbox=mailbox)
        .values_list("role", flat=True)
        .first()
    )


def test_invitation_lets_one_person_in_once(alice: User, mailbox: Mailbox) -> None:
    link = invited(alice, mailbox, "New.Person@lovelace.example")
    window = Client()

    for _ in range(2):
        assert b'data-action="join"' in window.get(link).content
    assert not User.objects.filter(email="new.person@lovelace.example").exists()

    assert window.post(link).status_code == 302
    person = User.objects.get(email="new.person@lovelace.example")
    assert role_of(person, mailbox) == "approver"
    assert window.get(f"/mailboxes/{mailbox.pk}/").status_code == 200

    second = Client().post(link)
    assert second.status_code == 409
    assert "already used" in second.content.decode()
    assert Client().get(link).status_code == 410
    events = AuditEvent.objects.filter(mailbox=mailbox, event__in=["invited", "joined"])
    assert [event.event for event in events] == ["invited", "joined"]


@pytest.mark.parametrize(
    "reason", ["too old", "withdrawn", "inviter left", "disconnected", "invited again", "unknown"]
)
def test_ended_invitation_lets_nobody_in(
    alice: User, bob: User, mailbox: Mailbox, reason: str
) -> None:
    link = invited(alice, mailbox, "new@lovelace.example")
    match reason:
        case "too old":
            Invitation.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
        case "withdrawn":
            number = Invitation.objects.get().pk
            browser(alice).post(f"/mailboxes/{mailbox.pk}/invitations/{number}/withdraw/")
        case "inviter left":
            Membership.objects.filter(user=bob).update(role="manager")
            Membership.objects.filter(user=alice).delete()
        case "disconnected":
            Mailbox.objects.update(status="disconnected")
        case "invited again":
            invited(alice, mailbox, "new@lovelace.example")
        case "unknown":
            link = "/invitations/nonsense/"

    assert Client().get(link).status_code == 410
    assert Client().post(link).status_code == 409
    assert not User.objects.filter(email="new@lovelace.example").exists()


def test_foreign_invitation_is_refused_and_not_used_up(
    alice: User, charlie: User, mailbox: Mailbox
) -> None:
    link = invited(alice, mailbox, "new@lovelace.example")

    answer = browser(charlie).post(link)

    assert answer.status_code == 403
    assert "This invitation is for new@lovelace.example" in answer.content.decode()
    assert role_of(charlie, mailbox) is None
    assert Client().get(link).status_code == 200


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"email": "bob@lovelace.example", "role": "viewer"}, "is already a member"),
        ({"email": "nobody", "role": "viewer"}, "not an e-mail address"),
        ({"email": "x@lovelace.example", "role": "king"}, "king"),
    ],
)
def test_senseless_invitation_is_refused_in_words(
    alice: User, bob: User, mailbox: Mailbox, form: dict[str, str], words: str
) -> None:
    answer = browser(alice).post(f"/mailboxes/{mailbox.pk}/invite/", form)
    assert answer.status_code in (409, 422)
    assert words in answer.content.decode()
    assert not Invitation.objects.exists()


@pytest.mark.parametrize("step", ["leaves", "demotes herself"])
def test_last_manager_cannot_leave(alice: User, bob: User, mailbox: Mailbox, step: str) -> None:
    where = f"/mailboxes/{mailbox.pk}/members/{alice.pk}"
    window = browser(alice)
    path, form = ("remove/", {}) if step == "leaves" else ("role/", {"role": "viewer"})

    def go() -> Any:
        return window.post(f"{where}/{path}", form)

    answer = go()
    assert answer.status_code == 409
    assert "without a last day" in answer.content.decode()
    assert role_of(alice, mailbox) == "manager"

    window.post(f"/mailboxes/{mailbox.pk}/members/{bob.pk}/role/", {"role": "manager"})
    assert go().status_code == 302
    assert role_of(alice, mailbox) == (None if step == "leaves" else "viewer")


@pytest.fixture
def dora(mailbox: Mailbox) -> User:
    user = User.objects.create_user("dora@lovelace.example", first_name="Dora")
    Membership.objects.create(mailbox=mailbox, user=user, role=Role.APPROVER)
    return user


@pytest.mark.parametrize("how", ["removed", "left", "demoted", "came back", "promoted again"])
def test_leaving_voids_own_approvals_of_waiting_mail(
    api: Api, alice: User, bob: User, dora: User, mailbox: Mailbox, server: MemoryServer, how: str
) -> None:
    ApprovalPolicy.objects.create(mailbox=mailbox, approvals_needed=2)
    action_id = api.propose()
    Reviewer.signed_in(bob).decide(action_id, "approve")
    assert PendingAction.objects.get().approvals_given == 1

    where = f"/mailboxes/{mailbox.pk}/members/{bob.pk}"
    if how == "left":
        browser(bob).post(f"{where}/remove/")
    elif how in ("demoted", "promoted again"):
        browser(alice).post(f"{where}/role/", {"role": "viewer"})
    else:
        browser(alice).post(f"{where}/remove/")
    if how == "came back":
        browser(bob).post(invited(alice, mailbox, bob.email))
    if how == "promoted again":
        browser(alice).post(f"{where}/role/", {"role": "approver"})

    assert PendingAction.objects.get().approvals_given == 0
    assert AuditEvent.objects.filter(event="approval_lost", action_id=action_id).count() == 1
    Reviewer.signed_in(dora).decide(action_id, "approve")
    work()
    assert (PendingAction.objects.get().status, server.ledger) == ("pending", [])


def test_approving_again_after_a_return_counts_once(
    api: Api, alice: User, bob: User, dora: User, mailbox: Mailbox, server: MemoryServer
) -> None:
    ApprovalPolicy.objects.create(mailbox=mailbox, approvals_needed=2)
    action_id = api.propose()
    Reviewer.signed_in(bob).decide(action_id, "approve")
    browser(bob).post(f"/mailboxes/{mailbox.pk}/members/{bob.pk}/remove/")
    browser(bob).post(invited(alice, mailbox, bob.email))

    Reviewer.signed_in(bob).decide(action_id, "approve")

    assert PendingAction.objects.get().approvals_given == 1
    Reviewer.signed_in(dora).decide(action_id, "approve")
    work()
    assert len(server.ledger) == 1


def test_rejoining_does_not_restore_voided_approvals(
    api: Api, alice: User, bob: User, mailbox: Mailbox, server: MemoryServer
) -> None:
    action_id = api.propose()
    Reviewer.signed_in(bob).decide(action_id, "approve")
    browser(bob).post(f"/mailboxes/{mailbox.pk}/members/{bob.pk}/remove/")
    browser(bob).post(invited(alice, mailbox, bob.email))

    work()
    maintenance.sweep()

    action = PendingAction.objects.get()
    assert (action.status, server.ledger) == ("pending", [])
    assert action.returned["code"] == "approver_lost"  # type: ignore[index]


@pytest.mark.parametrize("end", ["left", "removed", "last day"])
def test_token_of_a_former_member_does_not_work_again(
    alice: User, bob: User, mailbox: Mailbox, end: str
) -> None:
    program = make_api(bob, mailbox)
    assert program.tool("list_emails").status_code == 200
    if end == "last day":
        yesterday = timezone.now() - timedelta(days=1)
        Membership.objects.filter(user=bob, mailbox=mailbox).update(ends_at=yesterday)
    else:
        by = bob if end == "left" else alice
        browser(by).post(f"/mailboxes/{mailbox.pk}/members/{bob.pk}/remove/")
    assert role_of(bob, mailbox) is None
    browser(bob).post(invited(alice, mailbox, bob.email))

    assert role_of(bob, mailbox) == "approver"
    assert program.tool("list_emails").status_code != 200
    assert program.tool("list_mailboxes").json()["mailboxes"] == []
    assert AuditEvent.objects.filter(mailbox=mailbox, event="token_narrowed").count() == 1


def test_raised_role_keeps_earlier_decisions(
    api: Api, alice: User, bob: User, mailbox: Mailbox, server: MemoryServer
) -> None:
    Reviewer.signed_in(bob).decide(api.propose(), "approve")
    browser(alice).post(f"/mailboxes/{mailbox.pk}/members/{bob.pk}/role/", {"role": "manager"})

    work()

    assert len(server.ledger) == 1


@pytest.mark.parametrize("needed", [1, 2])
@pytest.mark.parametrize("change", ["role", "rule"])
def test_approval_without_the_right_never_counts_again(
    api: Api,
    alice: User,
    bob: User,
    dora: User,
    mailbox: Mailbox,
    server: MemoryServer,
    change: str,
    needed: int,
) -> None:
    """Take the right to approve from a person and give it back, before the mail leaves."""

    def set_role(role: Role) -> None:
        members.change_role(mailbox=mailbox, person=alice, user_id=bob.pk, role=role)

    def set_rule(role: Role) -> None:
        rules = {name: getattr(policy_of(mailbox), name) for name in RULES}
        change_rules(mailbox=mailbox, person=alice, rules={**rules, "approver_role": role})

    set_role(Role.MANAGER if change == "role" else Role.APPROVER)
    ApprovalPolicy.objects.create(
        mailbox=mailbox,
        approvals_needed=needed,
        approver_role=Role.MANAGER if change == "role" else Role.APPROVER,
    )
    Membership.objects.filter(user=dora).update(role=Role.MANAGER)
    action_id = api.propose()
    approve(action_id, bob)

    if change == "role":
        set_role(Role.APPROVER)
        set_role(Role.MANAGER)
    else:
        set_rule(Role.MANAGER)
        set_rule(Role.APPROVER)

    if needed == 2:
        with suppress(Problem):  # it says first that a decision no longer counts
            approve(action_id, dora)
        approve(action_id, dora)
    work()
    maintenance.sweep()
    assert (PendingAction.objects.get().status, server.ledger) == ("pending", [])


def test_disconnecting_says_what_happens_to_waiting_mail(
    api: Api, alice: User, reviewer: Reviewer, mailbox: Mailbox, server: MemoryServer
) -> None:
    waiting, approved = api.propose(subject="waits"), api.propose(subject="approved")
    reviewer.decide(approved, "approve")
    window = browser(alice)
    said = window.get(f"/mailboxes/{mailbox.pk}/disconnect/").content.decode()
    assert "1 mail waits for a person." in said
    assert "1 mail is approved and has not left." in said

    before: Any = bytes(Mailbox.objects.get().credentials)
    assert window.post(f"/mailboxes/{mailbox.pk}/disconnect/").status_code == 302
    work()
    maintenance.sweep()

    mailbox.refresh_from_db()
    assert mailbox.status == "disconnected"
    assert bytes(mailbox.credentials) != before
    assert server.ledger == []
    assert set(PendingAction.objects.values_list("status", flat=True)) == {"pending"}
    assert reviewer.decide(waiting, "approve").status_code == 409


@pytest.mark.parametrize("step", ["role", "remove"])
def test_number_that_no_member_can_have_is_unknown(
    alice: User, mailbox: Mailbox, step: str
) -> None:
    path = f"/mailboxes/{mailbox.pk}/members/{10**25}/{step}/"
    assert browser(alice).post(path, {"role": "viewer"}).status_code == 404
