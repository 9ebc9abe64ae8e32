"""Answers that leave only unless somebody answers first, while real workers are killed: nothing is
sent twice, and nothing is sent after an answer that arrived before.
"""

from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone

from approvals.models import AuditEvent, PendingAction
from tests.acceptance.test_answers_to_waiting_mail import ASKED, MIRA, letter
from tests.acceptance.test_worker_kills import (
    Scene,
    end_lease,
    let_the_lease_run_out,
    let_the_probe_be_due,
    on_both_in_the_end,
    probed,
    scene,
)
from tests.support.processes.programs import until
from tests.support.servers.sandbox import ADA

__all__ = ["scene"]
# The fixture `scene` is pytest.mark.process on SQLite.
pytestmark = pytest.mark.django_db(transaction=True)
# Of this database only: another test may use the same server.
WAITS_FOR_A_ROW = """
SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND locktype = 'transactionid' AND pid IN (
    SELECT l.pid FROM pg_locks AS l JOIN pg_database AS d ON l.database = d.oid
    WHERE d.datname = current_database()))
"""


@pytest.fixture
def due(scene: Scene) -> PendingAction:
    """Return an approved answer whose time has come, and that no worker has seen yet."""
    scene.sandbox.deliver(ADA, letter(id=ASKED, date="Mon, 02 Nov 2026 10:00:00 +0000"))
    asked = scene.api.tool("list_emails", mailbox=ADA).json()["emails"][0]["id"]
    proposed = scene.api.tool(
        *["reply_email"],
        mailbox=ADA,
        message_id=asked,
        comment="On Thursday.",
        send_at=(timezone.now() + timedelta(days=3)).isoformat(),
        unless_answered=True,
        confirm=True,
    ).json()
    action = PendingAction.objects.get(pk=proposed["action"]["id"])
    assert scene.reviewer.decide(str(action.pk), "approve").status_code == 302
    make_due(action)
    return action


def make_due(action: PendingAction) -> None:
    before = timezone.now() - timedelta(seconds=1)
    PendingAction.objects.filter(pk=action.pk, status="approved").update(not_before=before)


def somebody_answers(scene: Scene) -> None:
    scene.sandbox.deliver(ADA, letter(In_Reply_To=ASKED))


def is_withdrawn_once(scene: Scene, action: PendingAction) -> None:
    scene.reaches(action, "cancelled")
    assert (action.error or {})["code"] == "withdrawn_answered"
    assert scene.api.get(f"/actions/{action.pk}").json()["answered_by"] == MIRA
    assert AuditEvent.objects.filter(action_id=action.pk, event="cancelled").count() == 1
    assert scene.smtp.ledger == []


@pytest.mark.postgres_only
def test_kill_between_the_answer_and_the_withdrawal(scene: Scene, due: PendingAction) -> None:
    somebody_answers(scene)
    with transaction.atomic():
        PendingAction.objects.select_for_update().get(pk=due.pk)
        worker = scene.worker()
        until(waits_for_a_row, say=scene.log)  # it has seen the answer
        worker.kill_9()
    assert PendingAction.objects.get(pk=due.pk).status == "approved"

    scene.worker()

    is_withdrawn_once(scene, due)


def waits_for_a_row() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(WAITS_FOR_A_ROW)
        return bool(cursor.fetchone()[0])


@on_both_in_the_end
def test_kill_between_the_check_and_the_wire(
    scene: Scene, due: PendingAction, database: str
) -> None:
    silent = scene.smtp.silence(at="data")
    worker = scene.worker()
    silent.wait()  # nobody had answered when it looked
    worker.kill_9()
    silent.release()
    somebody_answers(scene)
    scene.worker()
    end_lease(due, timezone.now() + timedelta(seconds=3))
    scene.reaches(due, "approved")
    make_due(due)

    is_withdrawn_once(scene, due)
    assert [attempt.verdict for attempt in due.attempts.all()] == ["not_sent"]


@on_both_in_the_end
@pytest.mark.parametrize("copied", [pytest.param(True, marks=pytest.mark.long), False])
def test_answer_after_a_kill_at_the_wire_sends_nothing_again(
    scene: Scene, due: PendingAction, database: str, copied: bool
) -> None:
    """An answer to mail that may have left withdraws nothing, and does not hide that."""
    if copied:
        scene.smtp.on_accept = lambda accepted: scene.sandbox.deliver(
            ADA, accepted.content, folder="Sent"
        )
    silent = scene.smtp.silence(at="accepted")
    worker = scene.worker()
    silent.wait()
    worker.kill_9()
    silent.release()
    somebody_answers(scene)
    scene.worker()
    let_the_lease_run_out(due)
    scene.reaches(due, "unknown")
    let_the_probe_be_due(due)

    until(lambda: probed(due), say=scene.log)

    scene.reaches(due, "succeeded" if copied else "unknown")
    assert scene.sent() == [due.message_id]
