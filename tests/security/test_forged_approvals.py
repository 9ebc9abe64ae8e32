"""An attacker can write to the database and has no key.

With or without the database's guards, nothing is sent.
"""

import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.models import F
from django.utils import timezone

from accounts.models import Mailbox, Membership, Role, User
from approvals import guards
from approvals.core.signatures import sign_decision, verify_decision
from approvals.gate import overdue
from approvals.gate.reconcile import may_have_left
from approvals.models import ApprovalPolicy, Attempt, AuditEvent, Decision, PendingAction
from tests.approvals.conftest import approve, approved, script
from tests.approvals.kinds import Script, handed_over
from tests.conftest import Api, Reviewer
from tests.support.servers.memory import MemoryServer
from tests.support.work import work

__all__ = ["approved", "script"]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]

OTHER_KEY = base64.b64encode(b"o" * 32).decode()


def forge_decision(action: PendingAction, person: User, **changes: Any) -> None:
    Decision.objects.create(
        **{
            "action": action,
            "person": person,
            "verdict": "approved",
            "revision": action.revision,
            "approval_round": action.approval_round,
            "digest": action.digest,
            "created_at": timezone.now(),
            "method": "password",
            "membership": Membership.objects.get(mailbox=action.mailbox, user=person).pk,
            **changes,
        }
    )


def forge_status(action: PendingAction, **changes: Any) -> None:
    now = timezone.now()
    PendingAction.objects.filter(pk=action.pk).update(
        **{
            "status": "approved",
            "approvals_given": 2,
            "approved_at": now,
            "not_before": now,
            "rules_version": 0,
            **changes,
        }
    )


def came_back(action: PendingAction) -> bool:
    action.refresh_from_db()
    events = AuditEvent.objects.filter(
        event="returned", action_id=action.pk, data__code="approval_unproven"
    )
    return (action.status, (action.returned or {}).get("code")) == (
        "pending",
        "approval_unproven",
    ) and events.exists()


def test_forged_approval_is_not_sent(
    api: Api, alice: User, reviewer: Reviewer, server: MemoryServer
) -> None:
    action = PendingAction.objects.get(pk=api.propose())
    forge_decision(action, alice)
    forge_status(action)

    work()

    assert server.ledger == []
    assert came_back(action)
    assert "has no valid signature" in reviewer.page(str(action.pk)).content.decode()
    assert reviewer.decide(str(action.pk), "approve").status_code == 302
    work()
    assert len(server.ledger) == 1


def test_forged_second_approval_does_not_count(
    api: Api, bob: User, mailbox: Mailbox, server: MemoryServer
) -> None:
    ApprovalPolicy.objects.create(mailbox=mailbox, approvals_needed=2)
    others = [User.objects.create_user(f"{name}@lovelace.example") for name in ("carol", "dave")]
    for other in others:
        Membership.objects.create(mailbox=mailbox, user=other, role=Role.APPROVER)
    action = PendingAction.objects.get(pk=api.propose())
    approve(action.pk, bob)
    forge_decision(action, others[0])
    assert approve(action.pk, bob).status == "pending"
    forge_status(action)
    work()
    assert server.ledger == []
    assert came_back(action)

    forge_decision(action, others[0])
    approve(action.pk, bob)  # the forged one is not counted with it
    action.refresh_from_db()
    assert action.status == "pending"
    approve(action.pk, others[1])
    work()
    assert server.ledger == []  # one forged row is enough to require a new approval
    assert came_back(action)


@pytest.mark.parametrize(
    "changes",
    [
        {"person": "bob"}, {"method": "mfa"}, {"seal": ""}, {"seal": "x"}, {"seal": f"{'0' * 8}:{'0' * 64}"},
        {"created_at": datetime(2026, 1, 1, tzinfo=UTC)},
    ],
)  # fmt: skip
def test_altered_approval_is_not_sent(
    approved: Callable[..., PendingAction], bob: User, server: MemoryServer, changes: dict[str, Any]
) -> None:
    """Alter it as an owner of the database who has removed the guards."""
    action = approved()
    if "person" in changes:
        changes = {"person": bob, "membership": Membership.objects.get(user=bob).pk}
    with guards.lift_guards(connection):
        Decision.objects.update(**changes)
    work()
    assert server.ledger == []
    assert came_back(action)


def test_approval_of_one_mail_is_invalid_for_another(
    approved: Callable[..., PendingAction], api: Api, alice: User, server: MemoryServer
) -> None:
    good = approved()
    work()
    said, good_order = Decision.objects.get(), PendingAction.objects.get(pk=good.pk).order_seal
    forged = PendingAction.objects.get(pk=api.propose(subject="Another"))
    forge_decision(forged, alice, method=said.method, created_at=said.created_at, seal=said.seal)
    forge_status(forged, order_seal=good_order)

    work()

    assert len(server.ledger) == 1
    assert came_back(forged)


def test_forged_ruling_does_not_resend_an_unknown_mail(
    approved: Callable[..., PendingAction], script: Script, server: MemoryServer
) -> None:
    """Forge only the ruling: the approval is real, but nobody ordered the second attempt."""
    action = approved()
    script.instead = handed_over
    work()
    script.instead = None
    action.refresh_from_db()
    assert action.status == "unknown"
    Attempt.objects.update(verdict="not_sent", evidence="person")
    forge_status(action, approvals_given=1)

    work()

    assert server.ledger == []
    assert came_back(action)


@pytest.mark.parametrize("another", [False, True])
def test_forged_claim_proves_no_attempt_unsent(
    approved: Callable[..., PendingAction], script: Script, server: MemoryServer, another: bool
) -> None:
    """Set an attempt back that the send journal knows, or add a claim that nobody ordered."""
    action = approved()
    script.instead = handed_over
    work()
    script.instead = None
    approved()
    work()
    past = timezone.now() - timedelta(minutes=1)
    with guards.lift_guards(connection):
        attempts = Attempt.objects.filter(action=action)
        if another:
            attempts.update(verdict="not_sent", proof="answer")
            Attempt.objects.create(action=action, fence=2, worker="x", started_at=past)
        else:
            attempts.update(phase="prepared", verdict=None, ended_at=None, wire_started_at=None)
        PendingAction.objects.filter(pk=action.pk).update(
            status="executing", lease_until=past, fence=2 if another else 1
        )

    overdue.end_dead_leases()
    work()

    action.refresh_from_db()
    assert (action.status, len(server.ledger)) == ("unknown", 1)
    assert may_have_left(action)


def test_mail_of_another_kind_than_its_content_is_not_sent(
    api: Api, reviewer: Reviewer, server: MemoryServer
) -> None:
    """The kind says what is checked before the send, such as an answer that came first."""
    action_id = api.propose()
    with guards.lift_guards(connection):
        PendingAction.objects.update(kind="mail.forward")
    assert reviewer.decide(action_id, "approve").status_code == 302

    work()

    assert server.ledger == []


def test_old_order_does_not_resend_a_sent_mail(
    approved: Callable[..., PendingAction], server: MemoryServer
) -> None:
    action = approved()
    work()
    with guards.lift_guards(connection):
        forge_status(action, approvals_given=1, receipt=None, finished_at=None)

    work()

    assert len(server.ledger) == 1
    assert came_back(action)


def test_withdrawn_mail_is_not_sent(
    api: Api, reviewer: Reviewer, settings: Any, server: MemoryServer
) -> None:
    settings.MAILHUB_UNDO_SECONDS = 60
    action = PendingAction.objects.get(pk=api.propose())
    reviewer.decide(str(action.pk), "approve")
    reviewer.decide(str(action.pk), "undo")
    with guards.lift_guards(connection):
        forge_status(action, approvals_given=1)
        Decision.objects.update(approval_round=2, revision=2)

    work()

    assert server.ledger == []
    assert came_back(action)


def test_approval_without_a_digest_must_be_given_again(
    approved: Callable[..., PendingAction], server: MemoryServer
) -> None:
    action = approved()
    with guards.lift_guards(connection):
        Decision.objects.update(seal="", method="")
        PendingAction.objects.update(order_seal="")
    work()
    assert server.ledger == []
    assert came_back(action)


def test_mail_ordered_again_by_a_person_leaves(
    approved: Callable[..., PendingAction], script: Script, reviewer: Reviewer, server: MemoryServer
) -> None:
    action = approved()
    script.instead = handed_over
    work()
    script.instead = None
    PendingAction.objects.update(next_probe_at=timezone.now() + timedelta(hours=1))
    action.refresh_from_db()
    assert (
        reviewer.decide(
            str(action.pk), "resolve", ruling="not_sent", fence=action.fence
        ).status_code
        == 302
    )
    PendingAction.objects.filter(not_before__isnull=False).update(not_before=F("created_at"))

    work()

    assert len(server.ledger) == 1


def test_digests_move_to_the_first_key_or_are_asked_again(
    approved: Callable[..., PendingAction], settings: Any, server: MemoryServer
) -> None:
    action, old = approved(), list(settings.MAILHUB_ENCRYPTION_KEYS)
    settings.MAILHUB_ENCRYPTION_KEYS = [OTHER_KEY, *old]
    call_command("rotate_keys", verbosity=0)
    call_command("rotate_keys", verbosity=0)  # no work is left
    settings.MAILHUB_ENCRYPTION_KEYS = [OTHER_KEY]
    work()
    assert len(server.ledger) == 1

    second = approved(subject="Second")
    with guards.lift_guards(connection):  # as if approved under a key that no longer exists
        Decision.objects.filter(action=second).update(seal=f"{'0' * 8}:{'0' * 64}")
    work()
    assert len(server.ledger) == 1
    assert came_back(second)
    action.refresh_from_db()
    assert action.status == "succeeded"


def test_decision_names_the_sign_in_method_of_its_person(api: Api, alice: User) -> None:
    alice.set_password("correct horse battery staple")
    alice.save()
    window = Reviewer.signed_in(alice)
    window.client.logout()
    page = window.client.get("/sign-in/")
    window.client.post(
        "/sign-in/",
        {
            "login": alice.email,
            "password": "correct horse battery staple",
            "csrfmiddlewaretoken": page.cookies["csrftoken"].value,
        },
    )
    window.decide(api.propose(), "approve")
    assert Decision.objects.get().method == "password"


@pytest.mark.parametrize(
    "change",
    [
        {"action": UUID(int=2)}, {"person": 2}, {"method": "mfa"}, {"verdict": "rejected"}, {"revision": 2},
        {"approval_round": 2}, {"digest": "e" * 64}, {"created_at": datetime(2026, 1, 2, tzinfo=UTC)},
        {"membership": 2}, {"membership": None}, {"account_generation": 1},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_decision_digest_fits_only_its_decision(change: dict[str, Any]) -> None:
    said: dict[str, Any] = {
        "action": UUID(int=1),
        "person": 1,
        "method": "password",
        "verdict": "approved",
        "revision": 1,
        "approval_round": 1,
        "digest": "d" * 64,
        "created_at": datetime(2026, 1, 1, tzinfo=UTC),
        "membership": 1,
        "account_generation": 0,
    }
    seal = sign_decision(**said)
    assert verify_decision(seal, **said)
    assert not verify_decision(seal, **{**said, **change})
