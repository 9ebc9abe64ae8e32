"""The sweeper: any number at once, each task done once, old records deleted, nothing left over."""

import os
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.models import ApiToken, Mailbox, User
from approvals.core.types import BEFORE_WIRE, ApprovedAction, Outcome
from approvals.gate import overdue
from approvals.models import AuditEvent, Blob, IdempotencyRecord, PendingAction, Revision
from approvals.queues import sweeper
from approvals.worker import heartbeats, maintenance
from tests.approvals.conftest import approve
from tests.approvals.kinds import Script, handed_over
from tests.conftest import HELLO, Api, make_api
from tests.support.concurrently import all_at_once
from tests.support.servers.memory import MemoryServer
from tests.support.work import offered, work

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


def test_eight_sweepers_at_once_do_each_task_once(
    api: Api, approved: Callable[..., PendingAction], script: Script
) -> None:
    expired = [api.propose(subject=f"Number {number}") for number in range(5)]
    PendingAction.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    void = [approved(subject=f"Void {number}") for number in range(5)]
    ApiToken.objects.update(revoked_at=timezone.now() + timedelta(minutes=1))

    all_at_once([maintenance.sweep] * 8)

    assert AuditEvent.objects.filter(event="expired").count() == len(expired)
    assert AuditEvent.objects.filter(event="returned").count() == len(void)
    assert set(PendingAction.objects.values_list("status", "approval_round")) == {
        ("expired", 1),
        ("pending", 2),
    }


def test_dead_lease_is_ended_once(approved: Callable[..., PendingAction], script: Script) -> None:
    action = approved()

    def dies(approved: ApprovedAction) -> Outcome:
        PendingAction.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
        all_at_once([overdue.end_dead_leases] * 8)
        return Outcome(verdict="not_sent", proof=BEFORE_WIRE, code="worker_lost")

    script.instead = dies
    work()

    assert AuditEvent.objects.filter(event="outcome_not_sent").count() == 1
    action.refresh_from_db()
    assert action.status == "approved"


@pytest.mark.postgres_only
def test_locked_row_stops_no_sweeper(api: Api) -> None:
    """Leave the row for the next sweep, and do the others."""
    held, free = api.propose(), api.propose(subject="Free")
    PendingAction.objects.update(expires_at=timezone.now() - timedelta(seconds=1))

    with transaction.atomic():
        PendingAction.objects.select_for_update().get(pk=held)
        all_at_once([overdue.expire], seconds=20)
        assert PendingAction.objects.get(pk=free).status == "expired"

    assert PendingAction.objects.get(pk=held).status == "pending"
    overdue.expire()
    assert PendingAction.objects.get(pk=held).status == "expired"


def test_delayed_mail_leaves_at_its_time(
    approved: Callable[..., PendingAction], server: MemoryServer, settings: Any
) -> None:
    settings.MAILHUB_UNDO_SECONDS = 3600
    action = approved()
    maintenance.sweep()
    work()
    assert server.ledger == []

    PendingAction.objects.update(not_before=timezone.now() - timedelta(seconds=1))
    assert offered() == [action.pk]
    work()
    assert len(server.ledger) == 1


def test_ended_action_is_purged_and_its_key_still_answers(
    api: Api, approved: Callable[..., PendingAction], settings: Any
) -> None:
    action = approved(key="k")
    work()
    kept = approved(subject="Kept", key="other")
    work()
    days = settings.MAILHUB_RETENTION_DAYS
    PendingAction.objects.filter(pk=action.pk).update(
        finished_at=timezone.now() - timedelta(days=days, seconds=1)
    )
    PendingAction.objects.filter(pk=kept.pk).update(
        finished_at=timezone.now() - timedelta(days=days, seconds=-60)
    )

    maintenance.sweep()
    with CaptureQueriesContext(connection) as queries:
        overdue.purge()

    assert len(queries) == 1
    assert Revision.objects.get(action=action).payload == {}
    assert not Blob.objects.filter(action=action).exists()
    assert Revision.objects.get(action=kept).payload != {}
    assert IdempotencyRecord.objects.count() == 2
    answer = api.tool("send_email", key="k", **HELLO, confirm=True)
    assert answer.status_code == 200
    assert answer.json()["action"]["id"] == str(action.pk)
    assert answer.json()["status"] == "succeeded"
    assert PendingAction.objects.count() == 2


def test_unknown_action_is_never_purged(
    approved: Callable[..., PendingAction], script: Script
) -> None:
    approved()
    script.instead = handed_over
    work()
    PendingAction.objects.update(
        created_at=timezone.now() - timedelta(days=4000), finished_at=timezone.now()
    )
    PendingAction.objects.update(finished_at=timezone.now() - timedelta(days=4000))

    overdue.purge()

    assert Revision.objects.get().payload != {}


def test_idle_sweep_asks_about_each_task_once(db: None) -> None:
    maintenance.sweep()
    with CaptureQueriesContext(connection) as queries:
        maintenance.sweep()

    assert len(queries) <= len(maintenance.CHORES) + 2  # and when the next mail may leave


@pytest.mark.goal("N11")
def test_idle_worker_asks_five_times_a_second_at_most(db: None) -> None:
    asked: list[int] = []  # by the end of each round

    def needed() -> bool:
        asked.append(len(queries))
        return len(asked) < 5

    with CaptureQueriesContext(connection) as queries:
        sweeper.Sweeper(worker="worker", every=0.001, needed=needed).run()
        heartbeats.beat("worker")  # the sweeper has forgotten it
        before = len(queries)
        heartbeats.beat("worker")
        beat = len(queries) - before

    sweep = asked[-1] - asked[-2]  # the first asks what a process asks once
    assert sweep / sweeper.SWEEP_SECONDS + beat / sweeper.BEAT_SECONDS <= 5


def test_one_of_two_sweepers_asks(
    approved: Callable[..., PendingAction], settings: Any, tmp_path: Path
) -> None:
    settings.MAILHUB_HOME = tmp_path
    first, second = (sweeper.Sweeper(worker=None, every=3600) for _ in range(2))
    assert [first._begin_sweep(), second._begin_sweep()] == [True, True]  # each at its beginning
    assert [first._begin_sweep(), second._begin_sweep()] == [False, False]
    os.utime(tmp_path / "sweep.stamp", (0, 0))  # neither has begun one for a long time
    assert [first._begin_sweep(), second._begin_sweep()] == [True, False]
    later = time.time() + 7200  # the clock was set back
    os.utime(tmp_path / "sweep.stamp", (later, later))
    assert second._begin_sweep()


def test_failing_sweeper_does_not_stop_another(
    approved: Callable[..., PendingAction], settings: Any, tmp_path: Path
) -> None:
    """Let one process begin each sweep before the other one, in vain."""
    settings.MAILHUB_HOME = tmp_path
    failing, healthy = (sweeper.Sweeper(worker=None, every=3600) for _ in range(2))
    begun: list[bool] = []
    for _ in range(1 + 2 * (sweeper.MOST_LEFT_OUT + 1)):
        os.utime(tmp_path / "sweep.stamp", (0, 0)) if begun else None
        failing._begin_sweep()
        begun.append(healthy._begin_sweep())
    left_to_the_other = [False] * sweeper.MOST_LEFT_OUT
    assert begun == [True, *left_to_the_other, True, *left_to_the_other, True]


def test_paused_mailbox_does_not_block_others(
    approved: Callable[..., PendingAction],
    mailbox: Mailbox,
    foreign_mailbox: Mailbox,
    charlie: User,
) -> None:
    for number in range(3):
        approved(subject=f"Number {number}")
    free = approve(make_api(charlie, foreign_mailbox).propose(), charlie)
    Mailbox.objects.filter(pk=mailbox.pk).update(status="needs_reauth")

    assert offered() == [free.pk]
