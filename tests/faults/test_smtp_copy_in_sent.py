"""The copy in Sent of a mail that an SMTP server accepted: saved once, or given up and reported."""

from datetime import timedelta

import pytest
from django.utils import timezone

from accounts.models import Mailbox
from approvals.gate import settle
from approvals.gate.backoff import retry_wait
from approvals.models import AuditEvent, PendingAction
from approvals.reports.steps import event_of
from approvals.worker import maintenance
from tests.conftest import Api, Reviewer
from tests.faults.conftest import World
from tests.faults.smtp_road import (
    _no_long_silence,
    approved,
    message_id_of,
    message_ids,
    now_it_is_time,
    state,
)
from tests.support.concurrently import all_at_once
from tests.support.servers.sandbox import MIRA
from tests.support.work import work

__all__ = ["_no_long_silence", "approved"]
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.fault(44)
def test_copy_that_cannot_be_saved_now_is_saved_once_later(
    api: Api, approved: str, world: World
) -> None:
    world.imap_goes_down()
    work()
    assert state(api, approved) == ("succeeded", None)
    now_it_is_time("settle_at")
    maintenance.settle()
    assert (state(api, approved)[0], world.sent()) == ("succeeded", [])

    world.imap_comes_back()
    for _ in range(3):
        now_it_is_time("settle_at")
        maintenance.sweep()
    assert [message_id_of(copy) for copy in world.sent()] == message_ids(world)
    assert (len(world.smtp.ledger), world.smtp.data_commands) == (1, 1)
    assert state(api, approved) == ("succeeded", None)


def test_copy_that_fails_for_a_day_is_given_up_and_reported(
    api: Api, approved: str, world: World
) -> None:
    world.imap_goes_down()
    work()
    # A mailbox that must be connected again costs no attempt.
    Mailbox.objects.update(status=Mailbox.Status.NEEDS_REAUTH)
    now_it_is_time("settle_at")
    before = PendingAction.objects.get().settle_tries
    maintenance.settle()
    assert PendingAction.objects.get().settle_tries == before

    Mailbox.objects.update(status=Mailbox.Status.ACTIVE)
    PendingAction.objects.update(settle_tries=settle.TRIES - 2)
    maintenance.settle()
    action = api.get(f"/actions/{approved}").json()
    assert "unsettled_at" not in action
    now_it_is_time("settle_at")
    maintenance.settle()
    action = api.get(f"/actions/{approved}").json()
    assert (action["state"], "unsettled_at" in action) == ("succeeded", True)
    assert PendingAction.objects.get().settle_at is None
    assert event_of(AuditEvent.objects.get(event="settling_given_up")) == "action.unsettled"
    waits = [max(retry_wait(tries), timedelta(minutes=1)) for tries in range(1, settle.TRIES)]
    assert sum(waits, timedelta()) > timedelta(days=1)


@pytest.mark.fault(44)
def test_copy_with_an_unconfirmed_save_is_not_doubled(
    api: Api, approved: str, world: World
) -> None:
    work()
    # As if the worker had died between the APPEND and its record.
    PendingAction.objects.update(settle_at=timezone.now() - timedelta(seconds=1))
    maintenance.settle()
    assert len(world.sent()) == 1
    assert PendingAction.objects.get().settle_at is None


@pytest.mark.fault(44)
def test_interrupted_append_is_repaired(api: Api, approved: str, world: World) -> None:
    world.imap.cut_at(b"APPEND", times=1)
    work()
    assert (state(api, approved)[0], world.sent()) == ("succeeded", [])
    now_it_is_time("settle_at")
    maintenance.settle()
    assert len(world.sent()) == 1
    assert len(world.smtp.ledger) == 1


@pytest.mark.fault(44)
def test_server_that_saves_copies_gets_no_second_one(api: Api, approved: str, world: World) -> None:
    world.saves_what_it_accepts()
    work()
    work()
    assert [message_id_of(copy) for copy in world.sent()] == message_ids(world)
    assert world.imap.count(b"APPEND") == 0


@pytest.mark.fault(44)
def test_two_settling_workers_make_one_copy(api: Api, approved: str, world: World) -> None:
    world.imap_goes_down()
    work()
    world.imap_comes_back()
    now_it_is_time("settle_at")
    all_at_once([maintenance.settle] * 2)
    assert len(world.sent()) == 1
    assert state(api, approved) == ("succeeded", None)


@pytest.mark.fault(44)
def test_copy_is_made_only_on_request(api: Api, reviewer: Reviewer, world: World) -> None:
    action_id = api.propose(to=[MIRA], save_to_sent_items=False)
    reviewer.decide(action_id, "approve")
    work()
    assert state(api, action_id)[0] == "succeeded"
    assert (len(world.smtp.ledger), world.sent()) == (1, [])
