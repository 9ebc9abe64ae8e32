"""The rules of a mailbox: their sentences, and their evaluation at proposal, at approval and again
at the claim.
"""

from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from django.utils.html import strip_tags

from accounts.models import Mailbox, Membership, Role, User
from approvals import guards
from approvals.gate.rules.form import RulesForm
from approvals.gate.rules.policy import find_blocked, window_of
from approvals.gate.rules.sentences import hindrances
from approvals.models import ApprovalPolicy, Attempt, AuditEvent, PendingAction
from approvals.worker import maintenance
from tests.approvals.kinds import Script, handed_over
from tests.approvals.review_pages import text_of
from tests.conftest import Api, Reviewer, problem_of
from tests.support.people.browser import RULES, browser, post_rules, set_rules
from tests.support.servers.memory import MemoryServer
from tests.support.work import work

pytestmark = pytest.mark.django_db(transaction=True)


def page_of(person: User, mailbox: Mailbox) -> str:
    return str(browser(person).get(f"/mailboxes/{mailbox.pk}/").content.decode())


SAID: list[tuple[dict[str, Any], str]] = [
    ({"approver_role": "manager"}, "Only managers may approve."),
    ({"approvals_needed": 2}, "2 different people must approve."),
    (
        {"self_approval": "False"},
        "Proposers may approve neither their own proposals nor those of their tokens.",
    ),
    ({"action_hours": 3}, "A proposal waits 3 hours."),
    ({"approval_minutes": 15}, "An approval is valid for 15 minutes."),
    ({"undo_seconds": 30}, "An approval can be undone for 30 seconds."),
    ({"allowed": "northwind.example"}, "Mail may only go to northwind.example."),
    ({"refused": "*.evil.example\n@rival.example"}, "but never to evil.example, rival.example."),
    ({"daily_cap": 1}, "At most 1 mail leaves within 24 hours. The others wait."),
    (
        {
            "open_days": list("12345"),
            "open_from": "08:00",
            "open_until": "18:00",
            "time_zone": "Europe/Berlin",
        },
        "Friday from 08:00 to 18:00, Europe/Berlin time. At other times it waits.",
    ),
]


@pytest.mark.parametrize(
    ("change", "sentence"), SAID, ids=[next(iter(change)) for change, _ in SAID]
)
def test_changed_rule_is_audited_and_in_the_history_of_mail(
    api: Api, alice: User, bob: User, mailbox: Mailbox, change: dict[str, Any], sentence: str
) -> None:
    action_id = api.propose()

    assert post_rules(alice, mailbox, anyway="yes", **change).status_code == 302

    assert sentence in page_of(alice, mailbox)
    assert "Nothing ever leaves without a person." in page_of(alice, mailbox)
    event = AuditEvent.objects.get(event="policy_changed")
    assert (event.actor, set(event.data["changed"])) == (f"user:{alice.pk}", set(change))
    assert "evil" not in str(event.data)
    history = browser(bob).get(f"/actions/{action_id}/?view=history").content.decode()
    assert "The rules of the mailbox changed" in history
    assert "Alice" in history


def test_unchanged_value_is_no_change(alice: User, mailbox: Mailbox) -> None:
    post_rules(alice, mailbox)
    assert not AuditEvent.objects.filter(event="policy_changed").exists()


@pytest.mark.parametrize("confirm", [True, False])
@pytest.mark.parametrize(
    ("rules", "let"),
    [
        ({"refused": ["northwind.example"]}, False),
        ({"refused": ["mira@northwind.example"]}, False),
        ({"refused": ["other.example"]}, True),
        ({"allowed": ["northwind.example"]}, True),
        ({"allowed": ["lovelace.example"]}, False),
        ({"allowed": ["northwind.example"], "refused": ["mira@northwind.example"]}, False),
    ],
)
def test_mail_to_a_refused_recipient_cannot_be_proposed(
    api: Api, alice: User, mailbox: Mailbox, rules: dict[str, list[str]], let: bool, confirm: bool
) -> None:
    set_rules(alice, mailbox, **rules)

    answer = api.tool(
        "send_email", to=["mira@northwind.example"], subject="s", body="b", confirm=confirm
    )

    if let:
        assert answer.status_code in (200, 202)
    else:
        assert (answer.status_code, problem_of(answer)["code"]) == (403, "policy_blocked")
        assert not PendingAction.objects.exists()


def test_waiting_mail_is_judged_by_the_rules_at_approval(
    api: Api, alice: User, reviewer: Reviewer, mailbox: Mailbox, server: MemoryServer
) -> None:
    action_id = api.propose()
    set_rules(alice, mailbox, refused=["northwind.example"])

    answer = reviewer.decide(action_id, "approve")

    assert answer.status_code == 403
    assert "do not let mail go to mira@northwind.example" in answer.content.decode()
    assert AuditEvent.objects.get(event="approval_refused").data["code"] == "policy_blocked"
    work()
    assert (PendingAction.objects.get().status, server.ledger) == ("pending", [])


AFTERWARDS: dict[str, tuple[dict[str, Any], str]] = {
    "recipients": ({"refused": ["northwind.example"]}, "rules_changed"),
    "quorum": ({"approvals_needed": 2}, "approver_lost"),
    "approvers": ({"approver_role": "manager"}, "approver_lost"),
}


@pytest.mark.fault(17)
@pytest.mark.parametrize("rule", AFTERWARDS)
def test_rule_changed_after_approval_voids_it(
    api: Api, alice: User, bob: User, mailbox: Mailbox, server: MemoryServer, rule: str
) -> None:
    action_id = api.propose()
    Reviewer.signed_in(bob).decide(action_id, "approve")
    changes, code = AFTERWARDS[rule]
    set_rules(alice, mailbox, **changes)

    work()
    maintenance.sweep()

    action = PendingAction.objects.get()
    assert (action.status, server.ledger) == ("pending", [])
    assert action.returned is not None
    assert action.returned["code"] == code


def test_mail_that_new_rules_also_allow_keeps_its_approval(
    api: Api, alice: User, reviewer: Reviewer, mailbox: Mailbox, server: MemoryServer
) -> None:
    reviewer.decide(api.propose(), "approve")
    set_rules(alice, mailbox, refused=["evil.example"], allowed=["northwind.example"])

    work()

    assert len(server.ledger) == 1


def test_page_names_the_approvers_that_are_still_needed(
    api: Api, alice: User, bob: User, charlie: User, mailbox: Mailbox
) -> None:
    Membership.objects.create(mailbox=mailbox, user=charlie, role=Role.APPROVER)
    set_rules(alice, mailbox, approvals_needed=2)
    action_id = api.propose()

    def read(person: User) -> str:
        page = text_of(Reviewer.signed_in(person).page(action_id))
        return " ".join(strip_tags(page).split())

    own = read(alice)
    assert "Bob and Charlie must approve it." in own
    assert "You approve exactly this:" not in own
    first = read(bob)
    assert "Approve and send" not in first
    assert "Bob" not in first.split("approvals given.")[1].split("Agent")[0]

    Reviewer.signed_in(bob).decide(action_id, "approve")
    assert "Approve and send" in read(charlie)
    assert "Charlie can approve it." in read(bob)


def test_raised_quorum_applies_to_waiting_mail(
    api: Api, alice: User, bob: User, charlie: User, mailbox: Mailbox, server: MemoryServer
) -> None:
    Membership.objects.create(mailbox=mailbox, user=charlie, role=Role.APPROVER)
    action_id = api.propose()
    set_rules(alice, mailbox, approvals_needed=2)

    Reviewer.signed_in(bob).decide(action_id, "approve")
    work()
    assert (PendingAction.objects.get().status, server.ledger) == ("pending", [])
    assert "1 of 2 approvals given" in Reviewer.signed_in(bob).page(action_id).content.decode()
    others = Reviewer.signed_in(bob).client.get("/?tab=others").content.decode()
    assert "1 of 2 approvals" in others
    Reviewer.signed_in(charlie).decide(action_id, "approve")
    work()
    assert len(server.ledger) == 1


def test_rules_can_limit_approval_to_managers(
    api: Api, alice: User, bob: User, reviewer: Reviewer, mailbox: Mailbox
) -> None:
    set_rules(alice, mailbox, approver_role="manager")
    action_id = api.propose()

    assert Reviewer.signed_in(bob).decide(action_id, "approve").status_code == 403
    assert reviewer.decide(action_id, "approve").status_code == 302


def test_action_takes_its_times_from_the_rules(
    api: Api, alice: User, reviewer: Reviewer, mailbox: Mailbox
) -> None:
    set_rules(alice, mailbox, action_hours=2, approval_minutes=15, undo_seconds=60)
    action_id = api.propose()
    reviewer.decide(action_id, "approve")

    action = PendingAction.objects.get()
    assert action.approved_at is not None
    assert action.undo_until is not None
    assert action.approved_until is not None
    assert abs(action.expires_at - action.created_at - timedelta(hours=2)) < timedelta(seconds=5)
    assert abs(action.undo_until - action.approved_at - timedelta(seconds=60)) < timedelta(
        seconds=5
    )
    assert abs(action.approved_until - action.undo_until - timedelta(minutes=15)) < timedelta(
        seconds=5
    )


def test_full_day_makes_mail_wait_until_there_is_room(
    api: Api, alice: User, reviewer: Reviewer, mailbox: Mailbox, server: MemoryServer
) -> None:
    set_rules(alice, mailbox, daily_cap=1)
    for subject in ("first", "second"):
        reviewer.decide(api.propose(subject=subject), "approve")
        work()
    assert len(server.ledger) == 1
    assert PendingAction.objects.filter(status="approved").count() == 1

    with guards.lift_guards(connection):
        PendingAction.objects.filter(status="succeeded").update(
            finished_at=timezone.now() - timedelta(hours=25)
        )
    work()
    assert len(server.ledger) == 2


def test_old_unknown_does_not_fill_the_day(
    api: Api,
    alice: User,
    reviewer: Reviewer,
    mailbox: Mailbox,
    server: MemoryServer,
    script: Script,
) -> None:
    set_rules(alice, mailbox, daily_cap=1)
    script.instead = handed_over
    reviewer.decide(api.propose(subject="lost"), "approve")
    work()
    script.instead = None
    reviewer.decide(api.propose(subject="next"), "approve")
    work()
    assert server.ledger == []  # the first may have been sent a moment ago
    with guards.lift_guards(connection):
        Attempt.objects.update(wire_started_at=timezone.now() - timedelta(hours=25))
    work()
    assert len(server.ledger) == 1


def test_mail_waits_for_its_window_and_leaves_in_it(
    api: Api, alice: User, reviewer: Reviewer, mailbox: Mailbox, server: MemoryServer
) -> None:
    yesterday = (timezone.now() - timedelta(days=1)).isoweekday()
    set_rules(alice, mailbox, open_days=str(yesterday), open_from=time(0), open_until=time(0, 1))
    policy = ApprovalPolicy.objects.get()
    assert policy.opens_at is not None
    assert policy.opens_at > timezone.now()
    reviewer.decide(api.propose(), "approve")
    work()
    assert server.ledger == []

    # The window closed before anybody looked, and the sweeper moves the action to the next one.
    gone = timezone.now() - timedelta(days=6)
    ApprovalPolicy.objects.update(opens_at=gone, closes_at=gone + timedelta(minutes=1))
    work()
    assert server.ledger == []
    maintenance.sweep()
    policy.refresh_from_db()
    assert policy.opens_at > timezone.now()

    ApprovalPolicy.objects.update(opens_at=gone, closes_at=timezone.now() + timedelta(hours=1))
    work()
    assert len(server.ledger) == 1


MONDAY = datetime(2026, 11, 23, tzinfo=UTC)
WORKDAYS = {
    "open_days": "12345",
    "open_from": time(8),
    "open_until": time(18),
    "time_zone": "Europe/Berlin",
}


@pytest.mark.parametrize(
    ("rules", "now", "window"),
    [
        ({}, MONDAY, None),
        (
            WORKDAYS,
            MONDAY + timedelta(hours=6),
            ("2026-11-23T08:00+01:00", "2026-11-23T18:00+01:00"),
        ),
        (
            WORKDAYS,
            MONDAY + timedelta(hours=9),
            ("2026-11-23T08:00+01:00", "2026-11-23T18:00+01:00"),
        ),
        (
            WORKDAYS,
            MONDAY + timedelta(hours=17),
            ("2026-11-24T08:00+01:00", "2026-11-24T18:00+01:00"),
        ),
        (
            WORKDAYS,
            MONDAY + timedelta(days=4, hours=20),
            ("2026-11-30T08:00+01:00", "2026-11-30T18:00+01:00"),
        ),
        ({"open_days": "7"}, MONDAY, ("2026-11-29T00:00+00:00", "2026-11-30T00:00+00:00")),
        (
            {"open_from": time(8), "open_until": time(9)},
            MONDAY,
            ("2026-11-23T08:00+00:00", "2026-11-23T09:00+00:00"),
        ),
        # The night in which the clocks go back: eight o'clock local time stays eight o'clock.
        (
            {**WORKDAYS, "open_days": "17"},
            datetime(2026, 10, 24, 12, tzinfo=UTC),
            ("2026-10-25T08:00+01:00", "2026-10-25T18:00+01:00"),
        ),
        # The night in which they go forward has no hour between two and three.
        (
            {**WORKDAYS, "open_days": "7", "open_from": time(2), "open_until": time(3)},
            datetime(2027, 3, 22, 12, tzinfo=UTC),
            ("2027-04-04T02:00+02:00", "2027-04-04T03:00+02:00"),
        ),
        (
            {**WORKDAYS, "open_days": "", "open_from": time(2, 30), "open_until": time(3, 15)},
            datetime(2027, 3, 27, 12, tzinfo=UTC),
            ("2027-03-29T02:30+02:00", "2027-03-29T03:15+02:00"),
        ),
    ],
)
def test_window_follows_the_clock_on_the_wall(
    rules: dict[str, Any], now: datetime, window: tuple[str, str] | None
) -> None:
    found = window_of(ApprovalPolicy(**rules), now)
    assert (found and tuple(each.isoformat(timespec="minutes") for each in found)) == window


@pytest.mark.parametrize(
    ("address", "listed"),
    [
        ("a@evil.example", True), ("A@EVIL.example", True), ("a@sub.evil.example", True), ("a@notevil.example", False),
        ("bob@good.example", True), ("bobby@good.example", False), ("a@good.example", False),
    ],
)  # fmt: skip
def test_domain_rule_covers_subdomains_but_address_rule_does_not(
    address: str, listed: bool
) -> None:
    policy = ApprovalPolicy(refused=["evil.example", "bob@good.example"])
    assert bool(find_blocked(policy, [address])) is listed


IMPOSSIBLE: list[tuple[dict[str, Any], str]] = [
    ({"approvals_needed": 2}, "2 different people must approve, but only 1 may"),
    (
        {"self_approval": "False"},
        "Each proposal of Alice needs the approval of 1 other person, and 0 may",
    ),
    ({"allowed": "a.example", "refused": "a.example"}, "Nothing can be sent"),
    ({"open_days": ["1"], "approval_minutes": 5}, "An approval may expire"),
]


@pytest.mark.parametrize(("rules", "words"), IMPOSSIBLE)
def test_impossible_rules_are_reported_before_and_after(
    alice: User, mailbox: Mailbox, rules: dict[str, Any], words: str
) -> None:
    asked = post_rules(alice, mailbox, **rules)
    assert words in asked.content.decode()
    assert not ApprovalPolicy.objects.exists()

    assert post_rules(alice, mailbox, anyway="yes", **rules).status_code == 302
    assert words in page_of(alice, mailbox)


def test_account_that_is_off_is_no_possible_approver(bob: User, mailbox: Mailbox) -> None:
    policy = ApprovalPolicy(mailbox=mailbox, approvals_needed=2, self_approval=True)
    assert "but only 1 may" not in str(hindrances(policy))
    User.objects.filter(pk=bob.pk).update(is_active=False)
    assert "but only 1 may" in str(hindrances(policy))


def test_senseless_rules_are_refused_in_words(alice: User, mailbox: Mailbox) -> None:
    answer = post_rules(alice, mailbox, approvals_needed=0, daily_cap=4)
    assert answer.status_code == 422
    assert "Nothing was changed." in answer.content.decode()
    assert not ApprovalPolicy.objects.exists()


@pytest.mark.parametrize(
    "wrong",
    [
        {"approvals_needed": 0}, {"approvals_needed": 6}, {"action_hours": 0}, {"undo_seconds": -1}, {"daily_cap": 0},
        {"allowed": "not an address"}, {"refused": "a@b"}, {"refused": "example"}, {"time_zone": "Mars/Olympus"},
        {"open_from": "08:00"}, {"open_from": "18:00", "open_until": "08:00"}, {"approver_role": "viewer"},
        {"allowed": "x\x00.example"},
    ],
)  # fmt: skip
def test_form_finds_the_senseless_rule(wrong: dict[str, Any]) -> None:
    form = RulesForm({**RULES, **wrong})
    assert form.errors.keys() <= wrong.keys() | {"open_until"}
    assert form.errors
