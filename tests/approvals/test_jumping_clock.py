"""A database clock that jumps ahead and back: windows and expiries follow the present time."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.db import IntegrityError, connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.utils import timezone

from accounts.models import Mailbox, User
from approvals import guards
from approvals.gate import revise
from approvals.gate.send_back import return_unproven
from approvals.models import ApprovalPolicy, PendingAction
from approvals.worker import maintenance
from approvals.worker.steady_clock import JUMP_SECONDS, START_SECONDS, STEADY_SECONDS, SteadyClock
from tests.approvals.conftest import approve
from tests.approvals.guarded import only
from tests.conftest import Api

pytestmark = pytest.mark.django_db(transaction=True)
A_DAY = timedelta(days=1)


def edited(api: Api, person: User, send_at: datetime | None) -> PendingAction:
    action = PendingAction.objects.get(pk=api.propose())
    return revise.edit(
        action_id=action.pk,
        person=person,
        digest=action.digest,
        revision=action.revision,
        changes={"send_at": send_at.isoformat() if send_at else ""},
    )


def test_edited_send_time_moves_the_expiry(api: Api, alice: User) -> None:
    later = (timezone.now() + 20 * A_DAY).replace(microsecond=0)
    action = edited(api, alice, later)
    assert (action.send_at, action.expires_at) == (later, later + A_DAY)
    approved = approve(action.pk, alice)
    assert approved.not_before == later


def test_returned_mail_waits_as_long_as_a_new_one(api: Api, alice: User) -> None:
    action = approve(api.propose(), alice)
    soon = timezone.now() + timedelta(minutes=5)
    PendingAction.objects.filter(pk=action.pk).update(expires_at=soon)
    assert return_unproven(action)
    action.refresh_from_db()
    assert action.expires_at > timezone.now() + A_DAY - timedelta(minutes=1)


def test_database_refuses_an_expiry_before_the_send_time(api: Api, alice: User) -> None:
    action = edited(api, alice, timezone.now() + 20 * A_DAY)
    with pytest.raises(IntegrityError, match="action_expires_after_it_may_leave"):
        only(action, expires_at=action.send_at)()


@pytest.mark.long
def test_upgrade_repairs_an_expiry_before_the_send_time(api: Api, alice: User) -> None:
    def migrate(name: str) -> None:
        executor = MigrationExecutor(connection)
        executor.loader = MigrationLoader(connection, replace_migrations=False)
        executor.migrate([("approvals", name)])

    action = edited(api, alice, timezone.now() + 20 * A_DAY)
    steps = MigrationLoader(connection).disk_migrations
    newest = max(name for app, name in steps if app == "approvals")
    migrate("0035_encrypted_addresses")
    try:
        with guards.lift_guards(connection):
            PendingAction.objects.filter(pk=action.pk).update(expires_at=timezone.now() + A_DAY)
    finally:
        migrate(newest)
    action.refresh_from_db()
    assert action.send_at is not None
    assert action.expires_at == action.send_at + A_DAY


@pytest.mark.parametrize("ahead", [A_DAY * 3, -A_DAY * 3])
def test_clock_that_jumped_moves_no_send_window(mailbox: Mailbox, ahead: timedelta) -> None:
    """Write the rows as the sweep left them while the clock was off; now it is right again."""
    policy = ApprovalPolicy.objects.create(mailbox=mailbox, open_days="1234567")
    then = timezone.now() + ahead
    ApprovalPolicy.objects.update(opens_at=then, closes_at=then + A_DAY / 2, window_set_at=then)
    maintenance.sweep()
    policy.refresh_from_db()
    assert policy.opens_at is not None
    assert policy.closes_at is not None
    assert policy.opens_at <= timezone.now() < policy.closes_at


def test_jump_is_followed_by_an_hour_without_final_tasks() -> None:
    uptime, jumped = 1000.0, timedelta(0)
    began = datetime(2026, 1, 1, tzinfo=UTC)
    clock = SteadyClock(lambda: began + timedelta(seconds=uptime) + jumped, lambda: uptime)

    def after(seconds: float) -> bool:
        nonlocal uptime
        uptime += seconds
        return clock.is_steady()

    assert [after(0), after(START_SECONDS - 1), after(1)] == [False, False, True]
    for jump in (timedelta(seconds=2 * JUMP_SECONDS), timedelta(0)):
        jumped = jump
        assert [after(5), after(STEADY_SECONDS - 1), after(1)] == [False, False, True]


def test_sweep_ends_nothing_right_after_a_jump(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    maintenance.sweep(resident=True)
    late = PendingAction.objects.get(pk=api.propose())
    only(late, expires_at=timezone.now() - timedelta(seconds=1))()
    real: Callable[[int], float] = time.clock_gettime
    monkeypatch.setattr(time, "clock_gettime", lambda clock: real(clock) - 3 * 86_400)
    maintenance.sweep(resident=True)
    late.refresh_from_db()
    assert late.status == "pending"

    maintenance.sweep()  # of a command that a person runs
    late.refresh_from_db()
    assert late.status == "expired"
