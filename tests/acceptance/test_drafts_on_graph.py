"""Drafts in a mailbox of Microsoft 365: written, changed, proposed and sent, but left unchanged
after an edit by a person.
"""

from typing import Any

import pytest

from approvals.gate.execute import execute
from tests.conftest import Api, Reviewer, problem_of
from tests.support.people.outlook import approved, graph, letter, mailbox, state
from tests.support.servers.graph import GraphServer
from tests.support.servers.graph_data import Fault
from tests.support.servers.graph_store import as_recipient
from tests.support.servers.sandbox import ADA, MIRA
from tests.support.work import work

__all__ = ["graph", "mailbox"]
pytestmark = pytest.mark.django_db
JO, SAM = "jo@northwind.example", "sam@northwind.example"


def test_draft_is_written_listed_changed_and_deleted(api: Api, graph: GraphServer) -> None:
    made = api.tool("create_draft", to=[MIRA], bcc=[JO], subject="First", body="One.").json()
    assert [row["id"] for row in api.tool("list_drafts").json()["drafts"]] == [made["id"]]
    changed = api.tool(
        "update_draft", draft_id=made["id"], to=[JO], subject="Second", body="Two."
    ).json()
    (item,) = graph.drafts(ADA)
    assert (
        item.shown["subject"],
        item.addresses("toRecipients"),
        item.addresses("bccRecipients"),
    ) == (
        "Second",
        (JO,),
        (),
    )
    assert api.tool("delete_draft", draft_id=changed["id"]).json() == {"deleted": True}
    assert api.tool("delete_draft", draft_id=changed["id"]).status_code == 404
    assert (graph.drafts(ADA), graph.ledger) == ([], [])


def test_sent_reply_draft_is_once_in_its_thread(
    api: Api, reviewer: Reviewer, graph: GraphServer
) -> None:
    graph.deliver(ADA, letter().as_bytes())
    (card,) = api.tool("list_emails").json()["emails"]
    draft = api.tool("draft_reply", message_id=card["id"], body="On Thursday.").json()
    action = approved(reviewer, api.tool("send_draft", draft_id=draft["id"], confirm=True))
    work()
    work()
    assert state(action) == ("succeeded", None)
    (accepted,) = graph.ledger
    assert (accepted.recipients, accepted.message_id) == ((MIRA,), action.message_id)
    assert graph.sent(ADA)[0].references == ("<question@northwind.example>",)
    assert graph.drafts(ADA) == []


def test_reply_draft_without_text_is_sent_in_its_thread(
    api: Api, reviewer: Reviewer, graph: GraphServer
) -> None:
    """Send a draft that a person began in Outlook: no comment on an original is known."""
    original = graph.deliver(ADA, letter().as_bytes())
    graph.store.new(
        ADA,
        "drafts",
        {"subject": "Re: Delivery on Thursday?", "toRecipients": [as_recipient(MIRA)]},
        references=(original.shown["internetMessageId"],),
    )
    (draft,) = api.tool("list_drafts").json()["drafts"]
    action = approved(reviewer, api.tool("send_draft", draft_id=draft["id"], confirm=True))
    work()
    assert state(action) == ("succeeded", None)
    (accepted,) = graph.ledger
    assert (accepted.recipients, accepted.endpoint) == ((MIRA,), "send")
    assert graph.sent(ADA)[0].references == ("<question@northwind.example>",)


@pytest.mark.parametrize(
    ("on", "phase", "status"),
    [
        pytest.param("attachments", "answer", 413, id="file-too-large"),
        pytest.param("attachments", "answer", 503, id="file-later"),
        pytest.param("attachments", "drop_after_effect", 0, id="file-without-an-answer"),
        pytest.param("get", "answer", 503, id="read-back"),
    ],
)
@pytest.mark.parametrize("tool", ["create_draft", "update_draft"])
def test_unfinished_draft_is_removed_and_the_old_one_stays(
    api: Api, graph: GraphServer, tool: str, on: str, phase: Any, status: int
) -> None:
    words: dict[str, Any] = {"to": [MIRA], "subject": "Hello", "body": "Hi."}
    old = (
        {"draft_id": api.tool("create_draft", **words).json()["id"]}
        if tool == "update_draft"
        else {}
    )
    before = graph.drafts(ADA)
    if on == "get":  # the read of the new draft, not of the old one
        api.tool("list_drafts")
        graph.chooser = lambda action: (
            Fault(phase=phase, status=status) if made(graph) and action == "get" else None
        )
    else:
        graph.fault(phase, on=on, status=status)
    file = {"name": "a.pdf", "content_base64": "JVBERg=="}
    answer = api.tool(tool, **words, **old, attachments=[file])
    assert answer.status_code in (413, 503), answer.content
    assert graph.drafts(ADA) == before


def made(graph: GraphServer) -> bool:
    return any(hit.action == "attachments" and hit.method == "POST" for hit in graph.hits)


def test_failed_reply_leaves_no_draft_of_exchange_behind(api: Api, graph: GraphServer) -> None:
    graph.deliver(ADA, letter().as_bytes())
    (card,) = api.tool("list_emails").json()["emails"]
    graph.fault("answer", on="patch", status=503)
    assert api.tool("draft_reply", message_id=card["id"], body="On Thursday.").status_code == 503
    assert graph.drafts(ADA) == []


@pytest.mark.parametrize("shown", ["all", "none", "one", "nameless"])
def test_sent_draft_keeps_its_bcc_recipients(
    api: Api, reviewer: Reviewer, graph: GraphServer, shown: str
) -> None:
    """Check every case, because Microsoft does not say whether the bytes of a draft name them."""
    draft = api.tool("create_draft", to=[MIRA], bcc=[JO, SAM], subject="Hello", body="Hi.").json()
    graph.mime_bcc = {"all": None, "one": 1}.get(shown, 0)
    if shown == "nameless":
        graph.drafts(ADA)[0].shown["bccRecipients"][1] = {"emailAddress": {"name": "Sam"}}
    answer = api.tool("send_draft", draft_id=draft["id"], confirm=True)
    if shown in ("one", "nameless"):
        assert (answer.status_code, problem_of(answer)["code"]) == (422, "invalid_input")
        assert "Bcc" in problem_of(answer)["detail"]
        return
    approved(reviewer, answer)
    work()
    assert [accepted.recipients for accepted in graph.ledger] == [(MIRA, JO, SAM)]


@pytest.mark.fault(37)
@pytest.mark.parametrize("how", ["edited", "thrown away"])
def test_draft_changed_after_its_proposal_is_not_sent(
    api: Api, reviewer: Reviewer, graph: GraphServer, how: str
) -> None:
    draft = api.tool("create_draft", to=[MIRA], subject="Hello", body="Hi.").json()
    action = approved(reviewer, api.tool("send_draft", draft_id=draft["id"], confirm=True))
    (item,) = graph.drafts(ADA)
    if how == "edited":
        graph.store.patch(item, {"subject": "Hello again"})
    else:
        graph.store.move(ADA, item, "deleteditems")
    work()
    assert state(action) == ("failed", "draft_changed")
    assert (graph.sends(), graph.ledger) == ([], [])


def test_draft_edited_after_the_send_is_kept(
    api: Api, reviewer: Reviewer, graph: GraphServer
) -> None:
    draft = api.tool("create_draft", to=[MIRA], subject="Hello", body="Hi.").json()
    action = approved(reviewer, api.tool("send_draft", draft_id=draft["id"], confirm=True))
    (item,) = graph.drafts(ADA)
    assert execute(action.pk, worker="test")
    graph.store.patch(item, {"subject": "Hello again"})
    work()
    assert (state(action), len(graph.ledger)) == (("succeeded", None), 1)
    assert [kept.shown["subject"] for kept in graph.drafts(ADA)] == ["Hello again"]


def test_refusal_names_the_missing_permission(api: Api, graph: GraphServer) -> None:
    for token, (address, _) in list(graph.tokens.items()):
        graph.tokens[token] = (address, ("Mail.Read", "Mail.Send"))
    answer = api.tool("create_draft", to=[MIRA], subject="Hello", body="Hi.")
    assert (answer.status_code, answer.json()["required_scope"]) == (424, "Mail.ReadWrite")
