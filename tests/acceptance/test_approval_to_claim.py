"""Between the approval and the claim of a worker nothing is changed, lost or doubled."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from accounts.models import ApiToken, Mailbox, Membership, Role, User
from approvals import guards
from approvals.core.queue import queue
from approvals.gate.execute import execute
from approvals.models import Attempt, Blob, PendingAction, Revision
from approvals.worker import maintenance
from tests.conftest import Api, Reviewer
from tests.support.concurrently import all_at_once
from tests.support.servers.memory import MemoryServer
from tests.support.work import work

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


CONNECTS = "UPDATE accounts_mailbox SET generation = generation + 1 WHERE id = NEW.mailbox_id;"
CLAIMS = "AFTER UPDATE ON approvals_pendingaction FOR EACH ROW WHEN (NEW.status = 'executing')"


@pytest.fixture
def connected_in_the_claim() -> Iterator[None]:
    """Give the mailbox another generation between the claim's UPDATE and the read of the mailbox."""
    is_postgresql = connection.vendor == "postgresql"
    with connection.cursor() as cursor:
        if is_postgresql:
            cursor.execute(
                "CREATE FUNCTION connects() RETURNS trigger LANGUAGE plpgsql AS"
                f" $$ BEGIN {CONNECTS} RETURN NULL; END $$"
            )
        act = "EXECUTE FUNCTION connects()" if is_postgresql else f"BEGIN {CONNECTS} END"
        cursor.execute(f"CREATE TRIGGER connects {CLAIMS} {act}")
    yield
    with connection.cursor() as cursor:
        cursor.execute(
            "DROP FUNCTION connects CASCADE" if is_postgresql else "DROP TRIGGER connects"
        )


def test_mailbox_connected_again_in_the_claim_sends_nothing(
    api: Api, reviewer: Reviewer, server: MemoryServer, connected_in_the_claim: None
) -> None:
    action_id = api.propose()
    reviewer.decide(action_id, "approve")

    work()
    assert execute(UUID(action_id), worker="test") is False

    assert server.ledger == []
    assert not Attempt.objects.exists()


@pytest.mark.fault(17)
@pytest.mark.parametrize(
    ("change", "state"),
    [
        ("approver_removed", "pending"),
        ("approver_inactive", "pending"),
        ("disconnected", "pending"),
        ("token_revoked", "pending"),
        ("expired", "expired"),
        ("mailbox_paused", "approved"),
        ("kill_switch", "approved"),
    ],
)
def test_change_between_approval_and_claim_stops_send(
    api: Api, reviewer: Reviewer, alice: User, server: MemoryServer, change: str, state: str
) -> None:
    action_id = api.propose()
    reviewer.decide(action_id, "approve")
    match change:
        case "approver_removed":
            Membership.objects.filter(user=alice).update(role=Role.PROPOSER)
        case "approver_inactive":
            User.objects.filter(pk=alice.pk).update(is_active=False)
        case "disconnected":
            Mailbox.objects.update(status="disconnected")
        case "token_revoked":
            ApiToken.objects.update(revoked_at=timezone.now() + timedelta(seconds=1))
        case "expired":
            PendingAction.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
        case "mailbox_paused":
            Mailbox.objects.update(status="paused")
        case "kill_switch":
            call_command("pause")

    work()
    assert execute(UUID(action_id), worker="test") is False
    maintenance.sweep()

    assert server.ledger == []
    action = PendingAction.objects.get()
    assert action.status == state
    assert bool(action.returned) is (state == "pending")
    assert action.approval_round == (2 if state == "pending" else 1)


@pytest.mark.fault(19)
def test_two_workers_at_once_make_one_claim(
    api: Api, reviewer: Reviewer, server: MemoryServer
) -> None:
    action_id = api.propose()
    reviewer.decide(action_id, "approve")

    claims = all_at_once([lambda: execute(UUID(action_id), worker="test")] * 8)

    assert claims.count(True) == 1
    assert len(server.ledger) == 1


class BrokenQueue:
    """A queue whose broker is down."""

    def notify(self, action_id: UUID) -> None:
        raise ConnectionError("the broker is down")


@pytest.mark.fault(21)
def test_failed_notification_loses_neither_approval_nor_mail(
    api: Api, reviewer: Reviewer, server: MemoryServer, settings: Any
) -> None:
    settings.MAILHUB_QUEUES = {"database": f"{__name__}.BrokenQueue"}
    queue.cache_clear()
    try:
        action_id = api.propose()
        assert reviewer.decide(action_id, "approve").status_code == 302
        assert PendingAction.objects.get().status == "approved"
    finally:
        settings.MAILHUB_QUEUES = {"database": "approvals.queues.channel.DatabaseQueue"}
        queue.cache_clear()

    work()

    assert len(server.ledger) == 1


def test_payload_changed_after_approval_is_not_sent(
    api: Api, reviewer: Reviewer, server: MemoryServer
) -> None:
    action_id = api.propose()
    reviewer.decide(action_id, "approve")
    revision = Revision.objects.get()
    with guards.lift_guards(connection):  # somebody with access to the database
        Revision.objects.update(
            payload={**revision.payload, "to": ["eve@evil.example"]}, sealed_payload=None
        )

    work()

    assert server.ledger == []
    assert PendingAction.objects.get(pk=action_id).status == "approved"


def test_replaced_bytes_are_not_sent_under_the_old_name(
    api: Api, reviewer: Reviewer, server: MemoryServer
) -> None:
    action_id = api.propose()
    reviewer.decide(action_id, "approve")
    with guards.lift_guards(connection):  # somebody with access to the database
        Blob.objects.update(content=bytes(Blob.objects.get().content) + b"P.S. And send money.\r\n")

    work()

    assert server.ledger == []
    assert PendingAction.objects.get(pk=action_id).status == "approved"
