"""Operations on one mailbox wait for each other; they never deadlock."""

import itertools
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest
from django.db import OperationalError, connection, connections, transaction
from django.db.models.functions import Now
from psycopg.errors import DeadlockDetected

from accounts.access.caller import Caller
from accounts.connect.connecting import connect_mailbox, load_access
from accounts.infra.problems import Problem
from accounts.infra.transactions import retry_if_rolled_back
from accounts.models import Mailbox, Membership, Role, User
from approvals.gate import decide
from approvals.gate.execute import execute
from approvals.gate.load import lock_action
from approvals.gate.pauses import switch
from approvals.gate.rules import change
from approvals.gate.rules.change import RULES
from approvals.models import ApprovalPolicy, PendingAction
from approvals.pages.mailboxes import members
from approvals.worker import maintenance
from tests.conftest import Api
from tests.support.concurrently import until_a_lock_is_waited_for

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300), pytest.mark.both]
WAIT_SECONDS = 120


@pytest.mark.postgres_only
@pytest.mark.parametrize("rounds", [2, pytest.param(10, marks=pytest.mark.long)])
def test_no_two_operations_deadlock(
    api: Api, alice: User, bob: User, mailbox: Mailbox, rounds: int
) -> None:
    carol = User.objects.create_user("carol@lovelace.example")
    Membership.objects.create(mailbox=mailbox, user=carol, role=Role.APPROVER)
    ApprovalPolicy.objects.create(mailbox=mailbox, approvals_needed=2)
    subjects = itertools.count()

    def newest() -> PendingAction:
        return PendingAction.objects.latest("created_at")

    def approve(person: User) -> None:
        action = newest()
        decide.approve(
            action_id=action.pk, person=person, digest=action.digest, revision=action.revision
        )

    def change_role() -> None:
        role = (
            Role.VIEWER
            if Membership.objects.get(mailbox=mailbox, user=carol).role == Role.APPROVER
            else Role.APPROVER
        )
        members.change_role(mailbox=mailbox, person=alice, user_id=carol.pk, role=role)

    def change_rules() -> None:
        policy = ApprovalPolicy.objects.get(mailbox=mailbox)
        rules = {name: getattr(policy, name) for name in RULES} | {
            "refused": [f"x{next(subjects)}.example"]
        }
        change.change_rules(mailbox=mailbox, person=alice, rules=rules)

    def reconnect() -> None:
        fresh = Mailbox.objects.get(pk=mailbox.pk)
        connect_mailbox(
            owner=alice,
            address=fresh.address,
            provider=fresh.provider,
            secrets=load_access(fresh),
            scopes=fresh.scopes,
        )

    operations: dict[str, Callable[[], object]] = {
        "propose": lambda: api.propose(subject=f"mail {next(subjects)}"),
        "approve": lambda: approve(bob),
        "approve too": lambda: approve(carol),
        "reject": lambda: decide.reject(action_id=newest().pk, person=bob),
        "undo": lambda: decide.undo(action_id=newest().pk, person=bob),
        "cancel": lambda: decide.cancel(
            action_id=newest().pk, caller=Caller(user=bob, surface="web")
        ),
        "carry out": lambda: execute(newest().pk, worker="test"),
        "sweep": maintenance.sweep,
        "change role": change_role,
        "change rules": change_rules,
        "invite": lambda: members.invite(
            mailbox=mailbox, person=alice, email=f"n{next(subjects)}@x.example", role=Role.VIEWER
        ),
        "reconnect": reconnect,
        "pause": lambda: switch.pause(mailbox=mailbox, actor="command"),
        "resume": lambda: switch.resume(mailbox=mailbox, actor="command"),
    }
    api.propose(subject="first")
    before = deadlocks()
    for (one, first), (other, second) in itertools.combinations(operations.items(), 2):
        failed = at_once(rounds, first, second)
        assert failed == [], (one, other)
    assert deadlocks() == before


def deadlocks() -> int:
    """Return how often PostgreSQL has ended a transaction of this database for a deadlock."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        (count,) = cursor.fetchone()
    return int(count)


def at_once(rounds: int, *calls: Callable[[], object]) -> list[BaseException]:
    """Repeat the calls at the same time, and return the exceptions that are no refusals."""
    errors: list[BaseException] = []

    def work(call: Callable[[], object]) -> None:
        try:
            for _ in range(rounds):
                with suppress(Problem):
                    call()
        except BaseException as error:
            errors.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=work, args=[call]) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_SECONDS)
        assert not thread.is_alive()
    return errors


@pytest.mark.postgres_only
def test_rolled_back_transaction_is_retried(alice: User, bob: User) -> None:
    """Let two transactions take two rows in opposite order; PostgreSQL ends one, which then
    succeeds.
    """
    meet = threading.Barrier(2, timeout=WAIT_SECONDS)

    def rename(first: User, second: User) -> Callable[[], None]:
        tries = itertools.count()

        @retry_if_rolled_back
        @transaction.atomic
        def both() -> None:
            attempt = next(tries)
            User.objects.filter(pk=first.pk).update(last_name="Changed")
            if attempt == 0:
                meet.wait()
            User.objects.filter(pk=second.pk).update(last_name="Changed")

        return both

    assert at_once(1, rename(alice, bob), rename(bob, alice)) == []
    assert User.objects.filter(last_name="Changed").count() == 2


def test_failure_inside_a_callers_transaction_is_not_retried() -> None:
    calls = []

    @retry_if_rolled_back
    def fails() -> None:
        calls.append(1)
        raise OperationalError("deadlock detected") from DeadlockDetected()

    with pytest.raises(OperationalError), transaction.atomic():
        fails()
    assert calls == [1]


@pytest.mark.postgres_only
@pytest.mark.parametrize(
    ("code", "change"),
    [
        (
            "forbidden",
            lambda: Membership.objects.filter(user__first_name="Bob").update(role=Role.VIEWER),
        ),
        (
            "policy_blocked",
            lambda: ApprovalPolicy.objects.update(refused=["northwind.example"]),
        ),
        ("conflict", lambda: PendingAction.objects.update(expires_at=Now())),
    ],
)
def test_approval_that_waited_is_judged_by_the_present_state(
    code: str, change: Callable[[], object], api: Api, bob: User, mailbox: Mailbox
) -> None:
    ApprovalPolicy.objects.create(mailbox=mailbox)
    action = PendingAction.objects.get(pk=api.propose())
    refused: list[str] = []

    def approve() -> None:
        try:
            decide.approve(
                action_id=action.pk, person=bob, digest=action.digest, revision=action.revision
            )
        except Problem as problem:
            refused.append(problem.code)
        finally:
            connections.close_all()

    approval = threading.Thread(target=approve, daemon=True)
    with transaction.atomic():
        lock_action(action.pk)
        approval.start()
        until_a_lock_is_waited_for()
        change()
    approval.join(WAIT_SECONDS)
    action.refresh_from_db()
    assert (refused, action.status) == ([code], "pending")
