"""A webhook receives only its own events, with its own secret, and for as long as mail is kept."""

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from accounts.models import Mailbox, Membership, User
from approvals.models import Webhook, WebhookDelivery
from approvals.outbound.webhooks import outbox
from tests.approvals.webhook_listener import Listener, httpserver, listener, told
from tests.conftest import Api, make_api
from tests.support.people.browser import browser

__all__ = ["httpserver", "listener"]
pytestmark = pytest.mark.django_db(transaction=True)


def test_delivery_is_repeated_under_its_own_webhook_only(
    api: Api, alice: User, listener: Listener
) -> None:
    other = listener.added(api)
    Webhook.objects.filter(pk=other).update(ended_at=timezone.now())
    own = listener.added(api)
    api.propose()
    told()
    delivery = WebhookDelivery.objects.get()
    window = browser(alice)
    for webhook, status in ((other, 404), (own, 302)):
        assert (
            window.post(reverse("deliver_again", args=[webhook, delivery.pk])).status_code == status
        )
        assert (WebhookDelivery.objects.get().delivered_at is None) == (status == 302)


def test_page_shows_a_former_member_nothing_new(
    api: Api, bob: User, mailbox: Mailbox, listener: Listener
) -> None:
    webhook = listener.added(make_api(bob, mailbox))
    page = reverse("webhook", args=[webhook])
    for member in (True, False):
        action = api.propose(subject=f"{member}")
        told()
        shown = browser(bob).get(page).content.decode()
        assert (action in shown) is member
        Membership.objects.filter(user=bob).delete()


@pytest.mark.parametrize("person", ["user@", "user:secret@", "@"])
def test_address_with_a_person_in_it_is_refused(api: Api, listener: Listener, person: str) -> None:
    answer = api.post("/webhooks", {"url": listener.url.replace("http://", f"http://{person}")})
    assert answer.status_code == 422
    assert "without a password" in answer.json()["errors"][0]["message"]


def test_secret_of_another_webhook_signs_nothing(api: Api, listener: Listener) -> None:
    other, own = listener.added(api), listener.added(api)
    Webhook.objects.filter(pk=other).update(ended_at=timezone.now())
    Webhook.objects.filter(pk=own).update(secret=Webhook.objects.get(pk=other).secret)
    api.propose()
    told()
    assert listener.heard == []
    assert WebhookDelivery.objects.get().answer == "no_secret"


def test_old_deliveries_are_forgotten(api: Api, listener: Listener) -> None:
    listener.added(api)
    api.propose()
    told()
    outbox.forget_old()
    assert WebhookDelivery.objects.count() == 1
    WebhookDelivery.objects.update(at=timezone.now() - timedelta(days=3650))
    outbox.forget_old()
    assert not WebhookDelivery.objects.exists()
