"""Microsoft 365 completes texts, and reviewers change them: the recipient reads the approved text,
or nothing is sent.
"""

import base64
import re
from html.parser import HTMLParser

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from accounts.models import Mailbox
from approvals.models import PendingAction
from tests.acceptance.mail_tools import (
    JO,
    SAM,
    asked,
    first_in,
    message_id,
    only_send,
    proposed,
    seeds_way,
)
from tests.conftest import HELLO, Api, Reviewer, problem_of
from tests.support.people.outlook import api, graph, letter, mailbox, state
from tests.support.servers.graph import GraphServer
from tests.support.servers.graph_store import Item
from tests.support.servers.sandbox import ADA, MIRA
from tests.support.work import work
from tools.providers.base import Envelope, Handover
from tools.providers.errors import NotPermitted
from tools.providers.graph import GraphProvider
from tools.providers.graph.outgoing import INLINE_LIMIT

__all__ = ["api", "graph", "mailbox", "message_id", "seeds_way"]
pytestmark = pytest.mark.django_db


# The text above the quote is the approved text


def html_letter() -> bytes:
    message = letter()
    message.set_content("<p>When do you come?</p>", subtype="html")
    return message.as_bytes()


def read_by_the_recipient(item: Item) -> str:
    body = item.shown["body"]
    text = (
        Page.shown(body["content"])
        if body["contentType"] == "html"
        else body["content"].replace("\r\n", "\n")
    )
    return str(text.partition("____")[0].rstrip())


class Page(HTMLParser):
    """The visible text of a page: whitespace is collapsed, `<br>` is a line, entities are
    characters.
    """

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []

    @classmethod
    def shown(cls, html: str) -> str:
        page = cls()
        page.feed(html)
        page.close()
        return "".join(page.pieces).replace("\xa0", " ")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.pieces += ["\n"] if tag == "br" else []

    def handle_data(self, data: str) -> None:
        self.pieces.append(re.sub(r"[ \t\r\n]+", " ", data))


# test_graph_content.py has every comment, without a send.
LONG = pytest.mark.long
BOTH = ["reply_email", pytest.param("forward_email", marks=LONG)]
PLAIN = [
    pytest.param("On Thursday.", id="words", marks=LONG),
    pytest.param('At 5 > 4, "it\'s" 100 % Größe; 😀', id="signs-without-a-meaning"),
]
MEANT = [
    pytest.param('<a href="https://evil.example/">https://bank.example/</a>', id="link"),
    pytest.param("<b>bold</b> and <script>alert(1)</script>", id="tags", marks=LONG),
    pytest.param("if a<b then a &lt; b & b &amp; c", id="signs", marks=LONG),
    pytest.param("One.\n\nTwo.\nThree.", id="lines"),
    pytest.param("1  2   3\n  indented", id="spaces", marks=LONG),
    pytest.param("a\tb", id="tabs", marks=LONG),
]


@pytest.mark.parametrize("tool", BOTH)
@pytest.mark.parametrize("comment", [*PLAIN, *MEANT])
def test_comment_on_html_is_read_as_it_was_approved(
    api: Api, reviewer: Reviewer, graph: GraphServer, seeds_way: Mailbox, tool: str, comment: str
) -> None:
    graph.deliver(ADA, html_letter())
    action = proposed(api, reviewer, tool, first_in(api, "inbox"), comment=comment)
    assert state(action) == ("succeeded", None)
    (item,) = graph.sent(ADA)
    assert read_by_the_recipient(item) == comment.expandtabs()
    assert "evil.example" not in str(re.findall("<[^>]*>", item.shown["body"]["content"]))


@pytest.mark.parametrize("tool", ["reply_email", "forward_email"])
@pytest.mark.parametrize("html", [True, pytest.param(False, marks=LONG)])
@pytest.mark.parametrize("comment", PLAIN)
def test_comment_without_html_meaning_is_sent_unchanged(
    api: Api,
    reviewer: Reviewer,
    graph: GraphServer,
    seeds_way: Mailbox,
    message_id: str,
    tool: str,
    html: bool,
    comment: str,
) -> None:
    graph.answers_in_html = html
    action = proposed(api, reviewer, tool, message_id, comment=comment)
    assert (state(action), only_send(graph).body["comment"]) == (("succeeded", None), comment)
    assert read_by_the_recipient(graph.sent(ADA)[0]) == comment


@pytest.mark.parametrize("tool", BOTH)
@pytest.mark.parametrize("confirm", [True, pytest.param(False, marks=LONG)])
@pytest.mark.parametrize("comment", MEANT)
def test_comment_that_html_would_alter_is_refused(
    api: Api,
    graph: GraphServer,
    seeds_way: Mailbox,
    message_id: str,
    tool: str,
    confirm: bool,
    comment: str,
) -> None:
    problem = problem_of(
        api.tool(tool, **asked(tool, message_id, comment=comment, confirm=confirm))
    )
    assert (problem["code"], problem["status"], problem["required_scope"]) == (
        "auth_error",
        424,
        "Mail.ReadWrite",
    )
    assert "one line" in problem["detail"]
    assert (PendingAction.objects.count(), graph.sends()) == (0, [])


@pytest.mark.parametrize("comment", ["One.\nTwo.", pytest.param("a < b", marks=LONG)])
def test_stored_comment_that_html_would_alter_is_not_sent(
    api: Api, graph: GraphServer, seeds_way: Mailbox, message_id: str, comment: str
) -> None:
    """Check a comment that was approved before mailhub checked comments and still waits in the
    database.
    """
    source = f"From: {ADA}\r\nTo: {MIRA}\r\nMessage-ID: <1@lovelace.example>\r\n\r\n{comment}\r\n".encode()
    envelope = Envelope(
        sender=ADA,
        recipients=(MIRA,),
        source=source,
        kind="reply",
        original=message_id,
        comment=comment,
    )
    with pytest.raises(NotPermitted):
        GraphProvider.for_mailbox(seeds_way).send(envelope, Handover(wire_started=lambda: None))
    assert graph.sends() == []


@pytest.mark.parametrize(("tool", "said"), [("reply_email", True), ("forward_email", False)])
def test_approver_learns_if_microsoft_picks_recipients(
    api: Api, graph: GraphServer, seeds_way: Mailbox, message_id: str, tool: str, said: bool
) -> None:
    warnings = api.tool(tool, **asked(tool, message_id)).json()["warnings"]
    (text,) = (warning["text"] for warning in warnings if warning["code"] == "quote_by_provider")
    assert ("chooses the recipients" in text) is said


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


@pytest.mark.parametrize("tool", ["reply_email", "forward_email"])
def test_reply_that_microsoft_completes_cannot_be_edited(
    api: Api, reviewer: Reviewer, graph: GraphServer, seeds_way: Mailbox, message_id: str, tool: str
) -> None:
    action_id = api.tool(tool, **asked(tool, message_id, confirm=True)).json()["action"]["id"]
    answer = reviewer.decide(action_id, "edit", subject="Delivery")
    assert (answer.status_code, b"without the permission to write drafts" in answer.content) == (
        422,
        True,
    )
    action = PendingAction.objects.get(pk=action_id)
    assert (action.revision, action.status) == (1, "pending")


@pytest.mark.parametrize("body", ["On Friday.", " "])
def test_edited_reply_is_not_sent_without_draft_permission(
    api: Api, reviewer: Reviewer, graph: GraphServer, message_id: str, body: str
) -> None:
    answer = api.tool("reply_email", **asked("reply_email", message_id, confirm=True)).json()
    action_id = answer["action"]["id"]
    assert reviewer.decide(action_id, "edit", body=body, to=JO).status_code == 302
    assert reviewer.decide(action_id, "approve").status_code == 302
    Mailbox.objects.update(scopes=["Mail.Read", "Mail.Send"])
    work()
    error = api.get(f"/actions/{action_id}").json()["error"]
    assert (error["code"], error["required_scope"]) == ("auth_error", "Mail.ReadWrite")
    assert (graph.sends(), graph.ledger) == ([], [])


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
    ("bytes_", "body"), [pytest.param(3 * 1024 * 1024 - 1000, "x" * 90_000, id="with-its-text"),
                         pytest.param(3 * 1024 * 1024 + 1000, "Hi.", id="alone", marks=LONG)],
)  # fmt: skip
def test_mail_over_the_request_limit_is_refused_early(
    api: Api, graph: GraphServer, seeds_way: Mailbox, confirm: bool, bytes_: int, body: str
) -> None:
    file = {"name": "big.bin", "content_base64": base64.b64encode(bytes(bytes_)).decode()}
    answer = api.tool("send_email", **{**HELLO, "body": body}, attachments=[file], confirm=confirm)
    assert (answer.status_code, problem_of(answer)["code"]) == (413, "too_large")
    assert "4,194,304" in problem_of(answer)["detail"]
    assert (PendingAction.objects.count(), graph.sends()) == (0, [])


def test_reviewer_cannot_exceed_the_request_limit(
    api: Api, reviewer: Reviewer, graph: GraphServer, seeds_way: Mailbox
) -> None:
    action_id = api.propose()
    file = SimpleUploadedFile("big.bin", bytes(3 * 1024 * 1024 + 1000))
    answer = reviewer.decide(action_id, "edit", attachments=file)
    assert (answer.status_code, b"4,194,304" in answer.content) == (413, True)
    assert PendingAction.objects.get(pk=action_id).revision == 1


def test_draft_reply_is_refused_without_draft_permission(
    api: Api, graph: GraphServer, message_id: str
) -> None:
    draft = api.tool("draft_reply", message_id=message_id, body="On Thursday.").json()
    Mailbox.objects.update(scopes=["Mail.Read", "Mail.Send"])
    problem = problem_of(api.tool("send_draft", draft_id=draft["id"], confirm=True))
    assert (problem["code"], problem["required_scope"]) == ("auth_error", "Mail.ReadWrite")
    assert (PendingAction.objects.count(), graph.sends()) == (0, [])
