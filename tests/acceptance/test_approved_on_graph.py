"""Reviewers change mails on Microsoft 365: the recipient reads the approved text, or nothing is
sent.
"""

import base64

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from accounts.models import Mailbox
from approvals.models import PendingAction
from tests.acceptance.mail_tools import (
    JO,
    SAM,
    approved_bytes,
    asked,
    message_id,
    only_send,
    proposed,
    seeds_way,
)
from tests.conftest import HELLO, Api, Reviewer, problem_of
from tests.support.people.outlook import approved, graph, mailbox, state
from tests.support.servers.graph import GraphServer
from tests.support.servers.sandbox import ADA, MIRA
from tests.support.work import work
from tools.providers.graph.outgoing import INLINE_LIMIT

__all__ = ["graph", "mailbox", "message_id", "seeds_way"]
pytestmark = pytest.mark.django_db


LONG = pytest.mark.long


# Changes by a reviewer


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"body": "On Friday."}, id="text"),
        pytest.param({"to": JO, "cc": "", "bcc": SAM}, id="recipients"),
        pytest.param({"subject": "Delivery"}, id="subject"),
    ],
)
def test_reply_edited_by_a_reviewer_stays_in_its_thread(
    api: Api, reviewer: Reviewer, graph: GraphServer, message_id: str, changes: dict[str, str]
) -> None:
    answer = api.tool(
        "reply_email", **asked("reply_email", message_id, reply_all=True, confirm=True)
    ).json()
    action_id = answer["action"]["id"]
    assert reviewer.decide(action_id, "edit", **changes).status_code == 302
    assert reviewer.decide(action_id, "approve").status_code == 302
    work()
    action = PendingAction.objects.get(pk=action_id)
    assert (action.revision, state(action)) == (2, ("succeeded", None))
    (item,) = graph.sent(ADA)
    assert item.references == ("<question@northwind.example>",)
    assert (
        item.shown["conversationId"]
        == next(iter(graph.store.of(ADA).values())).shown["conversationId"]
    )
    assert item.shown["subject"] == changes.get("subject", "Re: Delivery on Thursday?")
    assert item.shown["body"]["content"].startswith(changes.get("body", "On Thursday."))
    assert item.recipients() == ((JO, SAM) if "to" in changes else (MIRA, JO, SAM))
    assert len(graph.ledger) == 1


@pytest.mark.parametrize(
    ("tool", "word"), [("reply_email", "answers"), ("forward_email", "forwards")]
)
def test_page_says_that_the_original_is_gone(
    api: Api, reviewer: Reviewer, graph: GraphServer, message_id: str, tool: str, word: str
) -> None:
    action_id = api.tool(tool, **asked(tool, message_id, confirm=True)).json()["action"]["id"]
    assert reviewer.decide(action_id, "approve").status_code == 302
    graph.store.of(ADA).clear()
    work()

    page = reviewer.page(action_id).content.decode()
    assert f"The mail that this {word} is no longer in the mailbox." in page


@pytest.mark.parametrize("body", ["On Friday.", " "])
def test_edited_reply_leaves_without_draft_permission(
    api: Api, reviewer: Reviewer, graph: GraphServer, message_id: str, body: str
) -> None:
    answer = api.tool("reply_email", **asked("reply_email", message_id, confirm=True)).json()
    action_id = answer["action"]["id"]
    assert reviewer.decide(action_id, "edit", body=body, to=JO).status_code == 302
    assert reviewer.decide(action_id, "approve").status_code == 302
    Mailbox.objects.update(scopes=["Mail.Read", "Mail.Send"])
    work()
    action = PendingAction.objects.get(pk=action_id)
    assert state(action) == ("succeeded", None)
    assert only_send(graph).body.endswith(approved_bytes(action))
    assert graph.ledger[0].recipients == (JO,)


# Refusals before any approval


MOST = 3 * 1024 * 1024 - 1


@pytest.mark.parametrize(
    "size", [INLINE_LIMIT, *(pytest.param(size, marks=LONG) for size in (INLINE_LIMIT - 1, MOST))]
)
def test_file_below_the_request_limit_arrives(
    api: Api, reviewer: Reviewer, graph: GraphServer, size: int
) -> None:
    file = {"name": "big.bin", "content_base64": base64.b64encode(bytes(size)).decode()}
    assert state(proposed(api, reviewer, "send_email", attachments=[file])) == ("succeeded", None)
    assert [each["size"] for each in graph.sent(ADA)[0].files] == [size]


@pytest.mark.parametrize("confirm", [True, pytest.param(False, marks=LONG)])
@pytest.mark.parametrize(
    ("bytes_", "body"), [pytest.param(2_299_000, "x" * 4_000, id="with-its-text"),
                         pytest.param(2_310_000, "Hi.", id="alone", marks=LONG)],
)  # fmt: skip
def test_mail_over_the_request_limit_is_refused_early(
    api: Api, graph: GraphServer, seeds_way: Mailbox, confirm: bool, bytes_: int, body: str
) -> None:
    file = {"name": "big.bin", "content_base64": base64.b64encode(bytes(bytes_)).decode()}
    answer = api.tool("send_email", **{**HELLO, "body": body}, attachments=[file], confirm=confirm)
    assert (answer.status_code, problem_of(answer)["code"]) == (413, "too_large")
    assert {"4,194,304", "Mail.ReadWrite."} <= set(problem_of(answer)["detail"].split())
    assert (PendingAction.objects.count(), graph.sends()) == (0, [])


def test_reviewer_cannot_exceed_the_request_limit(
    api: Api, reviewer: Reviewer, seeds_way: Mailbox
) -> None:
    action_id = api.propose()
    file = SimpleUploadedFile("big.bin", bytes(3 * 1024 * 1024 + 1000))
    answer = reviewer.decide(action_id, "edit", attachments=file)
    assert (answer.status_code, b"4,194,304" in answer.content) == (413, True)
    assert PendingAction.objects.get(pk=action_id).revision == 1


def test_draft_reply_leaves_in_its_thread_without_drafts(
    api: Api, reviewer: Reviewer, graph: GraphServer, message_id: str
) -> None:
    draft = api.tool("draft_reply", message_id=message_id, body="On Thursday.").json()
    Mailbox.objects.update(scopes=["Mail.Read", "Mail.Send"])
    action = approved(reviewer, api.tool("send_draft", draft_id=draft["id"], confirm=True))
    work()
    assert state(action) == ("succeeded", None)
    assert b"\r\nIn-Reply-To: <question@northwind.example>\r\n" in only_send(graph).body
