"""Evidence at Microsoft 365: an unmoved, unchanged draft is unsent, and our mail in Sent is
sent.
"""

from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command

from accounts.models import Mailbox
from approvals.gate.backoff import PROBES
from approvals.models import PendingAction
from approvals.worker import maintenance
from tests.approvals.lost_answers import text_of
from tests.approvals.test_restored import home
from tests.approvals.test_watches import look, pass_days, told_of
from tests.conftest import Api, Reviewer
from tests.faults.graph_road import approve, created, now_it_is_time, probe, throttled_with_a_draft
from tests.support.people.browser import sign_in
from tests.support.people.outlook import graph, letter, mailbox, state
from tests.support.servers.graph import GraphServer
from tests.support.servers.graph_data import Fault
from tests.support.servers.graph_store import Item, folder_id
from tests.support.servers.sandbox import ADA, MIRA
from tests.support.work import work

__all__ = ["graph", "home", "mailbox"]
pytestmark = pytest.mark.django_db


def move_silently(item: Item, folder: str) -> None:
    """Move it and keep its change key: Microsoft does not say that every move changes the key."""
    item.folder = folder
    item.shown["parentFolderId"] = folder_id(ADA, folder)


@pytest.fixture
def in_doubt(api: Api, reviewer: Reviewer, graph: GraphServer) -> PendingAction:
    """Return an action whose order to send got no answer and had no effect."""
    action = approve(api, reviewer)
    graph.fault("drop_after")
    work()
    return action


def test_moved_draft_is_not_sent_even_with_an_equal_key(
    api: Api, reviewer: Reviewer, graph: GraphServer
) -> None:
    action = approve(api, reviewer)
    move_silently(throttled_with_a_draft(graph), "deleteditems")
    work()
    assert state(action) == ("failed", "draft_changed")
    assert graph.ledger == []


@pytest.mark.parametrize("copy", [True, False])
def test_draft_sent_by_hand_during_preparation_is_in_doubt(
    api: Api, reviewer: Reviewer, graph: GraphServer, copy: bool
) -> None:
    graph.tamper = lambda item: graph.accept(ADA, item, "by hand", save=copy)
    action = approve(
        api, reviewer, attachments=[{"name": "a.pdf", "content_base64": "JVBERi0xLjQK"}]
    )
    work()
    assert state(action) == ("unknown", "draft_gone")
    assert (graph.sends(), len(graph.ledger)) == ([], 1)
    probe()
    assert state(action)[0] == ("succeeded" if copy else "unknown")


def test_draft_that_its_owner_is_sending_unfilled_is_in_doubt(
    api: Api, reviewer: Reviewer, graph: GraphServer
) -> None:
    def move_and_refuse(action: str) -> Fault | None:
        if action != "attachments":
            return None
        graph.store.move(ADA, graph.drafts(ADA)[0], "outbox")
        return Fault(phase="answer", status=400, code="ErrorInvalidOperation")

    graph.chooser = move_and_refuse
    action = approve(
        api, reviewer, attachments=[{"name": "a.pdf", "content_base64": "JVBERi0xLjQK"}]
    )
    work()
    assert state(action) == ("unknown", "draft_gone")


def test_sent_message_in_drafts_is_not_destroyed(
    in_doubt: PendingAction, graph: GraphServer
) -> None:
    (item,) = graph.drafts(ADA)
    item.shown["isDraft"] = False
    for _ in range(3):
        probe()
    assert state(in_doubt)[0] == "unknown"
    assert graph.drafts(ADA) == [item]


def test_draft_passing_through_sent_is_not_yet_sent(
    in_doubt: PendingAction, graph: GraphServer
) -> None:
    (draft,) = graph.drafts(ADA)
    graph.store.move(ADA, draft, "sentitems")
    for _ in range(2):
        probe()
    assert state(in_doubt)[0] == "unknown"


def test_foreign_mail_in_sent_proves_nothing_without_filters(
    in_doubt: PendingAction, graph: GraphServer
) -> None:
    graph.deliver(ADA, letter(sender=ADA, to=MIRA).as_bytes(), folder="sentitems")
    graph.ignores_filters = True
    probe()
    assert state(in_doubt)[0] == "unknown"


def test_lost_answer_to_our_own_cleanup_is_no_doubt(
    api: Api, reviewer: Reviewer, graph: GraphServer
) -> None:
    action = approve(api, reviewer)
    graph.fault("answer", on="get")  # so the draft is never compared
    work()
    now_it_is_time()
    graph.fault("drop_after_effect", on="delete")
    work()
    assert (state(action)[0], graph.drafts(ADA)) == ("approved", [])
    graph.store.of(ADA).clear()  # the person empties Deleted Items
    now_it_is_time()
    work()
    assert state(action) == ("succeeded", None)
    assert (created(graph), len(graph.ledger)) == (2, 1)


def test_send_only_mailbox_is_never_searched(
    api: Api, reviewer: Reviewer, graph: GraphServer
) -> None:
    Mailbox.objects.update(scopes=["Mail.Send"])
    action = approve(api, reviewer)
    graph.fault("drop_after")
    work()
    graph.hits.clear()
    probe()
    assert state(action)[0] == "unknown"
    assert graph.hits == []


def test_page_claims_no_search_without_permission(
    api: Api, reviewer: Reviewer, graph: GraphServer
) -> None:
    Mailbox.objects.update(scopes=["Mail.Send"])
    action = approve(api, reviewer)
    graph.fault("drop_after_effect")
    work()
    for _ in PROBES:
        probe()
    assert (state(action)[0], len(graph.ledger)) == ("unknown", 1)
    shown = text_of(reviewer.page(str(action.pk)))
    assert "has tried" not in shown
    assert "mailhub cannot look whether it happened already." in shown
    assert "ask a recipient" in shown


def test_follow_up_needs_the_permission_to_look(api: Api, graph: GraphServer) -> None:
    Mailbox.objects.update(scopes=["Mail.Send"])
    mail: dict[str, Any] = {
        "to": [MIRA],
        "subject": "Hello",
        "body": "On Thursday.",
        "confirm": True,
    }
    refused = api.tool("send_email", **mail, follow_up={"after_days": 3})
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_input")
    assert refused.json()["errors"][0]["field"] == "follow_up"


@pytest.mark.parametrize("copy", [True, False])
def test_silence_is_sure_only_if_sent_shows_the_mail(
    api: Api, reviewer: Reviewer, graph: GraphServer, copy: bool
) -> None:
    wish: dict[str, Any] = {"after_days": 2}
    action = approve(api, reviewer, save_to_sent_items=copy, follow_up=wish)
    work()
    (sent,) = graph.ledger
    assert (sent.message_id == action.message_id) == copy  # Exchange chooses another one
    pass_days(0.1)
    look()
    graph.store.of(ADA).clear()  # a copy that was seen may be gone by then
    pass_days(2)
    look()
    assert ("could not search" in told_of(api, action)["next"]) != copy


def test_restore_claims_no_look_without_permission(
    api: Api, reviewer: Reviewer, graph: GraphServer
) -> None:
    Mailbox.objects.update(scopes=["Mail.Send"])
    action, said = approve(api, reviewer), StringIO()
    searches = len(graph.hits)

    call_command("after_restore", "--yes", "--force", stdout=said)

    sign_in(reviewer.client, reviewer.user)
    page = reviewer.page(str(action.pk)).content.decode()
    assert len(graph.hits) == searches
    assert "mailhub cannot look whether it happened already." in page
    assert "not in Sent" not in page
    assert "nothing shows whether it happened already" in said.getvalue()


def test_mail_sent_by_hand_and_filed_is_never_deleted(
    api: Api, reviewer: Reviewer, graph: GraphServer
) -> None:
    action = approve(api, reviewer)
    graph.fault("answer", on="get")  # so the draft is never compared
    work()
    (draft,) = graph.drafts(ADA)
    graph.accept(ADA, draft, "by hand", save=True)
    graph.store.move(ADA, draft, "archive")
    api.post(f"/actions/{action.pk}/cancel")
    now_it_is_time()
    maintenance.tidy()
    assert draft.folder == "archive"


@pytest.mark.parametrize("tool", ["update_draft", "delete_draft"])
def test_message_filed_among_drafts_is_not_changed(api: Api, graph: GraphServer, tool: str) -> None:
    draft = api.tool("create_draft", to=[MIRA], subject="Mine", body="Words.").json()
    (item,) = graph.drafts(ADA)
    item.shown["isDraft"] = False
    answer = api.tool(
        tool, draft_id=draft["id"], **({} if tool == "delete_draft" else {"body": "Others."})
    )
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input")
    assert graph.drafts(ADA) == [item]
