"""Real workers, killed at the critical moments. The mail server's ledger is the witness."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from email import message_from_bytes
from pathlib import Path
from signal import SIGTERM
from typing import Any

import pytest
from django.utils import timezone

from accounts.connect.connecting import connect_mailbox
from accounts.models import Mailbox, User
from approvals.models import Heartbeat, PendingAction
from tests.conftest import Api, Reviewer, make_api
from tests.support.processes.programs import WorkerProcess, this_test, until
from tests.support.servers.sandbox import ADA, CHARLES, SandboxServer
from tests.support.servers.smtp import FaultySmtp, Point

pytestmark = pytest.mark.django_db(transaction=True)

ON_SQLITE = pytest.param("SQLite", marks=[pytest.mark.process, pytest.mark.sqlite_only])
LONG_ON_SQLITE = pytest.param(
    "SQLite", marks=[pytest.mark.process, pytest.mark.sqlite_only, pytest.mark.long]
)
ON_POSTGRES = pytest.param("PostgreSQL", marks=pytest.mark.postgres_only)
on_both = pytest.mark.parametrize("database", [LONG_ON_SQLITE, ON_POSTGRES])
# Long on PostgreSQL: processes start slowly, and the proof covers the same cases there.
LONG_ON_POSTGRES = pytest.param("PostgreSQL", marks=[pytest.mark.postgres_only, pytest.mark.long])
on_both_in_the_end = pytest.mark.parametrize("database", [ON_SQLITE, LONG_ON_POSTGRES])


@dataclass(kw_only=True)
class Scene:
    """Two mailboxes with the test's SMTP server, an agent, a person, and workers to kill."""

    home: Path
    smtp: FaultySmtp
    sandbox: SandboxServer
    api: Api
    reviewer: Reviewer
    workers: ExitStack
    started: list[WorkerProcess] = field(default_factory=list)

    def worker(self) -> WorkerProcess:
        """Start one more worker, and return it when it is ready."""
        worker = self.workers.enter_context(
            WorkerProcess(self.home, MAILHUB_LEASE_SECONDS=15, **this_test())
        )
        self.started.append(worker)
        until(
            lambda: Heartbeat.objects.filter(worker__endswith=f":{worker.pid}").exists(),
            say=worker.log,
        )
        return worker

    def approved(self, subject: str = "Hello", *, mailbox: str = ADA) -> PendingAction:
        action_id = self.api.propose(subject=subject, mailbox=mailbox)
        assert self.reviewer.decide(action_id, "approve").status_code == 302
        return PendingAction.objects.get(pk=action_id)

    def reaches(self, action: PendingAction, *states: str) -> PendingAction:
        def there() -> bool:
            action.refresh_from_db()
            return action.status in states

        until(there, say=lambda: f"{action.status} {action.error}\n{self.log()}")
        return action

    def sent(self) -> list[str]:
        """Return the Message-IDs in the ledger of the SMTP server."""
        return [
            str(message_from_bytes(accepted.content)["Message-ID"]) for accepted in self.smtp.ledger
        ]

    def in_sent(self, action: PendingAction) -> int:
        messages = [message_from_bytes(raw) for raw in self.sandbox.messages(ADA, "Sent")]
        return sum(message["Message-ID"] == action.message_id for message in messages)

    def log(self) -> str:
        return self.started[0].log() if self.started else ""


@pytest.fixture
def scene(tmp_path: Path, sandbox: SandboxServer, alice: User, settings: Any) -> Iterator[Scene]:
    settings.MAILHUB_HOME = tmp_path  # the folder of the notification FIFO
    with FaultySmtp() as smtp, ExitStack() as workers:
        mailboxes = [
            connect_mailbox(
                owner=alice,
                address=address,
                provider="imap",
                scopes=["read", "send"],
                secrets=sandbox.access(address, smtp_port=smtp.port).as_secrets(),
            )
            for address in (ADA, CHARLES)
        ]
        Mailbox.objects.update(provider_files_copies=False)  # as after the first mail
        yield Scene(
            home=tmp_path,
            smtp=smtp,
            sandbox=sandbox,
            api=make_api(alice, *mailboxes),
            reviewer=Reviewer.signed_in(alice),
            workers=workers,
        )


def let_the_lease_run_out(action: PendingAction) -> None:
    """Move the time in the row instead of waiting for it."""
    end_lease(action, timezone.now() - timedelta(seconds=1))


def end_lease(action: PendingAction, at: datetime) -> None:
    PendingAction.objects.filter(pk=action.pk, status="executing").update(lease_until=at)


def let_the_probe_be_due(action: PendingAction) -> None:
    PendingAction.objects.filter(pk=action.pk, status="unknown").update(
        next_probe_at=timezone.now() - timedelta(seconds=1)
    )


def probed(action: PendingAction) -> bool:
    action.refresh_from_db()
    return action.probes >= 1


def killed_at(scene: Scene, point: Point) -> PendingAction:
    """Return an action whose worker was killed while the mail server held it at that point. Another
    worker runs.
    """
    worker = scene.worker()
    silent = scene.smtp.silence(at=point)
    action = scene.approved()
    silent.wait()
    worker.kill_9()
    silent.release()
    scene.worker()
    return action


@pytest.mark.fault(22)
@on_both
def test_worker_killed_before_the_wire_is_replaced_once(scene: Scene, database: str) -> None:
    action = killed_at(scene, "data")
    assert scene.smtp.ledger == []
    # This lease ends by itself, but sooner. The test skips the back-off after it.
    end_lease(action, timezone.now() + timedelta(seconds=3))
    scene.reaches(action, "approved")
    assert action.attempts.get().verdict == "not_sent"
    PendingAction.objects.filter(pk=action.pk).update(
        not_before=timezone.now() - timedelta(seconds=1)
    )

    scene.reaches(action, "succeeded")
    assert scene.sent() == [action.message_id]
    assert [attempt.verdict for attempt in action.attempts.all()] == ["not_sent", "accepted"]


@pytest.mark.fault(23)
@on_both_in_the_end
def test_worker_killed_with_nothing_accepted_stays_unknown(scene: Scene, database: str) -> None:
    action = killed_at(scene, "dot")
    let_the_lease_run_out(action)
    scene.reaches(action, "unknown")
    let_the_probe_be_due(action)
    until(lambda: probed(action), say=scene.log)

    # The worker does its other work, and leaves this action to a person.
    other = scene.reaches(scene.approved("Another"), "succeeded")
    assert scene.reaches(action, "unknown").next_probe_at is not None
    assert scene.sent() == [other.message_id]


@pytest.mark.fault(24)
@on_both
def test_server_copy_proves_a_send_after_a_kill(scene: Scene, database: str) -> None:
    scene.smtp.on_accept = lambda accepted: scene.sandbox.deliver(
        ADA, accepted.content, folder="Sent"
    )
    action = killed_at(scene, "accepted")
    let_the_lease_run_out(action)
    scene.reaches(action, "unknown")
    let_the_probe_be_due(action)

    scene.reaches(action, "succeeded")
    assert action.attempts.get().evidence == "probe"
    until(
        lambda: PendingAction.objects.filter(pk=action.pk, settle_at=None).exists(), say=scene.log
    )
    assert scene.sent() == [action.message_id]
    assert scene.in_sent(action) == 1


@pytest.mark.fault(24)
@on_both_in_the_end
def test_kill_after_acceptance_without_copy_stays_unknown(scene: Scene, database: str) -> None:
    action = killed_at(scene, "accepted")
    let_the_lease_run_out(action)
    scene.reaches(action, "unknown")
    let_the_probe_be_due(action)
    until(lambda: probed(action), say=scene.log)

    scene.reaches(scene.approved("Another"), "succeeded")
    assert scene.reaches(action, "unknown").receipt is None
    assert scene.sent().count(action.message_id) == 1


@pytest.mark.fault(28)
@on_both_in_the_end
def test_sigterm_finishes_the_send_and_starts_no_other(scene: Scene, database: str) -> None:
    hold = scene.smtp.hold(at="dot")
    action, next_one = scene.approved("First"), scene.approved("Second")
    worker = scene.worker()  # its first sweep finds both
    hold.wait()
    assert worker.process is not None
    worker.process.send_signal(SIGTERM)
    until(lambda: not worker.waits_for_signal(SIGTERM))
    hold.release()

    assert worker.wait() == 0
    assert scene.reaches(action, "succeeded", "approved").status == "succeeded"
    assert scene.reaches(next_one, "approved").attempts.count() == 0
    assert scene.sent() == [action.message_id]
    assert "Traceback" not in scene.log()


@pytest.mark.fault(19)
@on_both
def test_two_workers_share_twenty_mails_without_duplicates(scene: Scene, database: str) -> None:
    actions = [
        scene.approved(f"Mail {number}", mailbox=(ADA, CHARLES)[number % 2]) for number in range(20)
    ]
    holds = [scene.smtp.hold(at="data") for _ in range(2)]
    for _ in range(2):
        scene.worker()
    # Each worker holds one action of its own mailbox, and both workers could claim any other.
    for hold in holds:
        hold.wait()
    for hold in holds:
        hold.release()

    for action in actions:
        scene.reaches(action, "succeeded")
    assert sorted(scene.sent()) == sorted(action.message_id for action in actions)
    attempts = [action.attempts.get() for action in actions]
    assert {attempt.verdict for attempt in attempts} == {"accepted"}
    assert len({attempt.worker.rpartition(":")[0] for attempt in attempts}) == 2
