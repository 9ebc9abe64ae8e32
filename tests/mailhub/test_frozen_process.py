"""A process that is frozen or lost inside of a transaction: PostgreSQL ends its session, nobody waits
without an end, and the doors ask for another try.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.db import Error, connection, connections, transaction
from django.test import Client
from django.utils import timezone

from accounts.infra.database import is_away
from accounts.models import ApiToken, Mailbox, User
from approvals.audit import chain
from approvals.models import PendingAction
from approvals.queues.workers import carry_out
from approvals.worker import maintenance
from tests.approvals.conftest import approved, script
from tests.approvals.kinds import Script
from tests.conftest import HELLO, Api, Reviewer, make_api, make_mailbox, problem_of
from tests.support.concurrently import all_at_once
from tests.support.processes.programs import this_test
from tests.support.servers.memory import MemoryServer

__all__ = ["approved", "script"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres_only]
LOCK_TIMEOUT = "-c lock_timeout=15s"


@contextmanager
def changed(**options: Any) -> Iterator[None]:
    """Open the connections of this process with other options."""
    given = connection.settings_dict["OPTIONS"]
    _reconnect({**given, **options})
    try:
        yield
    finally:
        _reconnect(given)


def _reconnect(options: dict[str, Any]) -> None:
    connections.close_all()
    connection.close_pool()  # type: ignore[attr-defined]
    connection.settings_dict["OPTIONS"] = options


@contextmanager
def impatient() -> Iterator[None]:
    """Shorten the wait for a locked row to 0.1 s."""
    given = connection.settings_dict["OPTIONS"]["options"]
    assert LOCK_TIMEOUT in given
    with changed(options=given.replace(LOCK_TIMEOUT, "-c lock_timeout=100ms")):
        yield


@pytest.fixture
def frozen(mailbox: Mailbox) -> Iterator[psycopg.Connection[Any]]:
    """Return a session without limits; `hold` locks the chain of the mailbox in it."""
    with psycopg.connect(str(this_test()["DATABASE_URL"])) as session:
        yield session


def hold(session: psycopg.Connection[Any], mailbox: Mailbox) -> None:
    session.execute(
        "SELECT FROM approvals_auditchain WHERE id = %s FOR NO KEY UPDATE", [mailbox.pk]
    )


def test_server_ends_a_session_idle_in_a_transaction(api: Api, mailbox: Mailbox) -> None:
    api.propose()
    answers: list[int] = []

    def propose() -> None:
        answers.append(api.tool("send_email", **HELLO, confirm=True).status_code)

    @transaction.atomic
    def freeze() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SHOW idle_in_transaction_session_timeout")
            assert cursor.fetchone() == ("30s",)
            # Only for this session: the other one may be slow, but is not frozen.
            cursor.execute("SET LOCAL idle_in_transaction_session_timeout = '100ms'")
        chain.lock_end(mailbox.pk)
        all_at_once([propose])  # it waits for this thread, which waits for it
        Mailbox.objects.count()

    with pytest.raises(Error) as ended:
        freeze()
    connection.close()
    assert answers == [202]
    assert is_away(ended.value)


def test_locked_mailbox_is_refused_and_others_go_on(
    api: Api,
    alice: User,
    reviewer: Reviewer,
    mailbox: Mailbox,
    server: MemoryServer,
    frozen: psycopg.Connection[Any],
) -> None:
    other = make_mailbox("other@lovelace.example", server, alice)
    beside = make_api(alice, other, name="beside")
    action_id = api.propose()
    reviewer.look(action_id)
    reviewer.client.raise_request_exception = False
    hold(frozen, mailbox)
    with impatient():
        refused = api.tool("send_email", **HELLO, confirm=True)
        page = reviewer.decide(action_id, "approve")
        taken = beside.tool("send_email", **HELLO, mailbox=other.address, confirm=True)
    assert (refused.status_code, page.status_code, taken.status_code) == (503, 503, 202)
    assert (
        int(refused["Retry-After"])
        == problem_of(refused)["retry_after"]
        == int(page["Retry-After"])
    )
    frozen.rollback()
    assert reviewer.decide(action_id, "approve").status_code == 302


def test_claim_of_a_locked_mailbox_is_tried_again(
    approved: Callable[..., PendingAction],
    mailbox: Mailbox,
    server: MemoryServer,
    frozen: psycopg.Connection[Any],
) -> None:
    action = approved()
    hold(frozen, mailbox)
    with impatient():
        assert not carry_out(action.pk, settle=False)
        frozen.rollback()
        assert (PendingAction.objects.get(pk=action.pk).status, server.ledger) == ("approved", [])
        assert carry_out(action.pk, settle=False)
    assert len(server.ledger) == 1


def test_outcome_waits_for_a_locked_mailbox(
    approved: Callable[..., PendingAction],
    mailbox: Mailbox,
    script: Script,
    server: MemoryServer,
    frozen: psycopg.Connection[Any],
) -> None:
    action = approved()
    waited: list[str] = []

    def release_after_a_failure(execute: Any, sql: str, *rest: Any) -> Any:
        try:
            return execute(sql, *rest)
        except Error:
            waited.append(sql)
            frozen.rollback()
            raise

    script.later = lambda approved: hold(frozen, mailbox)
    with impatient(), connection.execute_wrapper(release_after_a_failure):
        assert carry_out(action.pk, settle=False)
    action.refresh_from_db()
    assert (len(waited), action.status, len(server.ledger)) == (1, "succeeded", 1)


def test_sweep_goes_on_beside_a_locked_mailbox(
    alice: User,
    approved: Callable[..., PendingAction],
    mailbox: Mailbox,
    server: MemoryServer,
    frozen: psycopg.Connection[Any],
) -> None:
    void = approved()
    ApiToken.objects.update(revoked_at=timezone.now() + timedelta(minutes=1))
    other = make_mailbox("other@lovelace.example", server, alice)
    late = make_api(alice, other, name="beside").propose(mailbox=other.address)
    PendingAction.objects.filter(pk=late).update(expires_at=timezone.now() - timedelta(seconds=1))
    hold(frozen, mailbox)
    with impatient():
        maintenance.sweep()
        states = PendingAction.objects.values_list("pk", "status")
        assert dict(states) == {void.pk: "approved", UUID(late): "expired"}
        frozen.rollback()
        maintenance.sweep()
    void.refresh_from_db()
    assert void.status == "pending"


def test_used_up_pool_asks_for_another_try(api: Api, reviewer: Reviewer) -> None:
    reviewer.client.raise_request_exception = False

    def ask() -> list[Any]:
        page = reviewer.client.get("/")
        return [api.get("/mailboxes"), page, Client().get("/readyz")]

    with changed(pool={"min_size": 0, "max_size": 1, "timeout": 0.1}), transaction.atomic():
        Mailbox.objects.count()  # the only connection
        (answers,) = all_at_once([ask])
    assert [answer.status_code for answer in answers] == [503, 503, 503]
    assert int(answers[0]["Retry-After"]) == problem_of(answers[0])["retry_after"]
    assert answers[1]["Retry-After"] == answers[0]["Retry-After"]
