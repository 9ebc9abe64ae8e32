"""The whole send path on a mailbox of Microsoft 365 whose answers are lost, late or wrong.

The ledger of the server is the witness: every sent mail is there, whatever the answer was.
"""

from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.utils import timezone

from accounts.models import Mailbox
from approvals.gate import overdue
from approvals.models import Heartbeat, PendingAction, Preparation, Rest
from tests.conftest import Api, Reviewer
from tests.faults.graph_road import (
    HIDDEN,
    approve,
    approved,
    created,
    now_it_is_time,
    probe,
    throttled_with_a_draft,
)
from tests.support.people.outlook import graph, mailbox, state
from tests.support.processes.programs import WorkerProcess, this_test, until
from tests.support.servers.graph import GraphServer
from tests.support.servers.sandbox import ADA, CHARLES, MIRA
from tests.support.work import work

__all__ = ["approved", "graph", "mailbox"]
pytestmark = pytest.mark.django_db


def test_approved_mail_leaves_once_as_the_verified_draft(
    approved: PendingAction, graph: GraphServer
) -> None:
    work()
    work()
    assert state(approved) == ("succeeded", None)
    (accepted,) = graph.ledger
    assert (accepted.recipients, accepted.endpoint) == ((MIRA, CHARLES, HIDDEN), "send")
    assert accepted.message_id == accepted.marker == approved.message_id
    assert len(graph.sends()) == 1
    assert (graph.drafts(ADA), len(graph.sent(ADA))) == ([], 1)
    assert set(approved.receipt or {}) == {"at", "recipient_count", "provider"}
    assert all('IdType="ImmutableId"' in hit.prefer for hit in graph.hits)


# Lost answers


@pytest.mark.fault(30, 31)
@pytest.mark.parametrize(
    "status",
    [
        pytest.param(0, id="reset-after-the-effect"),
        pytest.param(503, id="503"),
        # test_graph_answers.py has every status.
        *(pytest.param(status, marks=pytest.mark.long) for status in (500, 502, 504, 307)),
    ],
)
def test_send_without_an_answer_is_looked_up_not_repeated(
    approved: PendingAction, graph: GraphServer, status: int
) -> None:
    if status:
        graph.fault("answer_after_effect", status=status, Location=f"{graph.url}/me/messages")
    else:
        graph.fault("drop_after_effect")
    work()
    assert state(approved)[0] == "unknown"
    work()
    assert len(graph.sends()) == 1
    probe()
    assert state(approved) == ("succeeded", None)
    assert approved.attempts.get().evidence == "probe"
    assert [accepted.message_id for accepted in graph.ledger] == [approved.message_id]
    assert len(graph.sends()) == 1


@pytest.mark.fault(23, 30, 31)
@pytest.mark.parametrize(
    "phase",
    [
        pytest.param("drop_after", id="reset-after-the-post-was-read"),
        pytest.param("drop_before", id="reset-before-it-was-read"),
        pytest.param("answer", id="503-and-nothing-sent", marks=pytest.mark.long),
    ],
)
def test_draft_seen_unsent_twice_is_destroyed_and_made_again(
    approved: PendingAction, graph: GraphServer, phase: Any
) -> None:
    graph.fault(phase)
    work()
    assert state(approved)[0] == "unknown"
    assert len(graph.sends()) == (phase != "drop_before")
    before = len(graph.sends())
    probe()
    work()
    assert (state(approved)[0], len(graph.sends())) == ("unknown", before)
    probe()
    assert state(approved) == ("approved", "draft_destroyed")
    assert graph.drafts(ADA) == []
    now_it_is_time()
    work()
    assert state(approved) == ("succeeded", None)
    assert [accepted.message_id for accepted in graph.ledger] == [approved.message_id]
    assert created(graph) == 2


@pytest.mark.fault(30)
def test_silent_server_gets_exactly_one_request(
    approved: PendingAction, graph: GraphServer, settings: Any
) -> None:
    settings.MAILHUB_WIRE_TIMEOUT_SECONDS = 1
    held = graph.hold(after_effect=True)
    work()
    held.release()
    assert state(approved) == ("unknown", "no_answer")
    assert len(graph.sends()) == 1


@pytest.mark.fault(30)
def test_unreachable_server_has_sent_nothing(approved: PendingAction, settings: Any) -> None:
    settings.GRAPH_BASE_URL = "http://127.0.0.1:9/v1.0"
    work()
    assert state(approved) == ("approved", "unreachable")


@pytest.mark.fault(32)
def test_acceptance_with_retry_after_counts(approved: PendingAction, graph: GraphServer) -> None:
    graph.fault("answer_after_effect", status=202, Retry_After="30")
    work()
    work()
    assert state(approved) == ("succeeded", None)
    assert (len(graph.sends()), len(graph.ledger), Rest.objects.count()) == (1, 1, 0)


# The lookup itself fails


@pytest.mark.fault(39)
def test_failed_lookup_or_late_index_leaves_it_unknown(
    approved: PendingAction, graph: GraphServer
) -> None:
    graph.fault("drop_after_effect")
    work()
    graph.fault("answer", on="list", status=500, times=2)
    for _ in range(2):
        probe()
    graph.index_lags = True
    for _ in range(2):
        probe()
        work()
    assert state(approved)[0] == "unknown"
    assert approved.next_probe_at is not None
    assert len(graph.sends()) == 1

    graph.index_lags = False
    probe()
    assert state(approved) == ("succeeded", None)
    assert len(graph.ledger) == 1


@pytest.mark.fault(39)
def test_mark_finds_a_mail_with_another_id(approved: PendingAction, graph: GraphServer) -> None:
    graph.renames = True
    graph.fault("drop_after_effect")
    work()
    probe()
    assert state(approved) == ("succeeded", None)
    assert approved.attempts.get().reference == graph.ledger[0].message_id != approved.message_id


@pytest.mark.parametrize("effect", [True, False])
def test_lost_answer_without_drafts_is_found_by_our_mark(
    api: Api, reviewer: Reviewer, graph: GraphServer, mailbox: Mailbox, effect: bool
) -> None:
    Mailbox.objects.update(scopes=["Mail.Read", "Mail.Send"])
    action = approve(api, reviewer)
    graph.fault("drop_after_effect" if effect else "drop_after")
    work()
    for _ in range(3):
        probe()
        work()
    assert state(action)[0] == ("succeeded" if effect else "unknown")
    assert [hit.action for hit in graph.sends()] == ["sendMail"]
    assert len(graph.ledger) == effect


# The worker or the database fails


@pytest.mark.fault(27)
@pytest.mark.django_db(transaction=True)
def test_database_error_after_the_202_loses_nothing(
    approved: PendingAction, graph: GraphServer
) -> None:
    refused: list[str] = []

    def once(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if graph.ledger and not refused and 'UPDATE "approvals_attempt"' in sql:
            refused.append(sql)
            raise OperationalError("the database is restarting")
        return execute(sql, params, many, context)

    with connection.execute_wrapper(once):
        work()
    assert len(refused) == 1
    assert state(approved) == ("succeeded", None)
    assert (len(graph.ledger), len(graph.sends())) == (1, 1)


ON_SQLITE = pytest.param(
    "SQLite", marks=[pytest.mark.process, pytest.mark.sqlite_only, pytest.mark.long]
)
ON_POSTGRES = pytest.param("PostgreSQL", marks=pytest.mark.postgres_only)


@pytest.mark.fault(23, 24)
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "after_effect",
    [
        pytest.param(False, id="killed-before-the-effect"),
        pytest.param(True, id="killed-after-the-effect"),
    ],
)
@pytest.mark.parametrize("database", [ON_SQLITE, ON_POSTGRES])
def test_mail_leaves_once_if_a_worker_dies_at_the_send(
    approved: PendingAction,
    graph: GraphServer,
    tmp_path: Path,
    database: str,
    after_effect: bool,
    settings: Any,
) -> None:
    settings.MAILHUB_HOME = tmp_path
    held = graph.hold(after_effect=after_effect)
    with ExitStack() as workers:
        environment = {"GRAPH_BASE_URL": graph.url, **this_test()}
        worker = workers.enter_context(WorkerProcess(tmp_path, **environment))
        until(
            lambda: Heartbeat.objects.filter(worker__endswith=f":{worker.pid}").exists(),
            say=worker.log,
        )
        held.wait()
        worker.kill_9()
        held.release()
    PendingAction.objects.filter(status="executing").update(
        lease_until=timezone.now() - timedelta(seconds=1)
    )
    overdue.end_dead_leases()
    assert state(approved) == ("unknown", "worker_lost")
    probe()
    if not after_effect:
        assert state(approved)[0] == "unknown"
        probe()
        now_it_is_time()
        work()
    assert state(approved) == ("succeeded", None)
    assert [accepted.message_id for accepted in graph.ledger] == [approved.message_id]


@pytest.mark.fault(58)
def test_prepared_and_kept_data_hold_no_readable_secret(
    approved: PendingAction, graph: GraphServer, mailbox: Mailbox
) -> None:
    throttled_with_a_draft(graph)
    token = next(iter(graph.tokens))
    assert token.encode() not in bytes(Mailbox.objects.get(pk=mailbox.pk).credentials)
    assert set(Preparation.objects.get().notes) == {
        "marker",
        "draft",
        "source",
        "version",
        "folder",
    }
