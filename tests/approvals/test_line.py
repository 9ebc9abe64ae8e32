"""The queue mail by mail: its order, its end, and decisions that lead to the next mail."""

from typing import Any
from urllib.parse import unquote

import pytest
from django.test import Client

from accounts.models import Mailbox, Membership, Role, User
from approvals.models import PendingAction
from approvals.pages.orders import save_order
from tests.approvals.review_pages import seal_of, text_of
from tests.conftest import Api
from tests.support.people.browser import browser, set_rules

pytestmark = pytest.mark.django_db(transaction=True)
SECRET = "My card is 4111 1111 1111 1111."


def decide(client: Client, action_id: str, verb: str, **form: Any) -> Any:
    """Post the form of the line, and return the last page of its redirects."""
    form = {**seal_of(action_id), "then": "line", **form}
    return client.post(f"/actions/{action_id}/{verb}/", form, follow=True)


def at(answer: Any) -> str:
    """Return the address on which the redirects ended."""
    return str(answer.redirect_chain[-1][0])


def test_each_decision_leads_to_the_next_mail(api: Api, alice: User) -> None:
    ids = [api.propose(subject=f"Mail {n}") for n in range(4)]
    client = browser(alice)

    assert at(client.get("/line/", follow=True)) == f"/line/{ids[0]}/"
    assert at(decide(client, ids[0], "approve")) == f"/line/{ids[1]}/"
    assert at(decide(client, ids[1], "reject", note="Not like this")) == f"/line/{ids[2]}/"
    assert at(decide(client, ids[2], "ask_back", note="Shorter")) == f"/line/{ids[3]}/"
    end = client.get(f"/line/?after={ids[3]}")

    assert "You reached the end" in text_of(end)
    states = [PendingAction.objects.get(pk=each).status for each in ids]
    assert states == ["approved", "rejected", "pending", "pending"]
    decide(client, ids[2], "reject")
    assert "All done" in text_of(decide(client, ids[3], "reject"))


def test_line_follows_the_order_of_the_person(api: Api, alice: User) -> None:
    plain, risky = api.propose(), api.propose(body=SECRET)
    save_order(alice, "risk")
    client = browser(alice)

    assert at(client.get("/line/", follow=True)) == f"/line/{risky}/"
    assert at(decide(client, risky, "approve")) == f"/line/{plain}/"


def test_line_passes_over_mails_that_the_person_cannot_approve(
    api: Api, alice: User, bob: User, mailbox: Mailbox
) -> None:
    set_rules(alice, mailbox, approvals_needed=2)
    first, second = api.propose(), api.propose()
    client = browser(bob)
    decide(client, first, "approve")
    assert PendingAction.objects.get(pk=first).status == "pending"
    assert at(client.get("/line/", follow=True)) == f"/line/{second}/"

    Membership.objects.filter(user=bob).update(role=Role.VIEWER)
    assert "No mail needs your decision now" in text_of(browser(bob).get("/line/"))


def test_refused_decision_stays_in_the_line(api: Api, alice: User, bob: User) -> None:
    first, second = api.propose(), api.propose()
    client = browser(alice)
    answer = decide(client, first, "approve", digest="0" * 64)
    assert answer.status_code == 409
    assert "data-line" in text_of(answer)
    assert PendingAction.objects.get(pk=first).status == "pending"

    decide(browser(bob), first, "reject")
    gone = client.get(f"/line/{first}/")
    assert f'href="/line/?after={first}"' in text_of(gone)
    assert at(client.get(f"/line/?after={first}", follow=True)) == f"/line/{second}/"


def test_risky_mail_comes_back_to_the_line_after_the_sign_in(api: Api, alice: User) -> None:
    risky = api.propose(body=SECRET)
    client = browser(alice, fresh=False)

    answer = decide(client, risky, "approve")

    assert unquote(at(answer)) == f"/sign-in/again/?next=/line/{risky}/"
    assert PendingAction.objects.get(pk=risky).status == "pending"


def test_undo_in_the_line_brings_the_mail_back(api: Api, alice: User, settings: Any) -> None:
    settings.MAILHUB_UNDO_SECONDS = 600
    first, second = api.propose(), api.propose()
    client = browser(alice)
    decide(client, first, "approve")
    assert "Undo within" in text_of(client.get(f"/line/{second}/"))

    answer = client.post(f"/actions/{first}/undo/", {"then": "line"}, follow=True)

    assert at(answer) == f"/line/{first}/"
    assert PendingAction.objects.get(pk=first).status == "pending"


@pytest.mark.parametrize("after", ["nonsense", "00000000-0000-0000-0000-000000000000"])
def test_unknown_mail_in_the_address_is_no_error_page(
    alice: User, mailbox: Any, after: str
) -> None:
    assert browser(alice).get(f"/line/?after={after}").status_code in (200, 404)
