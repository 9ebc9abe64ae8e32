"""The pages that each statement reads with many mailboxes, rules and held mails, on PostgreSQL."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from accounts.models import Mailbox
from approvals.core.states import Status
from approvals.gate import send_back
from approvals.gate.execute import execute
from approvals.models import (
    ApprovalPolicy,
    AuditEvent,
    Notification,
    NotificationCursor,
    Pause,
    PendingAction,
    Reminder,
)
from approvals.worker import dispatch, maintenance
from tests.conftest import Api, Reviewer
from tests.support.plans import Plan, explained

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres_only]

MOST_PAGES = 500
MOST_PAGES_IDLE = 60
MOST_PAGES_OF_A_BACKLOG = 2_000
FEW = {"actions": 1_600, "mailboxes": 1_000, "held": 1_200, "scheduled": 300}
MANY = {"actions": 60_000, "mailboxes": 10_000, "held": 25_000, "scheduled": 24_500}


@pytest.fixture(
    params=[
        FEW,
        pytest.param(MANY, marks=[pytest.mark.long, pytest.mark.timeout(600)]),
    ],
    ids=["few", "many"],
)
def approved(
    request: pytest.FixtureRequest, api: Api, reviewer: Reviewer, mailbox: Mailbox
) -> PendingAction:
    """Return an approved mail beside the held mails of a load; its mailbox has a daily limit."""
    call_command("seed_load", **request.param, beside_others=True, verbosity=0)
    NotificationCursor.objects.create(event=AuditEvent.objects.latest("pk").pk)  # all were read
    ApprovalPolicy.objects.create(mailbox=mailbox, daily_cap=100)
    ids = [api.propose(subject=f"Offer {number}") for number in range(2)]
    for action_id in ids:
        reviewer.decide(action_id, "approve")
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
    return PendingAction.objects.get(pk=ids[0])


def plans_of(call: Callable[[], Any]) -> list[Plan]:
    call()  # builds its statements
    with explained() as plans:
        call()
    assert plans
    return plans


@pytest.mark.goal("N7", "N11")
def test_few_pages_are_read_however_many_mails_are_held(approved: PendingAction) -> None:
    plans = {
        "heads": plans_of(dispatch.heads),
        "health": plans_of(dispatch.measure_standstill),
        "slice": plans_of(send_back.send_back),
        "sweep": plans_of(maintenance.sweep),
    }
    with explained() as plans["execute"]:
        assert execute(approved.pk, worker="test")

    approved.refresh_from_db()
    assert approved.status == Status.SUCCEEDED
    assert any("SKIP LOCKED" in plan.text for plan in plans["execute"]), "the claim was explained"
    for name, its in plans.items():
        for plan in its:
            assert plan.pages <= MOST_PAGES, (name, plan.pages, plan.text)


@pytest.mark.goal("N7", "N11")
def test_health_judges_no_whole_backlog(db: None) -> None:
    """Anybody may ask for the health, as often as they like."""
    call_command("seed_load", actions=1_600, mailboxes=20, held=1_500, scheduled=0, verbosity=0)
    Pause.objects.all().delete()
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")

    plans = plans_of(dispatch.measure_standstill)

    assert dispatch.measure_standstill().oldest_seconds > 0
    pages = sum(plan.pages for plan in plans)
    assert pages <= MOST_PAGES_OF_A_BACKLOG, [(plan.pages, plan.text) for plan in plans]


@pytest.mark.goal("N8", "N11")
def test_idle_sweep_reads_few_pages_after_many_actions(db: None) -> None:
    call_command("seed_load", actions=2_000, mailboxes=20, held=0, scheduled=0, verbosity=0)
    # Every event is read, and the reminders are for later.
    NotificationCursor.objects.create(event=AuditEvent.objects.latest("pk").pk)
    later, stage = timezone.now() + timedelta(days=1), Notification.Stage.HALF_TIME
    Reminder.objects.bulk_create(
        Reminder(action_id=key, stage=stage, due_at=later)
        for key in PendingAction.objects.values_list("pk", flat=True)
    )
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")

    plans = plans_of(maintenance.sweep)

    pages = sum(plan.pages for plan in plans)
    assert pages <= MOST_PAGES_IDLE, [(plan.pages, plan.text) for plan in plans if plan.pages > 9]
