"""The assignment of a worker's slots, and the answer of /statusz when no slot is free."""

import errno
import threading
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from django.test import Client
from django.utils import timezone

from accounts.models import Mailbox, User
from approvals.core.types import ApprovedAction, Outcome
from approvals.gate.execute import execute
from approvals.gate.pauses import switch
from approvals.models import ApprovalPolicy, PendingAction
from approvals.queues import slots
from approvals.queues.slots import Slots
from approvals.worker import dispatch, heartbeats, maintenance
from approvals.worker.dispatch import Due
from tests.approvals.conftest import approve
from tests.approvals.kinds import Script, handed_over
from tests.conftest import Api, make_api, make_mailbox
from tests.support.people.browser import browser
from tests.support.processes.programs import SECONDS, until
from tests.support.servers.memory import MemoryServer


def due(mailbox: UUID | None = None, owner: int = 1) -> Due:
    return Due(action=uuid4(), mailbox=mailbox or uuid4(), owner=owner)


class Clock:
    """A clock that the test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_no_more_is_claimed_than_slots_are_free() -> None:
    slots_ = Slots(4)
    assert len(slots_.take([due() for _ in range(100)])) == 4
    assert (slots_.take(), slots_.free()) == ([], 0)


def test_one_mail_of_a_mailbox_is_in_progress_at_a_time() -> None:
    slots_, first = Slots(4), due()
    second = due(first.mailbox)
    # A later lookup has the newest state of this mailbox.
    assert slots_.take([first, second]) == [second]
    assert slots_.take([first]) == []
    slots_.give_back(second)
    assert slots_.take() == [first]


def test_slow_send_gives_its_slot_to_another() -> None:
    clock = Clock()
    slots_ = Slots(2, clock=clock)
    assert len(slots_.take([due(owner=1), due(owner=2)])) == 2
    clock.now = slots.SLOW_SECONDS + 1
    assert len(slots_.take([due(owner=3), due(owner=4), due(owner=5)])) == 2


def test_slow_mailboxes_of_one_owner_leave_room_for_others() -> None:
    clock = Clock()
    slots_ = Slots(4, clock=clock)
    assert len(slots_.take([due(owner=1) for _ in range(20)])) == 4
    clock.now = slots.SLOW_SECONDS + 1
    other = due(owner=2)
    assert slots_.take([other]) == [other]  # and not the other sixteen of the first owner


def test_owners_get_slots_in_rotation() -> None:
    slots_, last = Slots(4), due(owner=2)
    taken = slots_.take([*(due(owner=1) for _ in range(10)), last])
    assert last in taken


@pytest.mark.django_db(transaction=True)
def test_long_queue_of_one_mailbox_hides_no_other(
    api: Api, alice: User, server: MemoryServer, script: Script
) -> None:
    first = [approve(api.propose(subject=f"Mail {number}"), alice).pk for number in range(3)]
    other_mailbox = make_mailbox("other@lovelace.example", server, alice)
    other = approve(make_api(alice, other_mailbox, name="other").propose(), alice).pk
    assert [head.action for head in dispatch.heads()] == [first[0], other]
    assert {head.owner for head in dispatch.heads()} == {alice.pk}


@pytest.mark.django_db(transaction=True)
def test_lookups_do_not_hold_up_the_sweep(api: Api, alice: User, script: Script) -> None:
    script.instead = handed_over
    execute(approve(api.propose(), alice).pk, worker="test")
    PendingAction.objects.update(next_probe_at=timezone.now() - timedelta(seconds=1))
    looking, seen, looked = threading.Event(), threading.Event(), threading.Event()

    def look(approved: ApprovedAction) -> None:
        looking.set()
        seen.wait(SECONDS)
        looked.set()

    script.look = look
    over = timezone.now() - timedelta(seconds=1)
    policy = ApprovalPolicy.objects.create(
        mailbox=Mailbox.objects.get(),
        open_days="1234567",
        opens_at=over - timedelta(hours=1),
        closes_at=over,
    )
    maintenance.sweep(resident=True)
    assert looking.wait(SECONDS)
    assert not looked.is_set()
    policy.refresh_from_db()
    assert policy.closes_at is not None
    assert policy.closes_at > over
    # The mailbox is served already: no second reconciliation beside the first.
    maintenance.sweep(resident=True)
    seen.set()
    until(lambda: not maintenance.LOOKS._busy)
    assert script.called.count("reconcile") == 1


@pytest.mark.django_db(transaction=True)
def test_statusz_fails_when_mail_that_could_leave_waits(
    api: Api, alice: User, mailbox: Mailbox, client: Client
) -> None:
    heartbeats.beat("a worker")
    later = approve(api.propose(send_at=f"{timezone.now() + timedelta(hours=1):%FT%TZ}"), alice)
    ago = timezone.now() - timedelta(hours=2)
    PendingAction.objects.filter(pk=later.pk).update(approved_at=ago, undo_until=ago)
    action = approve(api.propose(), alice)
    assert client.get("/statusz").status_code == 200
    PendingAction.objects.filter(pk=action.pk).update(
        not_before=timezone.now() - timedelta(seconds=61)
    )
    answer = client.get("/statusz")
    assert (answer.status_code, answer.json()["missing"]) == (503, ["sending"])
    assert 61 <= answer.json()["oldest_due_seconds"] < 70

    switch.pause(mailbox=mailbox, actor="command")  # an action that is held back does not count
    assert client.get("/statusz").status_code == 200
    switch.resume(mailbox=mailbox, actor="command")
    assert client.get("/statusz").status_code == 503
    assert execute(action.pk, worker="test")
    assert client.get("/statusz").status_code == 200


@pytest.mark.django_db(transaction=True)
def test_retries_are_no_progress_and_the_disk_is_named(
    api: Api, alice: User, script: Script, client: Client
) -> None:
    def full(_: ApprovedAction) -> Outcome:
        raise OSError(errno.ENOSPC, "No space left on device: /home/of/somebody")

    heartbeats.beat("a worker")
    script.instead = full
    action = approve(api.propose(), alice)
    ago = timezone.now() - timedelta(seconds=70)
    PendingAction.objects.filter(pk=action.pk).update(
        approved_at=ago, undo_until=ago, not_before=ago
    )
    assert execute(action.pk, worker="test")  # it ends just now, and moves the next attempt on

    answer = client.get("/statusz").json()
    assert (answer["missing"], answer["codes"]) == (["sending"], ["internal_error"])
    page = browser(alice).get(f"/actions/{action.pk}/").content.decode()
    assert "ENOSPC: No space left on device" in page
    assert "somebody" not in page


@pytest.mark.django_db(transaction=True)
def test_only_a_slow_send_excuses_waiting_mail_of_its_owner(
    alice: User,
    mailbox: Mailbox,
    server: MemoryServer,
    script: Script,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Look during an attempt of another mailbox: just begun, as each retry is for a moment, and slow."""
    heartbeats.beat("a worker")
    other = make_mailbox("second@lovelace.example", server, alice)
    waiting = approve(make_api(alice, mailbox).propose(), alice)
    leaving = approve(make_api(alice, other, name="second").propose(), alice)
    ago = timezone.now() - timedelta(seconds=70)
    PendingAction.objects.filter(pk=waiting.pk).update(
        approved_at=ago, undo_until=ago, not_before=ago
    )
    seen = []

    def look_twice(approved: ApprovedAction) -> None:
        for slow in (dispatch.A_SLOW_SEND, timedelta()):
            monkeypatch.setattr(dispatch, "A_SLOW_SEND", slow)
            seen.append(client.get("/statusz").json()["missing"])

    script.before = look_twice
    assert execute(leaving.pk, worker="test")

    assert seen == [["sending"], []]
