"""The number of database statements of a review, and between a person's approval and the end of a
send: each one costs a round trip.
"""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.models import User
from approvals.gate import decide, settle
from approvals.gate.execute import execute
from approvals.models import PendingAction
from tests.conftest import Api, Reviewer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


def asked(call: Callable[[], Any]) -> int:
    """Return the number of statements of a call, without those that begin and end a transaction."""
    with CaptureQueriesContext(connection) as queries:
        call()
    return len([query for query in queries if not query["sql"].startswith(("BEGIN", "COMMIT"))])


def test_few_statements_run_from_approval_to_the_end(api: Api, alice: User) -> None:
    first, second = (
        PendingAction.objects.get(pk=api.propose(subject=subject))
        for subject in ("First", "Second")
    )

    def approve(action: PendingAction) -> Callable[[], PendingAction]:
        return lambda: decide.approve(
            action_id=action.pk, person=alice, digest=action.digest, revision=action.revision
        )

    approve(first)()  # fills the caches of the process
    assert execute(first.pk, worker="test")
    settle.settle_one(first.pk)

    assert asked(approve(second)) <= 23
    assert asked(lambda: execute(second.pk, worker="test")) <= 26
    assert asked(lambda: settle.settle_one(second.pk)) <= 12
    second.refresh_from_db()
    assert (second.status, second.settle_at) == ("succeeded", None)


def test_worker_for_a_finished_action_runs_one_statement(api: Api) -> None:
    action = PendingAction.objects.get(pk=api.propose())

    assert asked(lambda: execute(action.pk, worker="test")) == 1


def test_review_page_reads_nothing_twice(api: Api, reviewer: Reviewer) -> None:
    action_id = api.propose()
    reviewer.page(action_id)  # fills the caches of the process

    assert asked(lambda: reviewer.page(action_id)) <= 28
