"""The actions that the sweep offers to workers are those that a claim takes, on generated rows, and
a delayed one is offered without a sweep.
"""

import random
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, ClassVar
from uuid import UUID

import pytest
from django.core.management import call_command
from django.db.models import F, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from accounts.models import Mailbox, Membership
from approvals.core.queue import queue
from approvals.core.states import Status
from approvals.gate import send_back
from approvals.gate.rules import conditions
from approvals.models import ApprovalPolicy, Pause, PendingAction, Rest
from approvals.queues.sweeper import Sweeper
from tests.conftest import Api, Reviewer
from tests.support.processes.programs import until
from tests.support.work import offered

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]

A_MINUTE = timedelta(minutes=1)
# Each happens to every third mailbox, or to every tenth action, chosen at random.
TO_MAILBOXES: list[Callable[[list[Any]], object]] = [
    lambda some: Mailbox.objects.filter(pk__in=some).update(status=Mailbox.Status.NEEDS_REAUTH),
    lambda some: Mailbox.objects.filter(pk__in=some).update(status=Mailbox.Status.ERROR),
    lambda some: Mailbox.objects.filter(pk__in=some).update(status=Mailbox.Status.DISCONNECTED),
    lambda some: Rest.objects.bulk_create(
        Rest(mailbox_id=key, until=Now() + A_MINUTE) for key in some
    ),
    lambda some: ApprovalPolicy.objects.filter(mailbox__in=some).update(
        opens_at=Now() + A_MINUTE, closes_at=Now() + 2 * A_MINUTE
    ),
    lambda some: ApprovalPolicy.objects.filter(mailbox__in=some).update(daily_cap=0),
    lambda some: ApprovalPolicy.objects.filter(mailbox__in=some).update(version=F("version") + 1),
    lambda some: Membership.objects.filter(mailbox__in=some).delete(),
]
TO_ACTIONS: list[Callable[[QuerySet[PendingAction]], object]] = [
    lambda some: some.update(expires_at=Now() - A_MINUTE),
    lambda some: some.update(approved_until=Now() - A_MINUTE),
    lambda some: some.update(not_before=Now() + A_MINUTE),
]


def disturb(seed: int) -> None:
    """Make some approved actions of a load free to leave, and hold others back in every way."""
    chosen = random.Random(seed)
    mailboxes = list(Mailbox.objects.order_by("address").values_list("pk", flat=True))
    actions = list(
        PendingAction.objects.filter(status=Status.APPROVED)
        .order_by("created_at")
        .values_list("pk", flat=True)
    )
    Pause.objects.filter(mailbox__in=chosen.sample(mailboxes, len(mailboxes) * 2 // 3)).delete()
    for happens in TO_MAILBOXES:
        happens(chosen.sample(mailboxes, len(mailboxes) // 12))
    for changes in TO_ACTIONS:
        changes(PendingAction.objects.filter(pk__in=chosen.sample(actions, len(actions) // 10)))


@pytest.mark.parametrize("seed", [1, 2])
def test_offered_actions_are_those_that_a_claim_takes(seed: int) -> None:
    load = {"actions": 200, "mailboxes": 120, "held": 60, "scheduled": 60, "pending": 2}
    call_command("seed_load", **load, seed=seed, verbosity=0)
    PendingAction.objects.filter(status=Status.APPROVED).update(not_before=F("created_at"))
    disturb(seed)

    free = PendingAction.objects.filter(conditions.may_execute())
    assert set(free) == set(PendingAction.objects.filter(conditions.may_execute_now()))
    waiting = PendingAction.objects.filter(
        conditions.due(), ~conditions.must_wait(), status=Status.APPROVED
    ).order_by("mailbox", "not_before")
    firsts = {next(rows).pk for _, rows in groupby(waiting, key=lambda row: row.mailbox_id)}

    assert set(offered()) == firsts
    assert 10 < len(free) < len(waiting) < 110


def test_pause_of_everything_offers_nothing() -> None:
    call_command("seed_load", actions=60, mailboxes=10, held=9, verbosity=0)
    Pause.objects.all().delete()
    assert offered()

    Pause.objects.create(mailbox=None, since=timezone.now())

    assert offered() == []


def test_sweeps_together_judge_all_due_actions() -> None:
    """Thousands that are held back are judged a few at a time, and again from the beginning."""
    call_command("seed_load", actions=300, mailboxes=80, held=150, verbosity=0)
    held = PendingAction.objects.filter(status=Status.APPROVED, not_before__lt=Now())
    late = held.order_by("-not_before")[0]
    PendingAction.objects.filter(pk=late.pk).update(approved_until=Now() - A_MINUTE)

    in_a_sweep = send_back.SLICE * send_back.SLICES
    sweeps = 0
    while late.status == Status.APPROVED:
        assert sweeps * in_a_sweep < 150
        send_back.send_back()
        late.refresh_from_db()
        sweeps += 1

    assert sweeps == 3
    assert late.returned is not None
    assert late.returned["code"] == "approval_over"
    first = held.order_by("not_before")[0]
    PendingAction.objects.filter(pk=first.pk).update(approved_until=Now() - A_MINUTE)
    send_back.send_back()
    first.refresh_from_db()
    assert first.status == Status.PENDING


class NotedQueue:
    """A queue that notes the time of each notification."""

    notified: ClassVar[list[datetime]] = []

    def notify(self, action_id: UUID) -> None:
        self.notified.append(timezone.now())

    def answers(self) -> bool:
        return True


def test_delayed_mail_is_notified_without_a_sweep(
    api: Api, reviewer: Reviewer, settings: Any
) -> None:
    settings.MAILHUB_QUEUES = {"database": f"{__name__}.NotedQueue"}
    settings.MAILHUB_UNDO_SECONDS = 1
    queue.cache_clear()
    NotedQueue.notified.clear()
    sweeper = Sweeper(worker=None, every=3600)  # after its first sweep, the next is too late
    thread = threading.Thread(target=sweeper.run)
    thread.start()
    try:
        action_id = api.propose()
        assert reviewer.decide(action_id, "approve").status_code == 302
        due = PendingAction.objects.get(pk=action_id).undo_until
        assert due is not None
        sweeper.notify_approved()
        until(lambda: any(at >= due for at in NotedQueue.notified))
    finally:
        sweeper.stop()
        thread.join()
        queue.cache_clear()
