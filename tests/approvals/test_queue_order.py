"""The order of the queue: saved for each person, in pages by keyset, from an index."""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.models import Mailbox, User
from approvals.core.states import Status
from approvals.models import PendingAction
from approvals.pages import listing
from approvals.pages.orders import BY_MAILBOX
from tests.approvals.review_pages import filled, seal_of, text_of
from tests.conftest import Api, Reviewer, make_mailbox
from tests.support.growth import check_growth
from tests.support.plans import plan_of
from tests.support.servers.memory import MemoryServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]
RISKY = {"body": "My card is 4111 1111 1111 1111."}


def choose(reviewer: Reviewer, order: str) -> Any:
    reviewer.client.get("/")
    return reviewer.client.post(
        "/order/",
        {"order": order, "csrfmiddlewaretoken": reviewer.client.cookies["csrftoken"].value},
    )


def pages(reviewer: Reviewer, address: str = "/") -> Iterator[list[str]]:
    """Yield the ids on each page of the list."""
    earlier = set[str]()
    while address:
        assert address not in earlier, "the list begins again"
        earlier.add(address)
        page = text_of(reviewer.client.get(address))
        yield re.findall(r'data-id="([0-9a-f-]{36})"', page)
        onward = re.search(r'href="([^"]+)"\s+rel="next"', page)
        address = onward[1].replace("&amp;", "&") if onward else ""


def listed(reviewer: Reviewer) -> list[str]:
    return [each for page in pages(reviewer) for each in page]


def expire(action: str, **lead: float) -> None:
    PendingAction.objects.filter(pk=action).update(expires_at=timezone.now() + timedelta(**lead))


def test_each_person_keeps_an_order(api: Api, reviewer: Reviewer, bob: User) -> None:
    late, soon, risky = api.propose(subject="One"), api.propose(subject="Two"), api.propose(**RISKY)
    expire(late, hours=9)
    expire(risky, hours=8)
    expire(soon, hours=1)
    assert listed(reviewer) == [late, soon, risky]
    choose(reviewer, "expiry")
    assert listed(reviewer) == [soon, risky, late]
    choose(reviewer, "risk")
    assert listed(reviewer) == [risky, late, soon]
    choose(reviewer, "by chance")
    assert listed(reviewer) == [risky, late, soon]
    assert listed(Reviewer.signed_in(bob)) == [late, soon, risky]


def test_mailboxes_follow_each_other_by_address(
    api: Api, reviewer: Reviewer, alice: User, server: MemoryServer
) -> None:
    first = make_mailbox("aaa@lovelace.example", server, alice)
    filled(first, alice, 2)
    mine = api.propose()
    choose(reviewer, "mailbox")
    of_first = PendingAction.objects.filter(mailbox=first).order_by("created_at")
    assert listed(reviewer) == [*(str(each.pk) for each in of_first), mine]


def test_edit_changes_the_rank_of_a_risky_mail(api: Api, reviewer: Reviewer) -> None:
    plain, risky = api.propose(), api.propose(**RISKY)
    choose(reviewer, "risk")
    assert listed(reviewer) == [risky, plain]
    reviewer.decide(risky, "edit", body="Hello")
    assert listed(reviewer) == [plain, risky]


def test_next_mail_follows_the_order(api: Api, reviewer: Reviewer) -> None:
    late, soon, last = (api.propose(subject=f"{n}") for n in range(3))
    for action, hours in ((late, 5), (soon, 1), (last, 9)):
        expire(action, hours=hours)
    choose(reviewer, "expiry")
    assert "2 of 3" in text_of(reviewer.page(late))
    answer = reviewer.decide(soon, "reject", then="next")
    assert answer["Location"] == f"/actions/{late}/"
    assert seal_of(late)["revision"] == 1


@pytest.mark.parametrize("order", ["oldest", "expiry", "risk", "mailbox"])
def test_pages_hold_each_action_once_from_an_index(
    order: str, mailbox: Mailbox, alice: User, reviewer: Reviewer, server: MemoryServer
) -> None:
    second = make_mailbox("aaa@lovelace.example", server, alice)
    filled(mailbox, alice, 70)
    filled(second, alice, 60)
    now = timezone.now()
    for number, action in enumerate(PendingAction.objects.order_by("id")):
        action.risk = number % 3
        action.expires_at = now + timedelta(minutes=number % 7)  # many alike
        action.save(update_fields=["risk", "expires_at"])
    choose(reviewer, order)
    found = list(pages(reviewer))
    assert [len(page) for page in found] == [30, 30, 30, 30, 10]
    assert len({each for page in found for each in page}) == 130
    with CaptureQueriesContext(connection) as queries:
        reviewer.client.get("/")
    lists = [
        each["sql"] for each in queries if "json_each" in each["sql"] or "LATERAL" in each["sql"]
    ]
    name = {"expiry": "action_queue_by_expiry", "risk": "action_queue_by_risk"}
    assert name.get(order, "action_queue_page") in "\n".join(map(plan_of, lists))


@pytest.mark.parametrize("cursor", ["none", "cursor of another order"])
def test_foreign_cursor_leads_to_the_first_page(
    cursor: str, mailbox: Mailbox, alice: User, reviewer: Reviewer
) -> None:
    filled(mailbox, alice, 60)
    page = text_of(reviewer.client.get("/"))
    onward = re.search(r'href="([^"]+)"\s+rel="next"', page)
    assert onward
    choose(reviewer, "expiry")  # its cursors have the same parts
    address = "/?cursor=none" if cursor == "none" else onward[1].replace("&amp;", "&")
    assert reviewer.client.get(address)["Location"].startswith("/?tab=pending")


def test_order_by_mailbox_is_cheap_with_thousands_of_mailboxes(mailbox: Mailbox) -> None:
    empty = [Mailbox(address=f"{number}@lovelace.example") for number in range(10_000)]

    def read(number: int) -> None:
        seen = [*empty[:number], mailbox]
        listed = listing.page(seen, (Status.PENDING,), cursor=None, limit=50, order=BY_MAILBOX)
        assert listed.rows == []

    check_growth(read, 10_000)
