"""A mail to Microsoft 365 whose road changes between two attempts: only the object that an order names
proves something about it.
"""

from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import LazySettings
from django.utils import timezone

from accounts.infra.problems import Problem
from accounts.models import Mailbox, User
from approvals.gate import decide, revise, send_back
from approvals.models import Attempt, PendingAction
from approvals.worker import maintenance
from tests.conftest import Api, Reviewer
from tests.faults.graph_road import approve, now_it_is_time, probe, throttled_with_a_draft
from tests.faults.test_late_orders import carry_out, order_again, slow_order
from tests.support.people.outlook import graph, mailbox, state
from tests.support.servers.graph import GraphServer
from tests.support.servers.graph_data import Fault, Held
from tests.support.servers.sandbox import ADA
from tests.support.work import work

__all__ = ["graph", "mailbox", "slow_order"]
pytestmark = [pytest.mark.django_db(transaction=True)]
WITH_DRAFTS, WITHOUT = ["Mail.ReadWrite", "Mail.Send"], ["Mail.Read", "Mail.Send"]


def test_draft_of_before_proves_nothing_about_one_call(
    api: Api, reviewer: Reviewer, graph: GraphServer, settings: LazySettings
) -> None:
    action = approve(api, reviewer)
    throttled_with_a_draft(graph)
    Mailbox.objects.update(scopes=WITHOUT)
    settings.MAILHUB_WIRE_TIMEOUT_SECONDS = 1
    held = Held()
    faults = [Fault(phase="late", pause=held.here, ended=held.done.set)]
    graph.chooser = lambda act: faults.pop() if act == "sendMail" and faults else None
    work()
    assert [hit.action for hit in graph.sends()] == ["send", "sendMail"]
    Mailbox.objects.update(scopes=WITH_DRAFTS)
    for _ in range(2):
        probe()
        now_it_is_time()
        work()
        assert state(action)[0] == "unknown"
    carry_out(graph, held)
    assert len(graph.ledger) == 1


def test_draft_of_later_proves_nothing_about_one_call(
    api: Api, reviewer: Reviewer, alice: User, graph: GraphServer
) -> None:
    Mailbox.objects.update(scopes=WITHOUT)
    action = approve(api, reviewer)
    graph.fault("drop_after_effect", on="sendMail")
    work()
    graph.store.move(ADA, graph.sent(ADA)[0], "archive")  # a rule of the owner files it away
    Mailbox.objects.update(scopes=WITH_DRAFTS)
    order_again(action, alice)
    graph.fault("answer", status=429, code="ApplicationThrottled", Retry_After="1")
    work()
    assert api.post(f"/actions/{action.pk}/cancel").json()["state"] == "cancelled"
    now_it_is_time()
    maintenance.tidy()

    assert Attempt.objects.get(fence=1).proof == ""
    assert "may_have_been_sent_at" in api.get(f"/actions/{action.pk}").json()
    assert graph.drafts(ADA) == []


def come_back() -> None:
    """Let approved mail wait for a person again."""
    now_it_is_time()
    PendingAction.objects.update(approved_until=timezone.now() - timedelta(seconds=1))
    send_back.send_back()


def sent_by_hand(api: Api, reviewer: Reviewer, graph: GraphServer) -> PendingAction:
    """Return a mail that waits for a person again, and whose owner has sent its prepared draft."""
    action = approve(api, reviewer)
    draft = throttled_with_a_draft(graph)
    come_back()
    graph.accept(ADA, draft, "by hand", save=True)
    return action


def edit(action: PendingAction, person: User) -> None:
    action.refresh_from_db()
    revise.edit(
        action_id=action.pk,
        person=person,
        digest=action.digest,
        revision=action.revision,
        changes={"subject": "Another"},
    )


def approve_again(action: PendingAction, person: User) -> None:
    action.refresh_from_db()
    decide.approve(
        action_id=action.pk, person=person, digest=action.digest, revision=action.revision
    )
    now_it_is_time()


@pytest.mark.parametrize("edited", [False, True])
def test_draft_that_its_owner_sent_is_not_made_again(
    api: Api, reviewer: Reviewer, alice: User, graph: GraphServer, *, edited: bool
) -> None:
    action = sent_by_hand(api, reviewer, graph)
    if edited:
        edit(action, alice)
    else:
        now_it_is_time()
        maintenance.tidy()
    approve_again(action, alice)
    work()

    assert state(action) == ("unknown", "draft_gone")
    assert len(graph.ledger) == 1


def test_mail_whose_draft_is_gone_cannot_be_edited(
    api: Api, reviewer: Reviewer, alice: User, graph: GraphServer
) -> None:
    action = sent_by_hand(api, reviewer, graph)
    now_it_is_time()
    maintenance.tidy()

    with pytest.raises(Problem) as refused:
        edit(action, alice)

    assert "may have been sent already" in refused.value.detail


def test_sent_draft_is_not_forgotten_without_the_journal(
    api: Api,
    reviewer: Reviewer,
    alice: User,
    graph: GraphServer,
    settings: LazySettings,
    tmp_path: Path,
) -> None:
    action = sent_by_hand(api, reviewer, graph)
    edit(action, alice)
    approve_again(action, alice)
    journal, settings.MAILHUB_SEND_JOURNAL = settings.MAILHUB_SEND_JOURNAL, str(tmp_path)
    work()
    assert state(action) == ("approved", "journal_failed")  # a folder takes no line
    settings.MAILHUB_SEND_JOURNAL = journal
    now_it_is_time()
    work()

    assert state(action) == ("unknown", "draft_gone")
    assert len(graph.ledger) == 1
