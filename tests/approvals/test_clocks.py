"""Web servers whose clocks differ: the database's clock decides the order of events."""

from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from celery import Celery  # type: ignore[import-untyped]

from accounts.infra.problems import Problem
from accounts.models import ApiToken, Mailbox, Membership, Role, User
from approvals.gate import send_back
from approvals.models import PendingAction
from approvals.queues.celery import CeleryQueue
from approvals.worker import maintenance
from tests.approvals.conftest import approve
from tests.conftest import Api, Reviewer
from tests.support.servers.memory import MemoryServer
from tests.support.work import work

pytestmark = pytest.mark.django_db(transaction=True)
AN_HOUR = timedelta(hours=1)
unreachable = Celery("unreachable", broker="redis://127.0.0.1:9/0")
without_library = Celery("without_library", broker="nonsense://127.0.0.1:9/0")


def clock_off(by: timedelta) -> time_machine.travel:
    """Return a clock of a web server that is wrong by this much."""
    return time_machine.travel(datetime.now(UTC) + by, tick=True)


def test_revocation_by_a_server_with_a_slow_clock_counts(
    api: Api, alice: User, server: MemoryServer, reviewer: Reviewer
) -> None:
    action = approve(api.propose(), alice)
    token = ApiToken.objects.get()
    reviewer.client.get("/tokens/")
    csrf = reviewer.client.cookies["csrftoken"].value
    with clock_off(-timedelta(seconds=30)):
        answer = reviewer.client.post(f"/tokens/{token.pk}/revoke/", {"csrfmiddlewaretoken": csrf})
    assert answer.status_code == 302
    send_back.send_back()
    work()
    action.refresh_from_db()
    returned = action.returned or {}
    assert (action.status, returned["code"], server.ledger) == ("pending", "token_revoked", [])


def test_member_added_by_a_server_with_a_fast_clock_approves(
    api: Api, mailbox: Mailbox, charlie: User, server: MemoryServer
) -> None:
    with clock_off(timedelta(seconds=30)):
        Membership.objects.create(mailbox=mailbox, user=charlie, role=Role.APPROVER)
    action = approve(api.propose(), charlie)
    maintenance.sweep()
    work()
    action.refresh_from_db()
    assert (action.status, len(server.ledger)) == ("succeeded", 1)


def test_proposal_expires_by_the_database_clock(api: Api, alice: User) -> None:
    action = PendingAction.objects.get(pk=api.propose())
    PendingAction.objects.update(expires_at=datetime.now(UTC) - timedelta(seconds=10))
    with clock_off(-AN_HOUR), pytest.raises(Problem) as refused:
        approve(action.pk, alice)
    assert refused.value.code == "conflict"


@pytest.mark.parametrize("broker", ["unreachable", "without_library"])
def test_health_check_survives_a_failing_broker(broker: str, settings: object) -> None:
    settings.MAILHUB_CELERY_APP = f"{__name__}.{broker}"  # type: ignore[attr-defined]
    assert CeleryQueue().answers() is False
