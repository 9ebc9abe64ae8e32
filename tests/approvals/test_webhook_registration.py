"""Webhooks are added, listed and removed over REST and on a page; internal addresses are refused."""

import json
from typing import Any
from urllib.parse import urlencode

import pytest
from django.utils import timezone

from accounts.models import ApiToken, Mailbox, User
from approvals.models import Webhook, WebhookCursor, WebhookDelivery
from approvals.outbound.webhooks import outbox
from tests.approvals.webhook_listener import CANARY, Listener, httpserver, listener, told
from tests.conftest import Api, make_api, make_mailbox, problem_of
from tests.support.people.browser import browser
from tests.support.servers.memory import MemoryServer

__all__ = ["httpserver", "listener"]
pytestmark = pytest.mark.django_db(transaction=True)


NOT_TOLD = (
    "https://127.0.0.1/hook", "https://[::1]/", "https://169.254.169.254/latest/", "https://10.0.0.1:8443/",
    "http://192.0.2.7/", "https://192.0.2.7:22/", "ftp://example.com/", "https:///x", "https://u:p@example.com/",
    "https://example.com/#x", "https://exa mple.com/", "https://example.com/\r\nX: y", "https://example.com:99999/",
    "https://8.8.8.8:22/", "https://8.8.8.8/\r\nX: y", "https://8.8.8.8/a b", "https://8.8.8.8/\u00fc",
)  # fmt: skip


def test_internal_or_invalid_address_is_refused(api: Api, settings: Any) -> None:
    settings.MAILHUB_LOOPBACK_FOR_PEOPLE = frozenset()
    for url in NOT_TOLD:
        answer = api.post("/webhooks", {"url": url})
        assert answer.status_code == 422, url
        assert [error["field"] for error in problem_of(answer)["errors"]] == ["url"], url
    for url in ("http://8.8.8.8/", "https://8.8.8.8:22/"):
        (error,) = problem_of(api.post("/webhooks", {"url": url}))["errors"]
        assert error["message"] == "Use https, on port 443 or 8443.", url
    assert api.get("/webhooks").json() == {"items": []}


WRONG_BODIES: tuple[Any, ...] = (
    {}, [], {"url": "https://example.com", "events": []}, {"url": "https://example.com", "events": ["action.sent"]},
    {"url": "https://example.com", "more": 1},
)  # fmt: skip


def test_wrong_body_is_refused_with_the_field(api: Api) -> None:
    for body in WRONG_BODIES:
        assert problem_of(api.post("/webhooks", body))["code"] == "invalid_input", body


def test_webhooks_belong_to_their_token_only(
    api: Api, alice: User, mailbox: Mailbox, listener: Listener
) -> None:
    webhook = listener.added(api)
    other = make_api(alice, mailbox, name="other")
    without = make_api(alice, mailbox, name="reader", scopes=["mail:read"])

    (shown,) = api.get("/webhooks").json()["items"]
    assert shown["id"] == webhook
    assert "secret" not in shown
    assert other.get("/webhooks").json() == {"items": []}
    assert deleted(other, webhook).status_code == 404
    for answer in (
        without.get("/webhooks"),
        without.post("/webhooks", {"url": listener.url}),
        deleted(without, webhook),
    ):
        assert answer.status_code == 403
    assert deleted(api, webhook).status_code == 204
    api.propose()
    told()
    assert listener.heard == []


def deleted(api: Api, webhook: str) -> Any:
    return api.client.delete(
        f"/api/v1/webhooks/{webhook}", headers={"Authorization": f"Bearer {api.secret}"}
    )


def test_token_has_at_most_ten(api: Api, listener: Listener) -> None:
    for _ in range(10):
        listener.added(api)
    assert problem_of(api.post("/webhooks", {"url": listener.url}))["code"] == "conflict"


def test_webhooks_of_a_person_leave_room_for_others(
    api: Api, bob: User, mailbox: Mailbox, listener: Listener
) -> None:
    """A token costs nothing, so each person has a limit over all of theirs."""
    for _ in range(10):
        listener.added(api)
    make_api(bob, mailbox, name="many")
    token = ApiToken.objects.get(name="many")
    theirs = Webhook.objects.bulk_create(
        Webhook(token=token, url=listener.url, events=["action.sent"]) for _ in range(150)
    )
    WebhookCursor.objects.bulk_create(
        WebhookCursor(webhook=each, mailbox=mailbox, sequence=0) for each in theirs
    )
    more = make_api(bob, mailbox, name="more")
    assert problem_of(more.post("/webhooks", {"url": listener.url}))["code"] == "conflict"

    api.propose()
    for _ in range(16):
        outbox.gather()
        WebhookCursor.objects.filter(webhook__in=theirs).update(sequence=0)  # always news
    assert WebhookDelivery.objects.filter(webhook__token__name="agent").count() == 10

    ApiToken.objects.filter(pk=token.pk).update(revoked_at=timezone.now())
    listener.added(more)


def test_webhook_covers_only_mailboxes_bound_to_its_token(
    alice: User, mailbox: Mailbox, server: MemoryServer, listener: Listener
) -> None:
    second = make_mailbox("second@lovelace.example", server, alice)
    listener.added(make_api(alice, mailbox, name="one"), events=["action.proposed"])
    make_api(alice, second, name="two").propose()
    heard = make_api(alice, mailbox, name="three").propose()
    told()
    assert [message["data"]["id"] for message in listener.heard] == [heard]


def test_api_documents_name_the_webhooks(api: Api) -> None:
    paths = json.loads(api.client.get("/api/v1/openapi.json").content)["paths"]
    assert set(paths["/api/v1/webhooks"]) == {"get", "post"}
    assert set(paths["/api/v1/webhooks/{webhook_id}"]) == {"delete"}


def test_webhook_is_added_shown_once_and_removed_on_a_page(
    api: Api, alice: User, charlie: User, listener: Listener
) -> None:
    window, stranger = browser(alice), browser(charlie)
    token = ApiToken.objects.get(user=alice)
    added = window.post(
        "/webhooks/new/", {"token": token.pk, "url": listener.url, "events": ["action.proposed"]}
    )
    listener.secret = added.context["secret"]
    webhook = added.context["webhook"].pk
    assert listener.secret in added.content.decode()

    api.propose(subject=CANARY)
    told()
    assert listener.types == ["action.proposed"]
    shown = window.get(f"/webhooks/{webhook}/").content.decode()
    assert "action.proposed" in shown
    assert CANARY not in shown
    assert listener.secret not in shown

    delivery = WebhookDelivery.objects.get()
    for answer in (
        stranger.get(f"/webhooks/{webhook}/"),
        stranger.post(f"/webhooks/{webhook}/remove/"),
        stranger.post(f"/webhooks/{webhook}/deliveries/{delivery.pk}/again/"),
    ):
        assert answer.status_code == 404
    theirs = {"token": token.pk, "url": listener.url, "events": ["action.proposed"]}
    assert "token" in stranger.post("/webhooks/new/", theirs).context["form"].errors
    assert Webhook.objects.count() == 1
    assert WebhookDelivery.objects.get().tries == 1
    assert window.get(f"/webhooks/{webhook}/remove/").status_code == 405
    assert window.post(f"/webhooks/{webhook}/remove/").status_code == 302
    assert b"No webhooks yet" in window.get("/webhooks/").content


def test_adding_an_address_needs_a_fresh_sign_in(api: Api, alice: User) -> None:
    answer = browser(alice, fresh=False).get("/webhooks/new/")
    assert answer.status_code == 302
    assert answer["Location"].startswith("/sign-in/again/")


def test_long_delivery_lists_have_pages(api: Api, alice: User, listener: Listener) -> None:
    webhook = listener.added(api, events=["action.proposed"])
    action = api.propose()
    told()
    first = WebhookDelivery.objects.get()
    WebhookDelivery.objects.bulk_create(
        WebhookDelivery(webhook_id=webhook, event=first.event, action_id=action, at=first.at)
        for _ in range(60)
    )
    window, seen, address = browser(alice), [], f"/webhooks/{webhook}/"
    while address:
        page = window.get(address)
        seen += [delivery.pk for delivery in page.context["deliveries"]]
        older = page.context["older"]
        address = f"/webhooks/{webhook}/?{urlencode({'cursor': older})}" if older else ""
    assert len(seen) == len(set(seen)) == 61
    assert window.get(f"/webhooks/{webhook}/?cursor=none").status_code == 404
