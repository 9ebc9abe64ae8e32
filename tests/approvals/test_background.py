"""Work beside the sweep: which mailboxes are served at once, and by which thread."""

import queue
import threading
from collections.abc import Iterable
from typing import cast
from uuid import UUID, uuid4

import pytest

from approvals.worker import background
from approvals.worker.background import Background
from tests.support.processes.programs import until

pytestmark = pytest.mark.django_db
SECONDS = 30


class Chore:
    """Work that reports its start and waits for the permission to end."""

    def __init__(
        self, waiting: Iterable[tuple[UUID, UUID]] = (), *, idle_seconds: float = SECONDS
    ) -> None:
        self.begun: queue.Queue[tuple[UUID, threading.Thread]] = queue.Queue()
        self.may_end = threading.Semaphore(0)
        self.beside = Background("chore", lambda: waiting, self._act, idle_seconds=idle_seconds)

    def next(self) -> tuple[UUID, threading.Thread]:
        return self.begun.get(timeout=SECONDS)

    def _act(self, action: UUID) -> None:
        self.begun.put((action, threading.current_thread()))
        assert self.may_end.acquire(timeout=SECONDS)


def test_idle_thread_serves_the_next_mailbox() -> None:
    chore, mailbox = Chore(), uuid4()
    assert chore.beside.begin(mailbox, [uuid4()])
    _, first = chore.next()
    chore.may_end.release()
    until(lambda: chore.beside.begin(mailbox, [uuid4()]))  # its thread notes the end after the work
    _, second = chore.next()
    chore.may_end.release()

    assert second is first


def test_each_mailbox_has_at_most_one_thread() -> None:
    chore, mailbox = Chore(), uuid4()
    assert chore.beside.begin(mailbox, [uuid4()])
    assert not chore.beside.begin(mailbox, [uuid4()])

    others = [uuid4() for _ in range(background.AT_ONCE)]
    assert [chore.beside.begin(each, [uuid4()]) for each in others] == [True] * (
        background.AT_ONCE - 1
    ) + [False]
    threads = {chore.next()[1] for _ in range(background.AT_ONCE)}
    chore.may_end.release(background.AT_ONCE)

    assert len(threads) == background.AT_ONCE


def test_all_waiting_mailboxes_are_served() -> None:
    waiting = [(uuid4(), uuid4()) for _ in range(3 * background.AT_ONCE)]
    chore = Chore(waiting)
    chore.beside.start()

    begun = [chore.next() for _ in range(background.AT_ONCE)]
    assert len({thread for _, thread in begun}) == background.AT_ONCE
    chore.may_end.release(len(waiting))
    begun += [chore.next() for _ in range(len(waiting) - background.AT_ONCE)]
    assert {action for action, _ in begun} == {action for _, action in waiting}


def test_thread_without_work_ends() -> None:
    chore, mailbox = Chore(idle_seconds=0.05), uuid4()
    chore.may_end.release(2)
    assert chore.beside.begin(mailbox, [uuid4()])
    _, first = chore.next()
    first.join(SECONDS)
    assert not first.is_alive()

    assert chore.beside.begin(mailbox, [uuid4()])
    assert chore.next()[1] is not first


def test_turn_that_fails_as_a_whole_leaves_the_thread_alive() -> None:
    chore, mailbox = Chore(), uuid4()
    chore.may_end.release()
    assert chore.beside.begin(mailbox, cast("list[UUID]", None))  # no list: the turn itself fails
    until(lambda: chore.beside.begin(mailbox, [uuid4()]))

    assert chore.next()[1].is_alive()
