"""Machines with homes of their own: they share a send journal and the anchored heads beside it, or
everything pauses.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from accounts.models import Mailbox, User
from approvals import guards
from approvals.gate import decide
from approvals.gate.pauses import restored, switch
from approvals.models import AuditChain, Pause, PendingAction, Revision
from tests.approvals.test_anchors import cut, cut_chain, head_of
from tests.approvals.test_older_chains import columns_of, nothing_leaves
from tests.conftest import Api, Reviewer
from tests.support.servers.memory import MemoryServer
from tests.support.work import work

pytestmark = pytest.mark.django_db(transaction=True)

Machines = Callable[[str], None]


@pytest.fixture
def on(settings: Any, tmp_path: Path) -> Machines:
    """Return a function that goes on as a process of this machine."""

    def go_on(machine: str) -> None:
        home = tmp_path / machine
        home.mkdir(exist_ok=True)
        settings.MAILHUB_HOME = home

    return go_on


@pytest.fixture
def start(on: Machines) -> Machines:
    """Return a function that starts a process on this machine."""

    def begin(machine: str) -> None:
        on(machine)
        restored._compared.clear()
        restored.compare()

    return begin


@pytest.fixture
def shared(settings: Any, tmp_path: Path, on: Machines, start: Machines) -> Machines:
    """Start machines that share a journal, and return what `on` returns."""
    settings.MAILHUB_SEND_JOURNAL = str(tmp_path / "shared.jsonl")
    for machine in ("web", "worker"):
        start(machine)
    assert not Pause.objects.exists()
    return on


def test_worker_learns_what_another_machine_took_back(
    approved: Callable[..., PendingAction],
    server: MemoryServer,
    mailbox: Mailbox,
    alice: User,
    settings: Any,
    shared: Machines,
) -> None:
    settings.MAILHUB_UNDO_SECONDS = 3600
    action = approved()
    copy, length = columns_of(action), head_of(mailbox).length
    shared("web")
    decide.undo(action_id=action.pk, person=alice)

    cut(mailbox, length)  # the copy of a moment ago comes back
    with guards.lift_guards(connection):
        Revision.objects.filter(action=action, number__gt=1).delete()
        long_ago = {"not_before": action.created_at, "undo_until": action.created_at}
        PendingAction.objects.filter(pk=action.pk).update(**{**copy, **long_ago})

    shared("worker")
    nothing_leaves(server)


def test_worker_learns_of_a_pause_on_another_machine(
    approved: Callable[..., PendingAction],
    server: MemoryServer,
    mailbox: Mailbox,
    shared: Machines,
) -> None:
    approved()
    length = AuditChain.objects.get(pk=mailbox.pk).length
    shared("web")
    switch.pause(mailbox=mailbox, actor="user:1")
    cut_chain(mailbox.pk, length)
    Pause.objects.all().delete()

    shared("worker")
    nothing_leaves(server)


@pytest.mark.parametrize("has_begun", [True, False])
def test_second_journal_pauses_everything(
    api: Api,
    reviewer: Reviewer,
    server: MemoryServer,
    settings: Any,
    start: Machines,
    tmp_path: Path,
    has_begun: bool,
) -> None:
    """Two new machines, each with a journal of its own; the second one may even begin it in the same
    moment as the first one.
    """
    settings.MAILHUB_SEND_JOURNAL = ""
    start("first")
    if has_begun:
        copied = (tmp_path / "first" / "instance-id").read_text()
        (tmp_path / "second").mkdir()
        (tmp_path / "second" / "instance-id").write_text(copied)
    start("second")
    assert Pause.objects.exists() is not has_begun
    start("first")
    assert restored.reason() == restored.REASONS["instance"]

    assert reviewer.decide(api.propose(), "approve").status_code == 302
    work()
    assert server.ledger == []
