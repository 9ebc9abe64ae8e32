"""A mail found in Sent proves only that mail: mailhub reports a difference from the approved
one.
"""

from typing import Any

import pytest

from accounts.models import User
from approvals.models import PendingAction
from tests.conftest import Api, Reviewer, make_api
from tests.faults.gmail_road import look_again
from tests.faults.graph_road import approve, probe, throttled_with_a_draft
from tests.support.people.gmail import connected, gmail
from tests.support.people.outlook import graph, mailbox, state
from tests.support.servers.gmail import GmailServer
from tests.support.servers.graph import GraphServer
from tests.support.servers.graph_store import as_recipient
from tests.support.servers.sandbox import ADA
from tests.support.work import work

__all__ = ["gmail", "graph", "mailbox"]
pytestmark = pytest.mark.django_db(transaction=True)
LONG = pytest.mark.long  # test_gmail_content.py and test_graph_content.py compare each part
PDF = {"name": "a.pdf", "type": "application/pdf", "content_base64": "JVBERi0="}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, None),
        ({"subject": "Hello again"}, ["subject"]),
        pytest.param({"toRecipients": [as_recipient("other@x.example")]}, ["to"], marks=LONG),
        pytest.param(
            {"body": {"contentType": "Text", "content": "Other words."}}, ["body"], marks=LONG
        ),
    ],
)
def test_draft_sent_by_hand_at_microsoft_is_compared(
    api: Api,
    reviewer: Reviewer,
    graph: GraphServer,
    changes: dict[str, Any],
    said: list[str] | None,
) -> None:
    action = approve(api, reviewer, attachments=[PDF])
    draft = throttled_with_a_draft(graph)
    if changes:
        graph.store.patch(draft, changes)
    graph.accept(ADA, draft, "by hand", save=True)
    work()
    probe()

    assert state(action) == ("succeeded", None)
    assert api.get(f"/actions/{action.pk}").json()["receipt"].get("changed") == said
    assert (
        "That is not what was approved." in reviewer.page(str(action.pk)).content.decode()
    ) is bool(said)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b"", b"", None),
        (b"Thursday", b"Tuesday", ["content"]),
        pytest.param(b"Subject: Hello", b"Subject: Hello again", ["subject"], marks=LONG),
        pytest.param(
            b"mira@northwind.example", b"other@northwind.example", ["recipients"], marks=LONG
        ),
    ],
)
@pytest.mark.parametrize("found", ["by the worker", "by a look"])
def test_draft_sent_by_hand_at_gmail_is_compared(
    alice: User,
    reviewer: Reviewer,
    gmail: GmailServer,
    old: bytes,
    new: bytes,
    said: list[str] | None,
    found: str,
) -> None:
    api = make_api(alice, connected(gmail, alice))
    action = PendingAction.objects.get(pk=api.propose())
    reviewer.decide(str(action.pk), "approve")
    gmail.fail("drafts.send", 429)
    work()
    (draft,) = gmail.box(ADA).drafts
    (source,) = gmail.sources(ADA, "DRAFT")
    gmail.put_draft(ADA, source.replace(old, new) if old else source, draft)
    gmail._send(gmail.box(ADA), draft)
    if found == "by a look":
        gmail.fail("messages.list", 503)
    for _ in range(2):
        look_again()

    assert state(action) == ("succeeded", None)
    assert api.get(f"/actions/{action.pk}").json()["receipt"].get("changed") == said
