"""Reply and forward on Microsoft 365, line by line of the seed list (docs/dev/seed-coverage.md)."""

import base64

import pytest

from accounts.models import Mailbox
from tests.acceptance.mail_tools import (
    JO,
    SAM,
    approved_bytes,
    asked,
    first_in,
    message_id,
    only_send,
    proposed,
    seeds_way,
)
from tests.conftest import Api, Reviewer, problem_of
from tests.support.people.outlook import approved, graph, letter, mailbox, state
from tests.support.servers.graph import GraphServer
from tests.support.servers.sandbox import ADA, MIRA
from tests.support.work import work

__all__ = ["graph", "mailbox", "message_id", "seeds_way"]
pytestmark = pytest.mark.django_db
SPY = {"emailAddress": {"address": "spy@evil.example"}}


@pytest.mark.parametrize("reply_all", [False, True])
def test_reply_preview_reads_the_original_only(
    api: Api, graph: GraphServer, seeds_way: Mailbox, message_id: str, reply_all: bool
) -> None:
    graph.hits.clear()
    answer = api.tool(
        "reply_email", message_id=message_id, comment="On Thursday.", reply_all=reply_all
    ).json()
    shown = answer["preview"]
    assert (shown["original"]["subject"], shown["original"]["from"]) == (
        "Delivery on Thursday?",
        MIRA,
    )
    assert shown.get("cc", []) == ([JO, SAM] if reply_all else [])
    assert shown["original"].get("to") == ([ADA, JO] if reply_all else None)
    assert shown["original"].get("cc") == ([SAM] if reply_all else None)
    hit, source = graph.hits
    assert (hit.method, hit.action, source.method) == ("GET", "get", "GET")
    assert source.path == f"{hit.path}/$value"
    assert {"subject", "from", "toRecipients", "ccRecipients"} <= set(
        hit.query["$select"].split(",")
    )
    assert shown["body_excerpt"].startswith("On Thursday.")
    assert "> When do you come?" in shown["body_excerpt"]


def test_answer_to_a_moved_thread_is_flagged_when_proposed(
    api: Api, graph: GraphServer, message_id: str
) -> None:
    later = letter(References="<question@northwind.example>")
    later.replace_header("Message-ID", "<later@northwind.example>")
    graph.deliver(ADA, later.as_bytes())
    answer = api.tool("reply_email", **asked("reply_email", message_id, confirm=True)).json()
    assert "thread_moved" in {warning["code"] for warning in answer["warnings"]}


@pytest.mark.parametrize("reply_all", [False, True])
def test_reply_without_drafts_leaves_as_its_approved_bytes(
    api: Api,
    reviewer: Reviewer,
    graph: GraphServer,
    seeds_way: Mailbox,
    message_id: str,
    reply_all: bool,
) -> None:
    action = proposed(api, reviewer, "reply_email", message_id, reply_all=reply_all)
    hit = only_send(graph)
    assert hit.path.endswith("/sendMail")
    assert hit.body.endswith(approved_bytes(action))
    assert b"\r\nReferences: <question@northwind.example>\r\n" in hit.body
    (accepted,) = graph.ledger
    assert (state(action), accepted.marker) == (("succeeded", None), action.message_id)
    assert set(accepted.recipients) == ({MIRA, JO, SAM} if reply_all else {MIRA})


@pytest.mark.parametrize("tool", ["reply_email", "forward_email"])
def test_original_changed_after_approval_changes_nothing(
    api: Api, reviewer: Reviewer, graph: GraphServer, seeds_way: Mailbox, tool: str
) -> None:
    message = letter()
    message.add_attachment(b"%PDF harmless", "application", "pdf", filename="offer.pdf")
    graph.deliver(ADA, message.as_bytes())
    original = first_in(api, "inbox")
    action = approved(reviewer, api.tool(tool, **asked(tool, original, confirm=True)))
    (item,) = graph.store.of(ADA).values()
    graph.store.patch(
        item, {"body": {"contentType": "text", "content": "SECRET"}, "replyTo": [SPY]}
    )
    item.files[0]["contentBytes"] = base64.b64encode(b"%PDF secret").decode()
    work()
    assert state(action) == ("succeeded", None)
    (accepted,) = graph.ledger
    assert accepted.recipients == ((MIRA,) if tool == "reply_email" else (JO,))
    assert b"SECRET" not in accepted.source
    assert base64.b64encode(b"%PDF secret") not in accepted.source


@pytest.mark.parametrize("tool", ["reply_email", "forward_email"])
def test_unknown_original_is_not_found(api: Api, message_id: str, tool: str) -> None:
    for known in ("nonsense", "A" * 16, "\u00e4"):
        problem = problem_of(api.tool(tool, **asked(tool, known)))
        assert (problem["code"], problem["status"]) == ("not_found", 404)


@pytest.mark.parametrize("tool", ["reply_email", "forward_email"])
def test_original_deleted_meanwhile_sends_nothing(
    api: Api, reviewer: Reviewer, graph: GraphServer, message_id: str, tool: str
) -> None:
    action = approved(reviewer, api.tool(tool, **asked(tool, message_id, confirm=True)))
    graph.store.of(ADA).clear()
    work()
    assert (state(action), graph.ledger) == (("failed", "not_found"), [])


@pytest.mark.parametrize("tool", ["reply_email", "forward_email"])
def test_permission_lost_after_approval_sends_the_same(
    api: Api, reviewer: Reviewer, graph: GraphServer, message_id: str, tool: str
) -> None:
    action = approved(reviewer, api.tool(tool, **asked(tool, message_id, confirm=True)))
    Mailbox.objects.update(scopes=["Mail.Read", "Mail.Send"])
    work()
    assert state(action) == ("succeeded", None)
    assert only_send(graph).body.endswith(approved_bytes(action))


# forward_email


@pytest.mark.parametrize("with_file", [False, True])
def test_forward_preview_says_if_files_go_along(
    api: Api, graph: GraphServer, with_file: bool
) -> None:
    message = letter()
    if with_file:
        message.add_attachment(b"%PDF", "application", "pdf", filename="a.pdf")
    graph.deliver(ADA, message.as_bytes())
    shown = api.tool("forward_email", message_id=first_in(api, "inbox"), to=[JO]).json()["preview"]
    assert shown["original"] == {
        "subject": "Delivery on Thursday?",
        "from": MIRA,
        "has_attachments": with_file,
    }
    assert f"to: {JO}. Attachments: {'yes' if with_file else 'no'}." in shown["text"]


@pytest.mark.parametrize("comment", [None, "For you."])
@pytest.mark.parametrize("to", [[JO], [JO, SAM], [ADA]], ids=["one", "several", "oneself"])
def test_forward_without_drafts_leaves_as_its_approved_bytes(
    api: Api,
    reviewer: Reviewer,
    graph: GraphServer,
    seeds_way: Mailbox,
    to: list[str],
    comment: str | None,
) -> None:
    message = letter()
    message.add_attachment(b"%PDF", "application", "pdf", filename="a.pdf")
    graph.deliver(ADA, message.as_bytes())
    action = proposed(
        api, reviewer, "forward_email", first_in(api, "inbox"), to=to, comment=comment
    )
    hit = only_send(graph)
    assert hit.path.endswith("/sendMail")
    assert hit.body.endswith(approved_bytes(action))
    assert (state(action), graph.ledger[0].recipients) == (("succeeded", None), tuple(to))
    assert b"a.pdf" in graph.ledger[0].source


# By drafts: the reply stays in its thread, and the whole text is the approved text


def test_reply_by_a_draft_is_sent_as_approved_in_its_thread(
    api: Api, reviewer: Reviewer, graph: GraphServer, message_id: str
) -> None:
    action = proposed(api, reviewer, "reply_email", message_id, reply_all=True)
    assert state(action) == ("succeeded", None)
    (item,) = graph.sent(ADA)
    assert item.references == ("<question@northwind.example>",)
    assert (
        item.shown["conversationId"]
        == next(iter(graph.store.of(ADA).values())).shown["conversationId"]
    )
    assert item.shown["subject"] == "Re: Delivery on Thursday?"
    assert item.shown["body"]["content"].startswith("On Thursday.\n\nOn Mon, 02 Nov 2026")
    assert "> When do you come?" in item.shown["body"]["content"]
    assert "____" not in item.shown["body"]["content"]
    assert graph.ledger[0].recipients == (MIRA, JO, SAM)


def test_forward_draft_keeps_the_original_files(
    api: Api, reviewer: Reviewer, graph: GraphServer
) -> None:
    message = letter()
    message.add_attachment(b"%PDF" * 100, "application", "pdf", filename="a.pdf")
    message.add_attachment("one\n", filename="b.txt")
    graph.deliver(ADA, message.as_bytes())
    action = proposed(api, reviewer, "forward_email", first_in(api, "inbox"))
    assert state(action) == ("succeeded", None)
    assert [file["name"] for file in graph.sent(ADA)[0].files] == ["a.pdf", "b.txt"]
    assert not [hit for hit in graph.hits if hit.action == "attachments" and hit.method == "POST"]
