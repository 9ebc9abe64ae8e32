"""Security events go to webhooks that a member of staff has added, and to no others."""

from typing import Any

import pytest
from django.test import Client
from pytest_httpserver import HTTPServer

from accounts.models import Mailbox, User
from approvals.models import AuditEvent, Webhook
from approvals.models.audit import PEOPLE
from tests.approvals.webhook_listener import Listener, httpserver, hurried, listener, told
from tests.conftest import Api, make_api
from tests.support.people.browser import browser

__all__ = ["HTTPServer", "httpserver", "listener"]
pytestmark = pytest.mark.django_db(transaction=True)


def add(person: User, listener: Listener) -> Any:
    """Add a webhook for security events on the page."""
    form = {"token": str(person.tokens.get().pk), "url": listener.url, "events": ["security"]}
    answer = browser(person).post("/webhooks/new/", form)
    if answer.context and "secret" in answer.context:
        listener.secret = answer.context["secret"]
    return answer


def fail_to_sign_in() -> None:
    Client().post("/sign-in/", {"login": "alice@lovelace.example", "password": "wrong wrong wrong"})


def test_staff_webhook_names_actor_action_method_and_source(
    staff: User, api: Api, listener: Listener
) -> None:
    assert add(staff, listener).status_code == 200
    fail_to_sign_in()
    told()
    assert listener.types == ["security.webhook_added", "security.sign_in_failed"]
    link = AuditEvent.objects.get(chain=PEOPLE, event="sign_in_failed")
    assert listener.heard[1]["data"] == {
        "id": str(link.pk),
        "event": "sign_in_failed",
        "actor": link.actor,
        "subject": str(staff.pk),
        "method": "password",
        "network": "127.0.0.0/24",
        "audit": {"sequence": link.sequence, "hash": link.hash},
    }
    assert "lovelace" not in str(listener.heard)
    page = browser(staff).get(f"/webhooks/{Webhook.objects.get().pk}/").content.decode()
    assert "security.sign_in_failed" in page


def test_nobody_else_can_add_one(alice: User, api: Api, listener: Listener) -> None:
    assert "events" in add(alice, listener).context["form"].errors
    alice.is_staff = True
    alice.save()
    by_program = api.post("/webhooks", {"url": listener.url, "events": ["security"]})
    assert by_program.status_code == 422
    stale = browser(alice, fresh=False)
    form = {"token": str(alice.tokens.get().pk), "url": listener.url, "events": ["security"]}
    assert stale.post("/webhooks/new/", form)["Location"].startswith("/sign-in/again/")
    assert not Webhook.objects.exists()


def test_token_neither_sees_nor_ends_one(staff: User, api: Api, listener: Listener) -> None:
    """A thief of the token would end it, or read its address, which may be a secret."""
    add(staff, listener)
    own = listener.added(api)
    assert [each["id"] for each in api.get("/webhooks").json()["items"]] == [own]
    webhook = Webhook.objects.exclude(pk=own).get()
    answer = api.client.delete(
        f"/api/v1/webhooks/{webhook.pk}", headers={"Authorization": f"Bearer {api.secret}"}
    )
    assert answer.status_code == 404
    assert Webhook.objects.filter(pk=webhook.pk).exists()


@pytest.mark.parametrize("when", ["before it is gathered", "before it is delivered"])
def test_former_staff_hears_nothing(staff: User, api: Api, listener: Listener, when: str) -> None:
    add(staff, listener)
    if when == "before it is delivered":
        listener.answers = [500]
        told()
        assert len(listener.heard) == 1
    User.objects.filter(pk=staff.pk).update(is_staff=False)
    heard = len(listener.heard)
    fail_to_sign_in()
    hurried()
    told()
    assert len(listener.heard) == heard
    User.objects.filter(pk=staff.pk).update(is_staff=True)
    told()
    assert "security.sign_in_failed" not in listener.types, (
        "what happened meanwhile is not told later"
    )


def test_action_webhook_gets_no_security_event(staff: User, api: Api, listener: Listener) -> None:
    listener.added(api)
    fail_to_sign_in()
    api.propose()
    told()
    assert listener.types == ["action.proposed"]


def test_webhooks_of_other_people_are_not_called(
    staff: User, charlie: User, foreign_mailbox: Mailbox, listener: Listener
) -> None:
    listener.added(make_api(charlie, foreign_mailbox, name="other"))
    fail_to_sign_in()
    told()
    assert listener.heard == []
