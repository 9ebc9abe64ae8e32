"""A mailbox sends one mail at a time, and nothing during a cool-down of its provider or while its
sign-in fails.
"""

from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest
from django.db.models import F
from django.utils import timezone

from accounts.models import Mailbox, User
from approvals.core.types import BEFORE_WIRE, ApprovedAction, Outcome
from approvals.gate.execute import execute
from approvals.models import Attempt, PendingAction, Rest
from approvals.worker import maintenance
from tests.approvals.conftest import approve
from tests.approvals.kinds import NOT_NOW, Script
from tests.conftest import make_api
from tests.support.concurrently import all_at_once
from tests.support.servers.memory import MemoryServer
from tests.support.work import offered, work

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


def test_mailbox_has_one_claimed_mail_at_a_time(
    approved: Callable[..., PendingAction], script: Script, server: MemoryServer
) -> None:
    first, second = approved(), approved(subject="Second")
    tried: list[bool] = []

    def meanwhile(approved: ApprovedAction) -> None:
        script.before = lambda approved: None
        assert offered() == []
        tried.append(execute(second.pk, worker="other"))

    script.before = meanwhile

    assert execute(first.pk, worker="test") is True
    assert tried == [False]
    work()
    assert len(server.ledger) == 2


def test_eight_workers_never_send_two_at_once(
    approved: Callable[..., PendingAction], script: Script, server: MemoryServer
) -> None:
    actions = [approved(subject=f"Number {number}") for number in range(8)]
    together: list[int] = []
    script.before = lambda approved: together.append(
        PendingAction.objects.filter(status="executing").count()
    )

    while PendingAction.objects.filter(status="succeeded").count() < 8:
        claims = all_at_once([partial(execute, action.pk, worker="test") for action in actions])
        assert any(claims), "somebody must get on"

    assert set(together) == {1}
    assert len(server.ledger) == 8


def test_another_mailbox_does_not_wait(
    approved: Callable[..., PendingAction],
    script: Script,
    foreign_mailbox: Mailbox,
    charlie: User,
    server: MemoryServer,
) -> None:
    first = approved()
    other = approve(make_api(charlie, foreign_mailbox).propose(), charlie)
    tried: list[bool] = []

    def meanwhile(approved: ApprovedAction) -> None:
        script.before = lambda approved: None
        tried.append(execute(other.pk, worker="other"))

    script.before = meanwhile
    execute(first.pk, worker="test")

    assert tried == [True]
    assert len(server.ledger) == 2


def test_end_of_a_send_wakes_up_the_next(
    approved: Callable[..., PendingAction], monkeypatch: pytest.MonkeyPatch
) -> None:
    notified: list[object] = []

    class FakeQueue:
        def notify(self, action_id: object) -> None:
            notified.append(action_id)

    monkeypatch.setattr("approvals.gate.execute.queue", FakeQueue)
    first, second = approved(), approved(subject="Second")

    execute(first.pk, worker="test")

    assert notified == [second.pk]


@pytest.mark.fault(33)
@pytest.mark.parametrize(
    ("outcome", "at_least", "at_most"),
    [
        (
            Outcome(verdict="not_sent", proof=BEFORE_WIRE, code="rate_limited", retry_after=120),
            115,
            120,
        ),
        (
            Outcome(verdict="not_sent", proof=BEFORE_WIRE, code="rate_limited", retry_after=10**12),
            3595,
            3600,
        ),
        (Outcome(verdict="not_sent", proof=BEFORE_WIRE, code="rate_limited", retry_after=-1), 1, 5),
        (
            Outcome(
                verdict="not_sent", proof=BEFORE_WIRE, code="rate_limited", pauses_mailbox=True
            ),
            1,
            5,
        ),
    ],
)
def test_429_pauses_the_mailbox_for_a_capped_time(
    approved: Callable[..., PendingAction],
    script: Script,
    server: MemoryServer,
    outcome: Outcome,
    at_least: int,
    at_most: int,
) -> None:
    first, second = approved(), approved(subject="Second")
    script.instead = lambda approved: outcome

    assert execute(first.pk, worker="test")
    assert offered() == []
    assert not execute(second.pk, worker="test")

    left = (Rest.objects.get().until - timezone.now()).total_seconds()
    assert at_least <= left <= at_most
    assert script.called == ["execute"]
    script.instead = None
    Rest.objects.update(until=timezone.now() - timedelta(seconds=1))
    PendingAction.objects.update(not_before=timezone.now() - timedelta(seconds=1))
    work()
    assert len({envelope.source for envelope in server.ledger}) == len(server.ledger) == 2
    assert Attempt.objects.filter(action=first).count() == 2


@pytest.mark.fault(33)
def test_short_cool_down_does_not_end_a_long_one(
    approved: Callable[..., PendingAction],
    script: Script,
    foreign_mailbox: Mailbox,
    charlie: User,
    mailbox: Mailbox,
) -> None:
    long = timezone.now() + timedelta(minutes=30)
    first = approved()
    script.before = lambda approved: (
        Rest.objects.update_or_create(mailbox=mailbox, defaults={"until": long}) and None
    )
    script.instead = lambda approved: Outcome(verdict="not_sent", proof=BEFORE_WIRE, retry_after=60)
    execute(first.pk, worker="test")
    assert Rest.objects.get().until == long

    script.instead = None
    assert execute(approve(make_api(charlie, foreign_mailbox).propose(), charlie).pk, worker="test")


def test_outcome_about_one_mail_pauses_nothing(
    approved: Callable[..., PendingAction], script: Script
) -> None:
    first, second = approved(), approved(subject="Second")
    script.instead = lambda approved: NOT_NOW
    execute(first.pk, worker="test")

    assert not Rest.objects.exists()
    assert offered() == [second.pk]


@pytest.mark.fault(36)
def test_mailbox_to_reconnect_gets_no_call_and_mail_waits(
    approved: Callable[..., PendingAction], server: MemoryServer
) -> None:
    first, second = approved(), approved(subject="Second")
    server.accepts_login = False

    work()
    PendingAction.objects.filter(status="approved").update(
        not_before=timezone.now() - timedelta(seconds=1)
    )
    for _ in range(3):
        work()
        maintenance.sweep()

    assert Mailbox.objects.get().status == "needs_reauth"
    assert Attempt.objects.count() == 1
    assert set(PendingAction.objects.values_list("status", "approval_round")) == {("approved", 1)}
    assert server.ledger == []

    server.accepts_login = True
    Mailbox.objects.update(status="active")
    PendingAction.objects.filter(pk__in=[first.pk, second.pk]).update(not_before=F("approved_at"))
    work()
    assert len(server.ledger) == 2
