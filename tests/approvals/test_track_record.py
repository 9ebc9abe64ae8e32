"""The decisions of people about earlier proposals of the same agent in the same mailbox."""

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.models import ApiToken, Mailbox, User
from approvals.models import PendingAction
from tests.approvals.review_pages import filled, text_of
from tests.conftest import Api, Reviewer
from tests.support.plans import plan_of

pytestmark = pytest.mark.django_db(transaction=True)


def record(reviewer: Reviewer, action: str) -> str:
    page = text_of(reviewer.client.get(f"/actions/{action}/peek/"))
    found = re.search(r'<p class="record">(.*?)</p>', page, re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", "", found[1]).split()) if found else ""


def test_decisions_on_the_same_agent_are_counted(
    api: Api, reviewer: Reviewer, mailbox: Mailbox, alice: User
) -> None:
    filled(mailbox, alice, 3, agent="another")
    PendingAction.objects.update(status="rejected", finished_at=timezone.now())
    action = api.propose()
    assert record(reviewer, action) == (
        "Nothing else from this agent has been decided in this mailbox."
    )
    old, edited, *rejected = (api.propose(subject=f"{n}") for n in range(4))
    reviewer.decide(edited, "edit", subject="Better")
    for each in (old, edited):
        reviewer.decide(each, "approve")
    for each in rejected:
        reviewer.decide(each, "reject")
    api.propose(subject="Not decided")
    PendingAction.objects.filter(pk=old).update(created_at=timezone.now() - timedelta(days=31))
    assert record(reviewer, action) == (
        "Earlier proposals of this agent in this mailbox: 2 approved, 1 edited, 2 rejected."
        " In the last 30 days: 1 approved, 1 edited, 2 rejected."
    )


def test_record_is_one_bounded_statement_and_none_of_the_queue(
    api: Api, reviewer: Reviewer, mailbox: Mailbox, alice: User
) -> None:
    filled(mailbox, alice, 1100, agent=ApiToken.objects.get().name)
    PendingAction.objects.update(status="rejected", finished_at=timezone.now())
    action = api.propose()
    with CaptureQueriesContext(connection) as queries:
        assert record(reviewer, action).startswith(
            "The newest 1,000 proposals of this agent in this mailbox: 0 approved, 0 edited, 1000 rejected."
        )
    (counts,) = (each["sql"] for each in queries if "recently_rejected" in each["sql"])
    plan = plan_of(counts)
    # Both give the order that the limit needs; the second serves as well, with a single agent.
    assert "action_of_agent" in plan or "action_of_proposer" in plan, plan
    with CaptureQueriesContext(connection) as queries:
        reviewer.client.get("/")
    assert not any("recently_rejected" in each["sql"] for each in queries)


def test_mail_of_a_person_has_no_record(reviewer: Reviewer, mailbox: Mailbox, alice: User) -> None:
    filled(mailbox, alice, 1, agent="")
    assert record(reviewer, str(PendingAction.objects.get().pk)) == ""
