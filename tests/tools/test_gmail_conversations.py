"""A reply through Gmail is in the conversation of its original; other mails begin a new one."""

import json
from collections.abc import Callable

import pytest

from approvals.models import PendingAction
from tests.conftest import Api, Reviewer
from tests.support.people.gmail import ADA, gmail, letter, mailbox
from tests.support.servers.gmail import GmailServer
from tests.support.servers.gmail_data import Stored, parsed
from tests.support.work import work

__all__ = ["gmail", "mailbox"]
pytestmark = pytest.mark.django_db(transaction=True)
MIRA, HIDDEN = "mira@northwind.example", "hidden@copy.example"
QUESTION = "<q@northwind.example>"


def conversation(server: GmailServer) -> str:
    """Return the conversation of the one mail that was sent."""
    (stored,) = (each for each in server.box(ADA).messages.values() if "SENT" in each.labels)
    return stored.thread


def answered(api: Api, original: Stored) -> str:
    answer = api.tool("reply_email", message_id=original.id, comment="Yes.", confirm=True).json()
    return str(answer["action"]["id"])


def draft_sent(api: Api, original: Stored) -> str:
    draft = api.tool("draft_reply", message_id=original.id, body="Yes.").json()
    return str(api.tool("send_draft", draft_id=draft["id"], confirm=True).json()["action"]["id"])


@pytest.mark.parametrize(
    ("propose", "subject", "edit"),
    [
        pytest.param(answered, "Question", {}, id="as-proposed"),
        pytest.param(answered, "Question", {"bcc": HIDDEN}, id="other-recipients"),
        pytest.param(draft_sent, "Question", {"body": "On Monday."}, id="other-text"),
        pytest.param(answered, "RE: Question", {"body": "On Monday."}, id="to-an-answer"),
        pytest.param(draft_sent, "Größe und Gewicht " * 9, {}, id="long-and-encoded"),
    ],
)
def test_reply_is_in_the_conversation_of_its_original(
    api: Api,
    reviewer: Reviewer,
    gmail: GmailServer,
    propose: Callable[..., str],
    subject: str,
    edit: dict[str, str],
) -> None:
    original = gmail.deliver(ADA, letter(subject, Message_ID=QUESTION))
    action_id = propose(api, original)
    assert not edit or reviewer.decide(action_id, "edit", **edit).status_code == 302
    reviewer.decide(action_id, "approve")
    work()
    (sent,) = gmail.ledger
    assert parsed(sent.content)["In-Reply-To"] == QUESTION
    assert conversation(gmail) == original.thread


@pytest.mark.parametrize("propose", [answered, draft_sent])
def test_reply_with_another_subject_begins_a_conversation(
    api: Api, reviewer: Reviewer, gmail: GmailServer, propose: Callable[..., str]
) -> None:
    original = gmail.deliver(ADA, letter("Question", Message_ID=QUESTION))
    action_id = propose(api, original)
    gmail.calls.clear()
    assert reviewer.decide(action_id, "edit", subject="Something else").status_code == 302
    reviewer.decide(action_id, "approve")
    work()
    assert [parsed(sent.content)["Subject"] for sent in gmail.ledger] == ["Something else"]
    assert conversation(gmail) != original.thread
    (made,) = (call for call in gmail.calls if call.name == "drafts.create")
    assert "threadId" not in json.loads(made.content)["message"]


def test_forward_begins_a_conversation(api: Api, reviewer: Reviewer, gmail: GmailServer) -> None:
    original = gmail.deliver(ADA, letter("Question", Message_ID=QUESTION))
    answer = api.tool("forward_email", message_id=original.id, to=[MIRA], confirm=True).json()
    reviewer.decide(answer["action"]["id"], "approve")
    work()
    assert conversation(gmail) != original.thread


@pytest.mark.fault(31, 34)
@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        pytest.param(503, "", ("approved", "provider_error"), id="503"),
        pytest.param(403, "insufficientPermissions", ("failed", "auth_error"), id="permission"),
    ],
)
def test_reply_waits_while_its_conversation_is_unreadable(
    api: Api,
    reviewer: Reviewer,
    gmail: GmailServer,
    status: int,
    reason: str,
    expected: tuple[str, str],
) -> None:
    original = gmail.deliver(ADA, letter("Question", Message_ID=QUESTION))
    reviewer.decide(answered(api, original), "approve")
    gmail.fail("messages.get", status, reason, only=lambda call: call.one("format") == "metadata")
    work()
    assert (PendingAction.objects.values_list("status", "error__code").get(), gmail.ledger) == (
        expected,
        [],
    )


def test_reply_to_a_deleted_mail_leaves_without_conversation(
    api: Api, reviewer: Reviewer, gmail: GmailServer
) -> None:
    original = gmail.deliver(ADA, letter("Question", Message_ID="<q@northwind.example>"))
    answer = api.tool("reply_email", message_id=original.id, comment="Yes.", confirm=True).json()
    reviewer.decide(answer["action"]["id"], "approve")
    del gmail.box(ADA).messages[original.id]
    work()
    assert [parsed(sent.content)["In-Reply-To"] for sent in gmail.ledger] == [
        "<q@northwind.example>"
    ]
