"""A membership with a first or a last day gives its rights on these days only."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from accounts.access.caller import Caller
from accounts.access.roles import mailboxes
from accounts.models import Invitation, Mailbox, Membership, Role, User
from accounts.people.recovery import recover
from approvals.gate.rules.approvers import find_approvers, find_with_role
from approvals.models import AuditEvent, PendingAction
from approvals.outbound.notifications.messages import count_waiting
from approvals.pages import discussion
from approvals.pages.mailboxes import members
from approvals.worker import maintenance
from tests.conftest import Api
from tests.security.people import decide, state_of
from tests.support.people.browser import browser
from tests.support.servers.memory import MemoryServer
from tests.support.work import work

pytestmark = pytest.mark.django_db(transaction=True)
DAY = timedelta(days=1)


def limit(person: User, *, starts: timedelta | None = None, ends: timedelta | None = None) -> None:
    now = timezone.now()
    Membership.on_any_day.filter(user=person).update(
        starts_at=now + starts if starts else None, ends_at=now + ends if ends else None
    )


def set_days(manager: User, member: User, mailbox: Mailbox, **days: Any) -> Any:
    form = {"role": Membership.on_any_day.get(user=member, mailbox=mailbox).role, **days}
    return browser(manager).post(f"/mailboxes/{mailbox.pk}/members/{member.pk}/role/", form)


@pytest.mark.parametrize(
    "period", [{"ends": -DAY}, {"starts": DAY, "ends": 2 * DAY}], ids=["over", "not yet"]
)
def test_no_right_exists_outside_the_days(
    api: Api, alice: User, bob: User, mailbox: Mailbox, period: dict[str, timedelta]
) -> None:
    action = PendingAction.objects.get(pk=api.propose())
    limit(bob, **period)

    for verdict in ("approve", "reject", "edit", "ask_back", "cancel", "assign", "comment"):
        assert decide(bob, str(action.pk), verdict, note="no", text="no") == 404, verdict
    assert browser(bob).get(f"/mailboxes/{mailbox.pk}/").status_code == 404
    assert b"alice@lovelace.example" not in browser(bob).get("/mailboxes/").content
    assert not mailboxes(Caller(user=bob, surface="rest")).exists()
    assert find_approvers([action])[action.pk] == {alice.pk}
    assert find_with_role([mailbox.pk], Role.VIEWER)[mailbox.pk] == {alice.pk}
    assert bob not in discussion.find_assignable(action)
    assert count_waiting(bob.pk) == 0
    limit(bob, starts=-DAY, ends=DAY)
    assert decide(bob, str(action.pk)) == 302


def test_approval_is_void_after_the_last_day(api: Api, bob: User, server: MemoryServer) -> None:
    limit(bob, ends=DAY)
    action_id = api.propose()
    assert decide(bob, action_id) == 302
    limit(bob, ends=timedelta(milliseconds=-1))

    work()
    maintenance.sweep()

    assert (state_of(action_id), len(server.ledger)) == ("pending", 0)
    assert PendingAction.objects.get(returned__code="approver_lost")


def test_approval_from_before_the_first_day_is_void(
    api: Api, alice: User, bob: User, mailbox: Mailbox, server: MemoryServer
) -> None:
    """The days that follow a pause or an end do not revive what was approved before."""
    action_id = api.propose()
    decide(bob, action_id)
    tomorrow = timezone.localdate() + DAY
    assert set_days(alice, bob, mailbox, first_day=str(tomorrow)).status_code == 302
    limit(bob, starts=timedelta(microseconds=-1))
    maintenance.sweep()
    assert (state_of(action_id), len(server.ledger)) == ("pending", 0)

    decide(bob, action_id)
    limit(bob, ends=timedelta(microseconds=-1))
    assert set_days(alice, bob, mailbox).status_code == 302
    work()
    maintenance.sweep()

    assert (state_of(action_id), len(server.ledger)) == ("pending", 0)


def test_last_day_takes_an_approval_of_waiting_mail(
    by_pat: Api, alice: User, bob: User, mailbox: Mailbox
) -> None:
    action_id = by_pat.propose()
    decide(bob, action_id)
    yesterday = timezone.localdate() - DAY

    assert set_days(alice, bob, mailbox, last_day=str(yesterday)).status_code == 302

    assert PendingAction.objects.get().approvals_given == 0
    assert AuditEvent.objects.filter(event="approval_lost").exists()
    assert decide(alice, action_id) == 302
    assert state_of(action_id) == "pending"


@pytest.mark.parametrize("how", ["last day", "recovery", "closed and opened"])
def test_pages_count_no_approval_that_time_has_taken(
    by_pat: Api, alice: User, bob: User, how: str
) -> None:
    action = PendingAction.objects.get(pk=by_pat.propose())
    assert decide(bob, str(action.pk)) == 302
    if how == "last day":
        limit(bob, ends=timedelta(milliseconds=-1))
    elif how == "recovery":
        recover(bob)
    else:
        for is_active in (False, True):
            bob.is_active = is_active
            bob.save()

    for place in (f"/actions/{action.pk}/", "/"):
        page = " ".join(browser(alice).get(place).content.decode().split())
        assert "0 of 2 approvals" in page
        assert "1 of 2 approvals" not in page
    assert (bob.pk in find_approvers([action])[action.pk]) is (how != "last day")


def test_new_days_do_not_wake_old_tokens(
    by_pat: Api, alice: User, bob: User, mailbox: Mailbox
) -> None:
    pat = PendingAction.objects.get(pk=by_pat.propose()).proposer
    limit(pat, ends=-DAY)

    set_days(alice, pat, mailbox)

    assert Membership.objects.filter(user=pat).exists()
    assert by_pat.tool("list_mailboxes").json()["mailboxes"] == []
    assert AuditEvent.objects.filter(event="token_narrowed", mailbox=mailbox.pk).exists()


def test_manager_sets_and_clears_the_days(alice: User, bob: User, mailbox: Mailbox) -> None:
    first, last = timezone.localdate(), timezone.localdate() + 3 * DAY
    days = {"first_day": str(first), "last_day": str(last)}
    assert set_days(alice, bob, mailbox, **days).status_code == 302

    row = Membership.objects.get(user=bob)
    assert (row.first_day, row.last_day) == (first, last)
    page = browser(alice).get(f"/mailboxes/{mailbox.pk}/").content.decode()
    assert f"until {last.day} {last:%b %Y}" in page
    event = AuditEvent.objects.get(event="role_changed")
    assert (event.data["since"], event.data["until"]) == (str(first), str(last))
    elsewhere = browser(alice)
    elsewhere.cookies["zone"] = "Asia/Tokyo"
    with timezone.override("Asia/Tokyo"):
        shown = {"first_day": str(row.first_day), "last_day": str(row.last_day)}
    where = f"/mailboxes/{mailbox.pk}/members/{bob.pk}/role/"
    elsewhere.post(where, {"role": row.role, **shown})
    kept = Membership.objects.get(user=bob)
    assert (kept.starts_at, kept.ends_at) == (row.starts_at, row.ends_at)

    wrong = set_days(alice, bob, mailbox, first_day=str(last), last_day=str(first))
    assert (wrong.status_code, Membership.objects.get(user=bob).ends_at) == (422, row.ends_at)
    assert set_days(bob, bob, mailbox).status_code == 403
    set_days(alice, bob, mailbox)
    assert Membership.objects.get(user=bob).ends_at is None


def test_last_manager_has_no_last_day(alice: User, bob: User, mailbox: Mailbox) -> None:
    last = str(timezone.localdate() + 3 * DAY)
    assert set_days(alice, alice, mailbox, last_day=last).status_code == 409
    assert set_days(alice, alice, mailbox, first_day=last).status_code == 409
    Membership.objects.filter(user=bob).update(role="manager", ends_at=timezone.now() + DAY)

    assert set_days(alice, alice, mailbox, last_day=last).status_code == 409
    assert not Membership.objects.filter(user=alice).exclude(ends_at=None).exists()
    assert set_days(alice, bob, mailbox).status_code == 302
    assert set_days(alice, alice, mailbox, last_day=last).status_code == 302


def test_manager_with_a_last_day_changes_no_member(
    alice: User, bob: User, mailbox: Mailbox
) -> None:
    secret = members.invite(mailbox=mailbox, person=alice, email="new@x.example", role=Role.VIEWER)
    limit(bob, ends=DAY)
    Membership.objects.filter(user=bob).update(role=Role.MANAGER)
    where, by_bob = f"/mailboxes/{mailbox.pk}", browser(bob)

    assert set_days(bob, bob, mailbox).status_code == 403
    assert set_days(bob, alice, mailbox, role="viewer").status_code == 403
    invitation = Invitation.objects.get()
    for path in (f"members/{alice.pk}/remove/", f"invitations/{invitation.pk}/withdraw/"):
        assert by_bob.post(f"{where}/{path}").status_code == 403, path
    form = {"email": "bob2@x.example", "role": "manager"}
    assert by_bob.post(f"{where}/invite/", form).status_code == 403
    page = by_bob.get(f"{where}/").content.decode()
    assert "/role/" not in page
    assert "Change the rules" in page
    assert members.invitation_behind(secret) is not None
    assert by_bob.post(f"{where}/members/{bob.pk}/remove/").status_code == 302  # leaves


def test_former_member_is_invited_again(alice: User, bob: User, mailbox: Mailbox) -> None:
    limit(bob, ends=-DAY)
    secret = members.invite(mailbox=mailbox, person=alice, email=bob.email, role=Role.VIEWER)
    members.accept_invitation(secret=secret, person=bob)
    row = Membership.objects.get(user=bob)
    assert (row.role, row.ends_at) == ("viewer", None)


def test_every_right_is_read_through_the_current_members() -> None:
    """No other model leads to a membership, and only the page of members reads all of them."""
    assert not {each.name for each in (*Mailbox._meta.get_fields(), *User._meta.get_fields())} & {
        "members",
        "membership",
        "memberships",
        "mailboxes",
    }
    root = Path(__file__).parents[2]
    found = {
        str(path.relative_to(root))
        for package in ("accounts", "approvals", "tools", "mailhub")
        for path in (root / package).rglob("*.py")
        if re.search(r"on_any_day|_base_manager|accounts_membership", path.read_text())
    }
    assert found == {
        "accounts/admin.py",
        "accounts/models/mailboxes.py",
        "approvals/pages/mailboxes/mailbox_views.py",
        "approvals/pages/mailboxes/members.py",
        "approvals/pages/mailboxes/personal_data.py",
        "mailhub/operations/personal_data.py",
    }
