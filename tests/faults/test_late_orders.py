"""An order to send that is carried out late, after its action has moved on: only destroying its
draft proves that it is not sent.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from accounts.models import User
from approvals.gate import decide, revise, rulings, send_back
from approvals.models import Attempt, AuditEvent, PendingAction, Preparation
from approvals.worker import maintenance
from tests.conftest import Api, Reviewer, make_api
from tests.faults.graph_road import approve, now_it_is_time, probe, throttled_with_a_draft
from tests.support.people.gmail import connected, gmail
from tests.support.people.gmail import letter as gmail_letter
from tests.support.people.outlook import graph, mailbox, state
from tests.support.processes.programs import until
from tests.support.servers.gmail import GmailServer
from tests.support.servers.graph import GraphServer
from tests.support.servers.graph_data import Fault, Held
from tests.support.servers.sandbox import ADA
from tests.support.work import work

__all__ = ["gmail", "graph", "mailbox"]
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def slow_order(graph: GraphServer, settings: Any) -> Iterator[Held]:
    """Stop the next order to send in the server before its effect, for longer than the client
    waits.
    """
    settings.MAILHUB_WIRE_TIMEOUT_SECONDS = 1
    held = Held()
    faults = [Fault(phase="late", pause=held.here, ended=held.done.set)]
    graph.chooser = lambda action: faults.pop() if action == "send" and faults else None
    yield held
    held.release()


def carry_out(graph: GraphServer, held: Held) -> None:
    """Let the late order go on, and wait until the server has answered it."""
    held.release()
    until(lambda: held.done.is_set())


def order_again(action: PendingAction, person: User) -> PendingAction:
    action.refresh_from_db()
    ruled = rulings.resolve(
        action_id=action.pk, person=person, ruling="not_sent", fence=action.fence
    )
    PendingAction.objects.update(not_before=timezone.now() - timedelta(seconds=1))
    return ruled


# Microsoft 365


def test_late_order_sends_no_withdrawn_mail(
    api: Api, reviewer: Reviewer, graph: GraphServer, slow_order: Held
) -> None:
    action = approve(api, reviewer)
    work()
    for _ in range(2):
        probe()
    assert state(action) == ("approved", "draft_destroyed")
    assert api.post(f"/actions/{action.pk}/cancel").json()["state"] == "cancelled"
    now_it_is_time()
    maintenance.sweep()

    carry_out(graph, slow_order)

    assert graph.ledger == []
    assert "may_have_been_sent_at" not in api.get(f"/actions/{action.pk}").json()


def test_late_order_sends_no_outdated_wording(
    api: Api, reviewer: Reviewer, alice: User, graph: GraphServer, slow_order: Held
) -> None:
    action = approve(api, reviewer, subject="The first wording")
    work()
    for _ in range(2):
        probe()
    PendingAction.objects.update(approved_until=timezone.now() - timedelta(seconds=1))
    now_it_is_time()
    send_back.send_back()
    action.refresh_from_db()
    changes = {"subject": "The second wording"}
    revise.edit(
        action_id=action.pk,
        person=alice,
        digest=action.digest,
        revision=action.revision,
        changes=changes,
    )
    action.refresh_from_db()
    decide.approve(
        action_id=action.pk, person=alice, digest=action.digest, revision=action.revision
    )
    now_it_is_time()
    work()
    assert state(action) == ("succeeded", None)

    carry_out(graph, slow_order)

    assert [sent.subject for sent in graph.ledger] == ["The second wording"]


def test_draft_of_mail_ruled_unsent_is_destroyed(
    api: Api, reviewer: Reviewer, alice: User, graph: GraphServer, slow_order: Held, settings: Any
) -> None:
    action = approve(api, reviewer)
    work()
    settings.MAILHUB_UNDO_SECONDS = 60
    order_again(action, alice)
    api.post(f"/actions/{action.pk}/cancel")
    assert "may_have_been_sent_at" in api.get(f"/actions/{action.pk}").json()

    now_it_is_time()
    maintenance.sweep()
    carry_out(graph, slow_order)

    assert (graph.ledger, Preparation.objects.count()) == ([], 0)
    assert "may_have_been_sent_at" not in api.get(f"/actions/{action.pk}").json()
    assert AuditEvent.objects.filter(event="proven_unsent").count() == 1


def test_draft_being_sent_is_not_destroyed(
    api: Api, reviewer: Reviewer, graph: GraphServer
) -> None:
    action = approve(api, reviewer)
    graph.fault("drop_after")
    work()
    probe()
    (draft,) = graph.drafts(ADA)

    def starts_to_leave(action: str) -> None:
        if action == "permanentDelete" and draft.folder == "drafts":
            key = draft.shown["changeKey"]
            graph.store.move(ADA, draft, "sentitems")
            draft.shown["changeKey"] = key

    graph.chooser = starts_to_leave
    probe()

    assert state(action)[0] == "unknown"
    assert graph.sent(ADA) == [draft]


@pytest.mark.parametrize("why", ["edited", "another cloud", "gone"])
def test_draft_that_cannot_be_destroyed_stays_unknown(
    api: Api, reviewer: Reviewer, graph: GraphServer, why: str
) -> None:
    action = approve(api, reviewer)
    graph.fault("drop_after")
    work()
    (draft,) = graph.drafts(ADA)
    if why == "edited":
        graph.store.patch(draft, {"subject": "Rewritten by its person, for an hour"})
    elif why == "gone":
        graph.store.of(ADA).pop(draft.id)
    graph.destroys = why != "another cloud"
    for _ in range(3):
        probe()
        work()

    assert state(action)[0] == "unknown"
    assert graph.ledger == []
    assert graph.drafts(ADA) == ([] if why == "gone" else [draft])


def test_draft_edited_by_the_owner_is_never_deleted(
    api: Api, reviewer: Reviewer, graph: GraphServer
) -> None:
    action = approve(api, reviewer)
    draft = throttled_with_a_draft(graph)
    graph.store.patch(draft, {"subject": "Rewritten by its person, for an hour"})
    work()
    assert state(action) == ("failed", "draft_changed")
    now_it_is_time()
    maintenance.sweep()
    assert graph.drafts(ADA) == [draft]


@pytest.mark.parametrize("why", ["edited", "gone", "untouched"])
def test_ordered_copy_leaves_once_in_any_draft_state(
    api: Api, reviewer: Reviewer, alice: User, graph: GraphServer, why: str
) -> None:
    action = approve(api, reviewer)
    graph.fault("drop_after")
    work()
    (draft,) = graph.drafts(ADA)
    if why == "edited":
        graph.store.patch(draft, {"subject": "Rewritten by its person, for an hour"})
    elif why == "gone":
        graph.store.of(ADA).pop(draft.id)

    order_again(action, alice)
    work()

    assert state(action) == ("succeeded", None)
    assert [sent.subject for sent in graph.ledger] == ["Hello"]
    assert graph.drafts(ADA) == ([draft] if why == "edited" else [])
    proven = Attempt.objects.get(fence=1).code == "draft_destroyed"
    assert proven is (why == "untouched")
    assert ("may_have_been_sent_at" in api.get(f"/actions/{action.pk}").json()) is not proven


# Gmail


@pytest.fixture
def gmail_api(alice: User, gmail: GmailServer) -> Api:
    return make_api(alice, connected(gmail, alice))


@pytest.mark.parametrize("why", ["edited", "gone", "untouched"])
def test_ordered_copy_leaves_once_at_gmail_too(
    gmail_api: Api, reviewer: Reviewer, alice: User, gmail: GmailServer, why: str
) -> None:
    action_id = gmail_api.propose()
    reviewer.decide(action_id, "approve")
    gmail.drop("drafts.send")
    work()
    (draft,) = gmail.box(ADA).drafts
    if why == "edited":
        gmail.put_draft(ADA, gmail_letter("The person's own words"), draft)
    elif why == "gone":
        gmail.delete_draft(ADA, draft)

    action = PendingAction.objects.get()
    order_again(action, alice)
    work()

    assert state(action) == ("succeeded", None)
    assert len(gmail.ledger) == 1
    assert list(gmail.box(ADA).drafts) == ([draft] if why == "edited" else [])
    proven = Attempt.objects.get(fence=1).code == "draft_destroyed"
    assert proven is (why == "untouched")


def test_deleted_draft_unknown_to_gmail_proves_nothing(
    gmail_api: Api, reviewer: Reviewer, gmail: GmailServer
) -> None:
    action_id = gmail_api.propose()
    reviewer.decide(action_id, "approve")
    gmail.drop("drafts.send")
    work()
    probe()
    gmail.before["drafts.delete"] = lambda call: gmail.delete_draft(
        ADA, next(iter(gmail.box(ADA).drafts))
    )
    probe()
    assert state(PendingAction.objects.get(pk=action_id))[0] == "unknown"
