"""A proposal names the address that gets its steps: signed, filtered, and only with the scope."""

from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from accounts.models import Mailbox, User
from approvals.models import PendingAction, Webhook, WebhookDelivery
from tests.approvals.webhook_listener import Listener, httpserver, hurried, listener, told
from tests.conftest import HELLO, Api, Reviewer, make_api, problem_of
from tests.support.people.browser import browser

__all__ = ["httpserver", "listener"]
pytestmark = pytest.mark.django_db(transaction=True)


def with_secret(api: Api, listener: Listener) -> None:
    answer = api.post("/webhooks", {"callbacks": True})
    assert answer.status_code == 201, answer.content
    listener.secret = answer.json()["secret"]


def test_callback_gets_the_steps_of_its_action_only(
    api: Api, reviewer: Reviewer, listener: Listener
) -> None:
    with_secret(api, listener)
    action = api.propose(callback_url=listener.url, metadata={"run": "7"})
    reviewer.decide(api.propose(subject="Other"), "reject")
    reviewer.decide(action, "reject", note="Too early")
    told()
    (message,) = listener.heard
    assert (message["type"], message["data"]["id"]) == ("action.rejected", action)
    assert message["data"]["review"]["note"] == "Too early"
    assert message["data"]["metadata"] == {"run": "7"}


@pytest.mark.parametrize("lacking", ["scope", "secret"])
def test_callback_needs_the_scope_and_a_secret(
    api: Api, alice: User, mailbox: Mailbox, listener: Listener, lacking: str
) -> None:
    if lacking == "scope":
        api = make_api(alice, mailbox, name="plain", scopes=["mail:propose"])
    answer = api.tool("send_email", **HELLO, confirm=True, callback_url=listener.url)
    expected = {"scope": "forbidden", "secret": "invalid_input"}
    assert problem_of(answer)["code"] == expected[lacking]
    assert not PendingAction.objects.exists()


@pytest.mark.parametrize("url", ["https://127.0.0.1/", "http://192.0.2.7/", "https://8.8.8.8:22/"])
def test_internal_callback_is_refused_in_the_preview_too(
    api: Api, listener: Listener, settings: Any, url: str
) -> None:
    with_secret(api, listener)
    settings.MAILHUB_LOOPBACK_FOR_PEOPLE = frozenset()
    for confirm in (False, True):
        answer = api.tool("send_email", **HELLO, confirm=confirm, callback_url=url)
        assert [error["field"] for error in problem_of(answer)["errors"]] == ["callback_url"]


def test_callback_belongs_to_the_request_of_the_key(api: Api, listener: Listener) -> None:
    with_secret(api, listener)
    api.propose(key="k", callback_url=listener.url)
    answer = api.tool("send_email", key="k", **HELLO, confirm=True)
    assert problem_of(answer)["code"] == "idempotency_mismatch"


def test_callback_that_is_gone_stops_no_other(
    api: Api, reviewer: Reviewer, listener: Listener, httpserver: HTTPServer
) -> None:
    with_secret(api, listener)
    httpserver.expect_request("/gone").respond_with_data(status=410)
    gone = api.propose(callback_url=httpserver.url_for("/gone"))
    there = api.propose(subject="There", callback_url=listener.url)
    for action in (gone, there):
        reviewer.decide(action, "reject")
    told()
    assert [message["data"]["id"] for message in listener.heard] == [there]
    delivery = WebhookDelivery.objects.get(action__pk=gone)
    assert (delivery.answer, delivery.next_at) == ("410", None)
    assert Webhook.objects.get().ended_at is None


def test_callback_that_fails_is_tried_again(
    api: Api, reviewer: Reviewer, listener: Listener
) -> None:
    with_secret(api, listener)
    listener.answers = [500]
    reviewer.decide(api.propose(callback_url=listener.url), "reject")
    for _ in range(2):
        told()
        hurried()
    assert listener.types == ["action.rejected"] * 2


def test_token_has_one_secret_for_callbacks(api: Api, listener: Listener) -> None:
    with_secret(api, listener)
    assert problem_of(api.post("/webhooks", {"callbacks": True}))["code"] == "conflict"
    wrong = api.post("/webhooks", {"callbacks": True, "url": listener.url})
    assert problem_of(wrong)["code"] == "invalid_input"
    (shown,) = api.get("/webhooks").json()["items"]
    assert shown["callbacks"] is True
    assert "url" not in shown


def test_page_makes_the_secret_for_callbacks(api: Api, alice: User) -> None:
    window = browser(alice)
    token = alice.tokens.get()
    given = {"token": token.pk, "events": ["action.rejected"]}
    assert window.post("/webhooks/new/", given).context["form"].errors["url"]
    added = window.post("/webhooks/new/", {**given, "callbacks": "on"})
    assert added.context["secret"].startswith("whsec_")
    for page in ("/webhooks/", f"/webhooks/{added.context['webhook'].pk}/"):
        assert "Callback addresses of proposals" in window.get(page).content.decode()
