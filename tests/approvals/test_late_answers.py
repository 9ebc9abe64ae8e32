"""The late answer of a provider closes its action, whatever happened meanwhile."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now

from accounts.models import User
from approvals import guards
from approvals.core.types import BEFORE_WIRE, ApprovedAction, Outcome, Proof
from approvals.gate import decide, lookup, rulings
from approvals.gate.execute import execute
from approvals.gate.outcome import record_outcome
from approvals.gate.reconcile import DESTROYED
from approvals.models import Attempt, AuditEvent, PendingAction
from tests.approvals.kinds import NOT_NOW, Script, handed_over
from tests.approvals.lost_answers import ACCEPTED, lost, order_again, text_of
from tests.conftest import Api, Reviewer
from tests.support.servers.memory import MemoryServer
from tests.support.work import work

__all__ = ["lost"]
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("where", ["approved", "pending"])
def test_late_acceptance_closes_an_action_sent_again(
    lost: PendingAction, bob: User, api: Api, settings: Any, server: MemoryServer, where: str
) -> None:
    settings.MAILHUB_UNDO_SECONDS = 60
    order_again(lost, bob)
    if where == "pending":
        decide.undo(action_id=lost.pk, person=bob)

    assert record_outcome(lost.pk, 1, ACCEPTED, evidence="answer")

    told = api.get(f"/actions/{lost.pk}").json()
    assert (told["state"], told["receipt"]) == ("succeeded", ACCEPTED.receipt)
    assert "may_have_been_sent_at" not in told
    PendingAction.objects.update(not_before=Now())
    work()
    assert len(server.ledger) == 1
    assert not record_outcome(lost.pk, 1, ACCEPTED, evidence="answer")
    assert AuditEvent.objects.filter(event="outcome_accepted").count() == 1


def test_late_acceptance_stops_a_second_copy_before_the_wire(
    lost: PendingAction, bob: User, script: Script, server: MemoryServer
) -> None:
    order_again(lost, bob)

    def told_late(approved: ApprovedAction) -> None:
        record_outcome(lost.pk, 1, ACCEPTED, evidence="answer")

    script.before = told_late
    work()

    lost.refresh_from_db()
    assert (lost.status, len(server.ledger)) == ("succeeded", 1)
    ended = list(Attempt.objects.values_list("verdict", "code"))
    assert ended == [("accepted", ""), ("not_sent", "sent_after_all")]


def test_no_second_copy_after_an_accepted_attempt(
    lost: PendingAction, bob: User, script: Script, server: MemoryServer
) -> None:
    """Check an attempt of an older version: it records only the attempt, and leaves the action
    unchanged. The database would refuse the copy as well.
    """
    order_again(lost, bob)

    def noted(approved: ApprovedAction) -> None:
        Attempt.objects.filter(fence=1).update(verdict="accepted", evidence="answer")

    script.before = noted
    with guards.lift_guards(connection):
        work()

    assert len(server.ledger) == 1
    assert Attempt.objects.get(fence=2).phase == "prepared"


def test_proof_against_a_ruling_of_sent_is_recorded(
    lost: PendingAction, bob: User, reviewer: Reviewer
) -> None:
    rulings.resolve(action_id=lost.pk, person=bob, ruling="sent", fence=1)

    assert not record_outcome(
        lost.pk, 1, Outcome(verdict="refused", proof=BEFORE_WIRE, code="refused"), evidence="answer"
    )

    lost.refresh_from_db()
    assert (lost.status, Attempt.objects.get().verdict) == ("succeeded", "accepted")
    assert AuditEvent.objects.get(event="late_outcome").data["verdict"] == "refused"
    page = reviewer.client.get(f"/actions/{lost.pk}/?view=history")
    assert "A late answer proves that this attempt did nothing" in text_of(page)


def test_two_accepted_copies_are_both_reported(
    lost: PendingAction, bob: User, api: Api, reviewer: Reviewer, server: MemoryServer
) -> None:
    order_again(lost, bob)
    work()
    assert len(server.ledger) == 2
    assert "May have been sent (" in text_of(reviewer.page(str(lost.pk)))

    record_outcome(lost.pk, 1, ACCEPTED, evidence="answer")

    told = api.get(f"/actions/{lost.pk}").json()
    assert (told["state"], "also_sent_at" in told, "may_have_been_sent_at" in told) == (
        "succeeded",
        True,
        False,
    )
    assert "It was sent twice." in text_of(reviewer.page(str(lost.pk)))


def test_late_acceptance_is_reported_after_the_end_too(
    lost: PendingAction, bob: User, api: Api, reviewer: Reviewer, settings: Any
) -> None:
    settings.MAILHUB_UNDO_SECONDS = 60
    order_again(lost, bob)
    api.post(f"/actions/{lost.pk}/cancel")

    record_outcome(lost.pk, 1, ACCEPTED, evidence="answer")

    told = api.get(f"/actions/{lost.pk}").json()
    assert (told["state"], "also_sent_at" in told) == ("cancelled", True)
    page = text_of(reviewer.page(str(lost.pk)))
    assert "It was sent all the same." in page
    assert "Nothing was sent" not in page


def test_acceptance_after_a_proof_is_written_and_said(
    lost: PendingAction,
    api: Api,
    reviewer: Reviewer,
    server: MemoryServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Check what happens if the assumption behind the strongest proof is wrong."""
    proof = Proof(kind="destroyed", object="d1")
    destroyed = Outcome(verdict="not_sent", proof=proof, code=DESTROYED)
    assert record_outcome(lost.pk, 1, destroyed, evidence="probe")
    PendingAction.objects.update(not_before=Now())
    work()
    assert len(server.ledger) == 2

    record_outcome(lost.pk, 1, ACCEPTED, evidence="answer")

    assert [each.verdict for each in Attempt.objects.all()] == ["accepted", "accepted"]
    assert AuditEvent.objects.get(event="late_outcome").data["verdict"] == "accepted"
    assert ("late_outcome", "error") in [
        (each.msg["event"], each.msg["level"])
        for each in caplog.records
        if isinstance(each.msg, dict)
    ]
    assert "also_sent_at" in api.get(f"/actions/{lost.pk}").json()
    assert "It was sent twice." in text_of(reviewer.page(str(lost.pk)))


def test_copy_that_left_during_a_lookup_is_not_called_two(
    approved: Callable[..., PendingAction], reviewer: Reviewer, script: Script, server: MemoryServer
) -> None:
    """A person orders another copy while mailhub looks for the first, which was never sent."""
    action = approved()
    script.instead = handed_over
    execute(action.pk, worker="test")
    script.instead = None
    PendingAction.objects.update(next_probe_at=Now())

    def look(_: ApprovedAction) -> Outcome:
        script.look = lambda _: None
        reviewer.decide(str(action.pk), "resolve", ruling="not_sent", fence="1")
        reviewer.decide(str(action.pk), "approve")
        work()
        return ACCEPTED

    script.look = look
    lookup.look_up(action.pk)

    page = text_of(reviewer.page(str(action.pk)))
    assert len(server.ledger) == 1
    assert "It was sent twice" not in page
    assert "may have it twice" in page


@pytest.mark.parametrize("evidence", ["probe", "person"])
def test_late_answer_about_the_copy_found_is_not_a_second(
    lost: PendingAction, bob: User, reviewer: Reviewer, script: Script, evidence: str
) -> None:
    """Two answers are lost, a copy is found, and the answer to the first attempt comes."""
    order_again(lost, bob)
    script.instead = handed_over
    execute(lost.pk, worker="test")
    if evidence == "probe":
        script.look = lambda approved: ACCEPTED
        PendingAction.objects.update(next_probe_at=Now())
        lookup.look_up(lost.pk)
    else:
        rulings.resolve(action_id=lost.pk, person=bob, ruling="sent", fence=2)

    record_outcome(lost.pk, 1, ACCEPTED, evidence="answer")

    page = text_of(reviewer.page(str(lost.pk)))
    assert "It was sent twice" not in page
    assert "may have it twice" in page


@pytest.mark.fault(26)
def test_acceptance_of_an_old_fence_stops_the_new_one(
    approved: Callable[..., PendingAction], script: Script, server: MemoryServer
) -> None:
    """Check an acceptance of an attempt that seemed never to have been on the wire."""
    action = approved()
    script.instead = lambda approved: NOT_NOW
    work()
    PendingAction.objects.update(not_before=Now())
    script.instead = None

    def told_late(approved: ApprovedAction) -> None:
        record_outcome(action.pk, 1, ACCEPTED, evidence="answer")

    script.before = told_late
    work()

    action.refresh_from_db()
    assert (action.status, server.ledger) == ("succeeded", [])
    assert [attempt.verdict for attempt in Attempt.objects.all()] == ["accepted", "not_sent"]
