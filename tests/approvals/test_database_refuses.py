"""The database itself refuses every change that would bypass the gate, for every client, on SQLite
and PostgreSQL.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from accounts.models import Mailbox, Membership, Role, User
from approvals import guards
from approvals.core.states import TRANSITIONS, Status
from approvals.gate import send_back
from approvals.guards import rules as guard_rules
from approvals.management.commands import flush
from approvals.models import ApprovalPolicy, Attempt, Decision, PendingAction, Revision
from tests.approvals.conftest import approve
from tests.approvals.guarded import SOON, claimed, only, pending, refused, sql
from tests.conftest import Api

__all__ = ["pending"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


@pytest.mark.fault(18)
def test_database_contains_all_guards(db: None) -> None:
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("SELECT sql FROM sqlite_master WHERE type = 'trigger' ORDER BY name")
            wanted = sorted(guards.statements("sqlite"))
        else:
            cursor.execute(
                "SELECT tgname FROM pg_trigger WHERE tgname LIKE '%_guard_%' AND tgenabled = 'O'"
            )
            wanted = sorted(
                {f"{rule.table}_guard_{rule.event.lower()}" for rule in guard_rules.RULES}
            )
        assert sorted(row[0] for row in cursor.fetchall()) == wanted


@pytest.mark.fault(18)
@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ("status = 'approved', approvals_given = 1", "action_needs_decisions"),
        ("status = 'approved', approvals_given = 1, approvals_needed = 0", "action_frozen"),
        (
            "status = 'executing', approvals_given = 1, fence = 1, lease_until = '2030-01-01'",
            "action_transition",
        ),
        ("status = 'succeeded', approvals_given = 1, receipt = '{}'", "action_outcome_backed"),
        ("fence = 5", "action_fence"),
        ("approval_round = 3", "action_round"),
        ("digest = 'x'", "action_payload_frozen"),
        ("revision = 2", "action_payload_frozen"),
        ("message_id = '<other@evil.example>'", "action_frozen"),
        ("kind = 'm365.command'", "action_frozen"),
        ("tool = 'other'", "action_frozen"),
        ("proposer_name = 'somebody else'", "action_frozen"),
        ("token_id = NULL", "action_frozen"),
        ("approvals_needed = 2", "action_frozen"),
        ("proposer_id = proposer_id + 1", "action_frozen"),
    ],
)
def test_sql_that_changes_a_pending_action_is_refused(
    pending: PendingAction, change: str, rule: str
) -> None:
    # On SQLite the order of triggers is not defined: it is enough that one of them refuses.
    name = refused(sql(f"UPDATE approvals_pendingaction SET {change} WHERE id = %s", pending))

    assert name == rule or connection.vendor == "sqlite"
    pending.refresh_from_db()
    assert (pending.status, pending.revision, pending.fence) == ("pending", 1, 0)


@pytest.mark.fault(18)
def test_orm_update_that_changes_a_pending_action_fails(
    pending: PendingAction, foreign_mailbox: Mailbox, charlie: User
) -> None:
    assert refused(only(pending, status="approved", approvals_given=1)) == "action_needs_decisions"
    assert refused(only(pending, mailbox=foreign_mailbox)) == "action_frozen"
    assert refused(only(pending, proposer=charlie)) == "action_frozen"
    pending.status = "approved"
    pending.approvals_given = 9
    assert refused(pending.save) == "action_needs_decisions"


@pytest.mark.fault(18)
@pytest.mark.parametrize("born", ["approved", "executing", "unknown", "succeeded", "rejected"])
def test_action_created_as_decided_is_refused(pending: PendingAction, born: str) -> None:
    values: dict[str, Any] = {
        **PendingAction.objects.values().get(),
        "id": None,
        "message_id": "<new@mailhub.example>",
        "status": born,
        "approvals_given": 0,
        "lease_until": SOON if born == "executing" else None,
        "receipt": {} if born == "succeeded" else None,
    }
    del values["id"]

    assert refused(lambda: PendingAction.objects.create(**values)) == "action_born_pending"


@pytest.mark.fault(18)
def test_only_state_changes_of_the_table_are_possible(api: Api) -> None:
    for source in Status:
        action = PendingAction.objects.get(pk=api.propose())
        with guards.lift_guards(connection):
            only(action, **_columns(source))()
        for target in Status:
            if target == source:
                continue
            try:
                with transaction.atomic():
                    only(action, **_columns(target))()
                    transaction.set_rollback(True)
                rule = ""
            except IntegrityError as error:
                rule = str(error)
            allowed = target in TRANSITIONS.get(source, ())
            if connection.vendor == "postgresql":
                assert ("action_transition" in rule) is not allowed, f"{source} → {target}: {rule}"
            assert rule or allowed, f"{source} → {target}"
        with guards.lift_guards(connection):  # a mailbox may send only one mail at a time
            only(action, **_columns(Status.REJECTED))()


def _columns(status: Status) -> dict[str, Any]:
    """Return the columns that the check constraints require in this state."""
    return {
        "status": status,
        "approvals_given": 1,
        "receipt": {} if status is Status.SUCCEEDED else None,
        "lease_until": SOON if status is Status.EXECUTING else None,
    }


@pytest.mark.fault(18)
def test_decisions_about_another_revision_do_not_count(pending: PendingAction, alice: User) -> None:
    now = timezone.now()
    said = {"action": pending, "person": alice, "verdict": "approved", "created_at": now}
    right = {"revision": 1, "approval_round": 1, "digest": pending.digest}
    for wrong in ({"revision": 2}, {"approval_round": 2}, {"digest": "0" * 64}):
        values = {**said, **right, **wrong}
        assert refused(partial(Decision.objects.create, **values)) == "decision_of_what_is_there"
    Decision.objects.create(**{**said, **right, "verdict": "rejected"})
    assert refused(only(pending, status="approved", approvals_given=1)) == "action_needs_decisions"


@pytest.mark.fault(18)
def test_quorum_needs_different_people_and_no_author(
    api: Api, mailbox: Mailbox, bob: User, alice: User
) -> None:
    ApprovalPolicy.objects.create(mailbox=mailbox, approvals_needed=2)
    action = PendingAction.objects.get(pk=api.propose())
    yes = {
        "action": action,
        "verdict": "approved",
        "revision": 1,
        "approval_round": 1,
        "digest": action.digest,
    }
    approve(action.pk, bob)
    rests = {"person": bob, "membership": Membership.objects.get(user=bob).pk}

    assert (
        "decision_one_approval_a_person"
        in refused(partial(Decision.objects.create, **yes, **rests, created_at=timezone.now()))
        or connection.vendor == "sqlite"
    )
    # The owner of the proposing token.
    Decision.objects.create(**yes, person=alice, created_at=timezone.now())
    assert refused(only(action, status="approved", approvals_given=2)) == "action_needs_decisions"


@pytest.mark.fault(18)
def test_edit_and_approval_in_one_statement_is_refused(pending: PendingAction, alice: User) -> None:
    new = {
        "payload": {},
        "preview": {},
        "digest": "1" * 64,
        "author": alice,
        "created_at": timezone.now(),
    }
    Revision.objects.create(action=pending, number=2, **new)

    rule = refused(only(pending, digest="1" * 64, revision=2, status="approved", approvals_given=1))

    assert rule in ("action_payload_frozen", "action_needs_decisions")
    only(pending, digest="1" * 64, revision=2)()  # only an edit is allowed


@pytest.mark.fault(18)
def test_claim_needs_the_decisions_of_this_round(approved: Callable[..., PendingAction]) -> None:
    action = approved()
    back = {"status": "pending", "approvals_given": 0}
    assert refused(only(action, **back)) == "action_round"
    only(action, **back, approval_round=2)()

    assert refused(only(action, status="approved", approvals_given=1)) == "action_needs_decisions"


@pytest.mark.fault(18)
def test_only_a_claim_moves_the_fence_and_by_one(approved: Callable[..., PendingAction]) -> None:
    action = approved()
    leaving = {"status": "executing", "lease_until": SOON}

    assert refused(only(action, **leaving)) == "action_fence"
    assert refused(only(action, **leaving, fence=2)) == "action_fence"
    assert refused(only(action, fence=1)) == "action_fence"
    claimed(action)
    assert refused(only(action, fence=2)) == "action_fence"
    assert refused(only(action, fence=0)) == "action_fence"


@pytest.mark.fault(18)
@pytest.mark.parametrize(
    ("target", "more"),
    [("succeeded", {"receipt": {}}), ("failed", {}), ("approved", {}), ("unknown", {})],
)
def test_outcome_without_an_attempt_is_refused(
    approved: Callable[..., PendingAction], target: str, more: dict[str, Any]
) -> None:
    action = claimed(approved())

    assert refused(only(action, status=target, lease_until=None, **more)) == "action_outcome_backed"


@pytest.mark.fault(18)
def test_unknown_outcome_cannot_be_resent_by_sql(approved: Callable[..., PendingAction]) -> None:
    action = claimed(approved())
    now = timezone.now()
    Attempt.objects.update(phase="wire_started", wire_started_at=now)
    Attempt.objects.update(verdict="unknown", ended_at=now)
    only(action, status="unknown", lease_until=None)()

    assert refused(only(action, status="approved")) == "action_outcome_backed"
    again = refused(only(action, status="executing", fence=2, lease_until=SOON))
    assert again in ("action_transition", "action_fence", "action_outcome_backed")
    assert refused(lambda: Attempt.objects.update(verdict=None, ended_at=None)) == "attempt_forward"


@pytest.mark.parametrize(
    "earlier",
    [
        {"verdict": "accepted"},
        {"verdict": "unknown"},
        {"verdict": "not_sent", "evidence": "person"},
    ],
)
def test_second_copy_needs_a_proof_or_a_persons_order(
    approved: Callable[..., PendingAction], earlier: dict[str, str]
) -> None:
    action = claimed(approved())
    now = timezone.now()
    started = {"phase": "wire_started", "wire_started_at": now}
    with guards.lift_guards(connection):
        Attempt.objects.update(**started, **earlier, ended_at=now)
        only(action, fence=2)()
    Attempt.objects.create(action=action, fence=2, worker="x", started_at=now)
    second = Attempt.objects.filter(fence=2)

    assert refused(lambda: second.update(**started)) == "attempt_second_copy_ordered"
    second.update(**started, verdict="accepted", ended_at=now)  # evidence is never refused


def test_unsent_attempt_needs_a_proof(approved: Callable[..., PendingAction]) -> None:
    claimed(approved())
    ended = {"ended_at": timezone.now(), "evidence": "answer"}

    for verdict in ("not_sent", "refused"):
        unproven = partial(Attempt.objects.update, verdict=verdict, **ended)
        assert refused(unproven) == "attempt_unsent_is_proven"
    Attempt.objects.update(verdict="refused", proof="answer", **ended)


def test_guards_come_and_go_with_their_migration(db: None) -> None:
    guards.remove(connection)
    guards.remove(connection)
    guards.install(connection)
    guards.install(connection)

    test_database_contains_all_guards(None)


def test_approver_role_is_checked_in_the_code(
    pending: PendingAction, mailbox: Mailbox, charlie: User
) -> None:
    """Check that the database counts people; the claim judges their roles."""
    member = Membership.objects.create(mailbox=mailbox, user=charlie, role=Role.VIEWER)
    Decision.objects.create(
        action=pending,
        person=charlie,
        membership=member.pk,
        verdict="approved",
        revision=1,
        approval_round=1,
        digest=pending.digest,
        created_at=timezone.now(),
    )
    now = timezone.now()
    only(pending, status="approved", approvals_given=1, approved_at=now, not_before=now)()

    send_back.send_back()
    pending.refresh_from_db()
    assert (pending.status, pending.returned) == (
        "pending",
        {
            "code": "approver_lost",
            "detail": pending.returned and pending.returned["detail"],
            "warnings": [],
        },
    )


def test_flush_command_works_and_keeps_the_guards(
    pending: PendingAction,
) -> None:
    before = guards_that_stand()
    call_command(flush.Command(), verbosity=0, interactive=False)
    assert not PendingAction.objects.exists()
    assert guards_that_stand() == before != []


def guards_that_stand() -> list[str]:
    catalogue = {
        "sqlite": "SELECT name FROM sqlite_master WHERE type = 'trigger' ORDER BY name",
        "postgresql": "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal ORDER BY tgname",
    }
    with connection.cursor() as cursor:
        cursor.execute(catalogue[connection.vendor])
        return [name for (name,) in cursor.fetchall()]


def test_own_approval_of_an_author_is_refused_by_the_database(
    pending: PendingAction, alice: User
) -> None:
    """Refuse it although one approval is enough: the rules of the mailbox require somebody else."""
    ApprovalPolicy.objects.create(mailbox=pending.mailbox, self_approval=False)
    Decision.objects.create(
        action=pending,
        person=alice,
        verdict="approved",
        revision=1,
        approval_round=1,
        digest=pending.digest,
        created_at=timezone.now(),
    )
    attack = only(pending, status="approved", approvals_given=1)
    assert refused(attack) == "action_needs_decisions"
    ApprovalPolicy.objects.update(self_approval=True)
    attack()


def test_ruling_leads_to_no_copy_without_a_new_approval(
    pending: PendingAction, alice: User
) -> None:
    action = claimed(approve(pending.pk, alice))
    attempts = Attempt.objects.filter(action=action)
    attempts.update(phase="wire_started", wire_started_at=timezone.now())
    attempts.update(verdict="unknown", ended_at=timezone.now())
    only(action, status="unknown", lease_until=None)()
    attempts.update(verdict="not_sent", evidence="person", ruled_at=timezone.now())
    assert refused(only(action, status="approved")) == "action_outcome_backed"
    assert refused(only(action, status="pending")) == "action_round"
