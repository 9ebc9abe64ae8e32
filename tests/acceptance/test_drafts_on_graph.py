"""Drafts in a mailbox of Microsoft 365: written, changed, proposed, sent, and left alone when a person changed them."""

import pytest

from tests.conftest import Api, Reviewer
from tests.graphserver import GraphServer
from tests.graphstore import as_recipient
from tests.mailserver import ADA, MIRA
from tests.outlook import api, approved, graph, letter, mailbox, state
from tests.work import work

__all__ = ["api", "graph", "mailbox"]
pytestmark = pytest.mark.django_db
JO = "jo@northwind.example"


def test_a_draft_is_written_listed_changed_and_thrown_away(api: Api, graph: GraphServer) -> None:
    made = api.tool("create_draft", to=[MIRA], bcc=[JO], subject="First", body="One.").json()
    assert [row["id"] for row in api.tool("list_drafts").json()["drafts"]] == [made["id"]]
    changed = api.tool("update_draft", draft_id=made["id"], to=[JO], subject="Second", body="Two.").json()
    (item,) = graph.drafts(ADA)
    assert (item.shown["subject"], item.addresses("toRecipients"), item.addresses("bccRecipients")) == (
        "Second", (JO,), (),
    )  # fmt: skip
    assert api.tool("delete_draft", draft_id=changed["id"]).json() == {"deleted": True}
    assert api.tool("delete_draft", draft_id=changed["id"]).status_code == 404
    assert (graph.drafts(ADA), graph.ledger) == ([], [])


def test_a_draft_that_answers_is_sent_once_in_its_thread_and_is_a_draft_no_more(
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


def test_a_draft_that_answers_without_a_word_is_sent_in_its_thread(
    api: Api, reviewer: Reviewer, graph: GraphServer
) -> None:
    """A person began it in Outlook; there is no comment on an original that anybody named."""
    original = graph.deliver(ADA, letter().as_bytes())
    graph.store.new(
        ADA, "drafts", {"subject": "Re: Delivery on Thursday?", "toRecipients": [as_recipient(MIRA)]},
        references=(original.shown["internetMessageId"],),
    )  # fmt: skip
    (draft,) = api.tool("list_drafts").json()["drafts"]
    action = approved(reviewer, api.tool("send_draft", draft_id=draft["id"], confirm=True))
    work()
    assert state(action) == ("succeeded", None)
    (accepted,) = graph.ledger
    assert (accepted.recipients, accepted.endpoint) == ((MIRA,), "send")
    assert graph.sent(ADA)[0].references == ("<question@northwind.example>",)


@pytest.mark.parametrize("how", ["edited", "thrown away"])
def test_row37_a_draft_that_its_person_changed_after_it_was_proposed_is_not_sent(
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


def test_without_the_permission_a_draft_is_refused_with_its_name(api: Api, graph: GraphServer) -> None:
    for token, (address, _) in list(graph.tokens.items()):
        graph.tokens[token] = (address, ("Mail.Read", "Mail.Send"))
    answer = api.tool("create_draft", to=[MIRA], subject="Hello", body="Hi.")
    assert (answer.status_code, answer.json()["required_scope"]) == (424, "Mail.ReadWrite")
