"""The page of numbers: its figures, who sees which, its export, and its bounded work."""

import csv
import io
import uuid
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.models import Mailbox, Membership, Role, User
from approvals.gate import decide
from approvals.models import PendingAction
from approvals.pages.numbers.figures import percentile
from tests.approvals.conftest import approve
from tests.approvals.revisions import edit
from tests.conftest import Api, make_api
from tests.support.people.browser import browser

pytestmark = pytest.mark.django_db(transaction=True)


def wait(action_id: str, **ago: int) -> str:
    """Let the action be as old as this, and return its id."""
    PendingAction.objects.filter(pk=action_id).update(created_at=timezone.now() - timedelta(**ago))
    return action_id


def rows(person: User, days: int = 30) -> list[dict[str, str]]:
    answer = browser(person).get(f"/numbers/export/?days={days}")
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    return list(csv.DictReader(io.StringIO(answer.content.decode())))


def only(lines: list[dict[str, str]], by: str) -> dict[str, str]:
    (line,) = [line for line in lines if line["by"] == by]
    return line


@pytest.fixture
def month(api: Api, alice: User, bob: User) -> None:
    """Let mails be approved after an hour and after two, edited, rejected, expired, and wait."""
    approve(wait(api.propose(), hours=1), bob)
    edited = wait(api.propose(), hours=2)
    edit(edited, bob, subject="Changed")
    approve(edited, alice)
    decide.reject(action_id=uuid.UUID(wait(api.propose(), hours=3)), person=bob)
    PendingAction.objects.filter(pk=api.propose()).update(
        status="expired", finished_at=timezone.now()
    )
    wait(api.propose(), days=20)
    wait(api.propose(), days=80)


def test_figures_follow_decisions(month: None, alice: User, mailbox: Mailbox) -> None:
    line = only(rows(alice), "mailbox")

    assert (line["name"], line["mails"]) == (mailbox.address, "5")
    assert (line["approved"], line["rejected"], line["expired"]) == ("2", "1", "1")
    assert line["edited"] == "1"
    assert 7_200 <= int(line["median_seconds"]) < 7_300
    assert 10_800 <= int(line["p95_seconds"]) < 10_900
    assert only(rows(alice), "agent")["name"] == "agent"
    assert [only(rows(alice, days), "all")["mails"] for days in (7, 90)] == ["4", "6"]


def test_page_has_charts_with_words(month: None, alice: User) -> None:
    shown = browser(alice).get("/numbers/?days=90").content.decode()

    # After midnight, a mail that is three hours old is of the day before.
    made = PendingAction.objects.values_list("created_at", flat=True)
    ((_, most),) = Counter(timezone.localdate(at) for at in made).most_common(1)
    assert f"6 proposals in 90 days, at most {most} on one day" in shown
    assert "2 h, 95 % within 3 h" in shown
    assert '<title id="chart-title">' in shown
    assert browser(alice).get("/numbers/?days=1000000").status_code == 200


def test_only_managers_see_approvers(month: None, alice: User, bob: User) -> None:
    names = {line["name"]: line["approved"] for line in rows(alice) if line["by"] == "approver"}

    assert names == {"Alice": "1", "Bob": "1"}
    assert "approver" not in {line["by"] for line in rows(bob)}
    assert "Approvers" not in browser(bob).get("/numbers/").content.decode()


def test_numbers_of_others_are_hidden(month: None, charlie: User) -> None:
    assert only(rows(charlie), "all")["mails"] == "0"
    assert "Nothing was proposed" in browser(charlie).get("/numbers/").content.decode()


def test_export_holds_no_formula(alice: User, mailbox: Mailbox) -> None:
    make_api(alice, mailbox, name="=HYPERLINK(1)").propose()

    assert only(rows(alice), "agent")["name"] == "'=HYPERLINK(1)"


def add_mailboxes(person: User, count: int) -> None:
    made = Mailbox.objects.bulk_create(
        Mailbox(address=f"team{n}@{uuid.uuid4().hex}.example", provider="memory", credentials=b"")
        for n in range(count)
    )
    Membership.objects.bulk_create(
        Membership(mailbox=each, user=person, role=Role.MANAGER) for each in made
    )


def test_many_mailboxes_take_the_same_statements(month: None, alice: User) -> None:
    window = browser(alice)

    def count() -> int:
        with CaptureQueriesContext(connection) as queries:
            assert window.get("/numbers/?days=90").status_code == 200
        return len(queries)

    window.get("/numbers/")
    few = count()
    add_mailboxes(alice, 700)

    assert count() == few


@pytest.mark.parametrize(
    ("values", "median", "p95"),
    [([], None, None), ([5.0], 5.0, 5.0), ([float(n) for n in range(1, 101)], 50.0, 95.0)],
)
def test_percentiles_are_of_the_nearest_rank(values: list[float], median: Any, p95: Any) -> None:
    assert (percentile(values, 50), percentile(values, 95)) == (median, p95)
