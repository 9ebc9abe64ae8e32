"""A program cannot reach the draft that mailhub has prepared for an approved mail."""

import threading
from typing import Any

import pytest
from django.db import connections

from accounts.models import Mailbox, Membership, User
from approvals.models import PendingAction, Preparation, Rest
from tests.conftest import Api, Reviewer, make_api
from tests.support.people.gmail import ADA, connected, gmail
from tests.support.people.outlook import graph
from tests.support.servers.gmail import GmailServer
from tests.support.servers.gmail_data import Call
from tests.support.servers.graph import GraphServer, graph_mailbox
from tests.support.work import work

__all__ = ["gmail", "graph"]
pytestmark = pytest.mark.django_db(transaction=True)
SCOPES = ["mail:read", "mail:draft", "mail:propose"]
EVIL: dict[str, Any] = {
    "to": ["mallory@evil.example"],
    "subject": "Nobody approved this",
    "body": "The numbers.",
}


def attempts(api: Api) -> list[int]:
    """Try every tool that reaches a draft, on each listed draft; return the status codes."""
    found = []
    for each in api.tool("list_drafts").json()["drafts"]:
        found.append(api.tool("update_draft", draft_id=each["id"], **EVIL).status_code)
        found.append(api.tool("delete_draft", draft_id=each["id"]).status_code)
        found.append(api.tool("send_draft", draft_id=each["id"], confirm=True).status_code)
    return found


def approved(api: Api, reviewer: Reviewer, **changes: Any) -> PendingAction:
    action_id = api.propose(**changes)
    assert reviewer.decide(action_id, "approve").status_code == 302
    return PendingAction.objects.get(pk=action_id)


def elsewhere(call: Any) -> list[Any]:
    """Run it as another process would, with its own connection."""
    found: list[Any] = []

    def run() -> None:
        found.append(call())
        connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)
    return found


def test_prepared_draft_at_gmail_is_refused(
    alice: User, reviewer: Reviewer, gmail: GmailServer
) -> None:
    api = make_api(alice, connected(gmail, alice), scopes=SCOPES)
    action = approved(api, reviewer)
    answers: list[Any] = []

    def just_before_it_leaves(call: Call) -> None:
        answers.extend(elsewhere(lambda: attempts(api)))

    gmail.before["drafts.send"] = just_before_it_leaves
    work()

    action.refresh_from_db()
    assert answers == [[409, 409, 409]]
    assert action.status == "succeeded"
    assert [sent.recipients for sent in gmail.ledger] == [("mira@northwind.example",)]


def test_unconfirmed_draft_at_gmail_is_refused(
    alice: User, reviewer: Reviewer, gmail: GmailServer
) -> None:
    api = make_api(alice, connected(gmail, alice), scopes=SCOPES)
    approved(api, reviewer)
    gmail.drop("drafts.create", after=True)
    work()
    assert len(gmail.box(ADA).drafts) == 1
    assert attempts(api) == [409, 409, 409]


@pytest.mark.parametrize(("on", "phase"), [("send", "answer"), ("create", "drop_after_effect")])
def test_prepared_draft_at_microsoft_is_refused(
    alice: User, reviewer: Reviewer, graph: GraphServer, on: str, phase: Any
) -> None:
    mailbox: Mailbox = graph_mailbox(graph, ADA)
    Membership.objects.create(mailbox=mailbox, user=alice, role="manager")
    api = make_api(alice, mailbox, scopes=SCOPES)
    action = approved(api, reviewer)
    graph.fault(phase, on=on, status=429, code="ApplicationThrottled", Retry_After="1")
    work()
    action.refresh_from_db()
    assert action.status == "approved"
    assert attempts(api) == [409, 409, 409]
    assert len(graph.drafts(ADA)) == 1


def test_notes_about_another_mails_draft_send_nothing(
    alice: User, reviewer: Reviewer, graph: GraphServer
) -> None:
    """Somebody who writes to the database names a draft that was compared for a withdrawn mail."""
    mailbox: Mailbox = graph_mailbox(graph, ADA)
    Membership.objects.create(mailbox=mailbox, user=alice, role="manager")
    api = make_api(alice, mailbox, scopes=SCOPES)
    withdrawn = approved(api, reviewer, subject="Withdrawn")
    graph.fault("answer", status=429, code="ApplicationThrottled", Retry_After="1")
    work()
    notes = Preparation.objects.get()
    api.tool("cancel_action", action_id=str(withdrawn.pk))
    action = approved(api, reviewer)
    Preparation.objects.create(
        action=action, digest=action.digest, notes=notes.notes, account=notes.account
    )
    Rest.objects.all().delete()

    work()

    action.refresh_from_db()
    assert (action.status, (action.error or {})["code"]) == ("failed", "readback_mismatch")
    assert graph.ledger == []


def test_draft_of_a_program_is_still_its_own(alice: User, gmail: GmailServer) -> None:
    api = make_api(alice, connected(gmail, alice), scopes=SCOPES)
    made = api.tool(
        "create_draft", to=["mira@northwind.example"], subject="Mine", body="Hello."
    ).json()
    assert api.tool("update_draft", draft_id=made["id"], **EVIL).status_code == 200


@pytest.fixture
def approved_deletion(alice: User, reviewer: Reviewer, graph: GraphServer) -> PendingAction:
    """Return the approved deletion of a person's draft at Microsoft, which a program proposed."""
    mailbox = graph_mailbox(graph, ADA)
    Membership.objects.create(mailbox=mailbox, user=alice, role="manager")
    graph.store.new(ADA, "drafts", {"subject": "Written by a person"})
    api = make_api(alice, mailbox, scopes=SCOPES)
    (draft,) = api.tool("list_drafts").json()["drafts"]
    proposal = api.tool("delete_draft", draft_id=draft["id"])
    assert proposal.status_code == 202, proposal.content
    action = PendingAction.objects.get(pk=proposal.json()["action"]["id"])
    assert reviewer.decide(str(action.pk), "approve").status_code == 302
    return action


def test_draft_edited_after_the_approval_is_not_deleted(
    approved_deletion: PendingAction, graph: GraphServer
) -> None:
    (draft,) = graph.drafts(ADA)
    graph.store.patch(draft, {"subject": "Edited by a person"})
    work()
    approved_deletion.refresh_from_db()
    assert (approved_deletion.error or {})["code"] == "draft_changed"
    assert graph.drafts(ADA) == [draft]


def test_draft_that_became_a_prepared_one_is_not_deleted(
    approved_deletion: PendingAction, alice: User, graph: GraphServer
) -> None:
    (draft,) = graph.drafts(ADA)
    mail = make_api(alice, approved_deletion.mailbox, name="other").propose()
    Preparation.objects.create(action_id=mail, notes={"draft": draft.id})
    work()
    approved_deletion.refresh_from_db()
    assert (approved_deletion.error or {})["code"] == "conflict"
    assert graph.drafts(ADA) == [draft]
