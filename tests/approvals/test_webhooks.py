"""Programs receive the events of actions: signed, at least once, without content, and only those
that their token may see.
"""

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone
from pytest_httpserver import HTTPServer
from standardwebhooks import Webhook as Receiver
from werkzeug import Request, Response

from accounts.models import ApiToken, Mailbox, Membership, Role, User
from approvals import guards
from approvals.core.types import ApprovedAction, Outcome
from approvals.models import AuditEvent, PendingAction, Webhook, WebhookDelivery
from approvals.webhooks import courier
from approvals.worker import maintenance
from tests.approvals.kinds import Script, handed_over
from tests.conftest import Api, Reviewer, make_api, make_mailbox, problem_of
from tests.people import browser, set_rules
from tests.processes import manage, this_test, until
from tests.work import work
from tools.providers.memory import MemoryServer

pytestmark = pytest.mark.django_db(transaction=True)
CANARY = "Canary-7731"


class Listener:
    """A program that receives events; it checks each signature with the library that receivers
    use.
    """

    def __init__(self, server: HTTPServer) -> None:
        self.url = server.url_for("/hook?for=us")
        self.secret = ""
        self.heard: list[dict[str, Any]] = []
        self.numbers: list[str] = []
        self.meanwhile: Callable[[], object] = lambda: None
        self.answers: list[int] = []  # for the next messages; 200 when the list is empty
        server.expect_request("/hook", method="POST", query_string="for=us").respond_with_handler(
            self._take
        )

    def _take(self, request: Request) -> Response:
        body = request.get_data()
        self.heard.append(Receiver(self.secret).verify(body, dict(request.headers)))
        self.numbers.append(request.headers["webhook-id"])
        assert CANARY.encode() not in body
        self.meanwhile()
        return Response(status=self.answers.pop(0) if self.answers else 200)

    @property
    def types(self) -> list[str]:
        return [message["type"] for message in self.heard]

    def added(self, api: Api, **body: Any) -> str:
        """Add it by REST, and return the id."""
        answer = api.post("/webhooks", {"url": self.url, **body})
        assert answer.status_code == 201, answer.content
        self.secret = answer.json()["secret"]
        return str(answer.json()["id"])


@pytest.fixture
def httpserver() -> Iterator[HTTPServer]:
    with HTTPServer(threaded=True) as server:
        yield server


@pytest.fixture
def listener(httpserver: HTTPServer, settings: Any) -> Iterator[Listener]:
    settings.MAILHUB_ALLOW_LOOPBACK_HOSTS = True
    yield Listener(httpserver)
    httpserver.check()


def told() -> None:
    call_command("maintain")


def hurried() -> None:
    """Make every waiting attempt due."""
    WebhookDelivery.objects.filter(next_at__isnull=False).update(
        next_at=timezone.now() - timedelta(seconds=1)
    )


def test_webhook_reports_steps_without_content(
    api: Api, reviewer: Reviewer, listener: Listener, settings: Any
) -> None:
    listener.added(api)
    action = api.propose(subject=CANARY, body=CANARY)
    told()
    reviewer.decide(action, "approve")
    work()
    told()

    assert listener.types == ["action.proposed", "action.approved", "action.succeeded"]
    assert [message["data"]["state"] for message in listener.heard] == [
        "pending",
        "approved",
        "succeeded",
    ]
    for message, event in zip(
        listener.heard, ("created", "approved", "outcome_accepted"), strict=True
    ):
        link = AuditEvent.objects.get(event=event)
        assert message["data"].pop("audit") == {"sequence": link.sequence, "hash": link.hash}
    assert listener.heard[0]["data"] == {
        "id": action,
        "state": "pending",
        "tool": "send_email",
        "mailbox": "alice@lovelace.example",
        "review_url": f"{settings.MAILHUB_PUBLIC_URL}/actions/{action}/",
    }
    assert len(set(listener.numbers)) == 3
    told()
    assert len(listener.heard) == 3, "what was taken is not told again"


def test_unreadable_event_does_not_block_later_ones(
    api: Api, reviewer: Reviewer, listener: Listener
) -> None:
    listener.added(api)
    reviewer.decide(api.propose(), "approve")
    with guards.lifted(connection):
        AuditEvent.objects.filter(event="approved").update(data={})
    work()
    told()
    assert listener.types == ["action.proposed", "action.succeeded"]


def late(action: str) -> None:
    PendingAction.objects.filter(pk=action).update(expires_at=timezone.now() - timedelta(seconds=1))


@pytest.mark.parametrize(
    ("end", "event"),
    [
        (
            lambda action, reviewer: reviewer.decide(action, "reject", note=CANARY),
            "action.rejected",
        ),
        (
            lambda action, reviewer: reviewer.decide(action, "ask_back", note=CANARY),
            "action.changes_requested",
        ),
        (lambda action, reviewer: late(action), "action.expired"),
    ],
    ids=["rejected", "changes_requested", "expired"],
)
def test_end_without_a_send_is_reported(
    api: Api,
    reviewer: Reviewer,
    listener: Listener,
    end: Callable[[str, Reviewer], Any],
    event: str,
) -> None:
    listener.added(api)
    end(api.propose(), reviewer)
    told()
    told()  # the events that the first sweep itself has closed
    assert listener.types == ["action.proposed", event]


def refused(approved: ApprovedAction) -> Outcome:
    return Outcome(verdict="refused", code="refused", detail="No")


@pytest.mark.parametrize(
    ("instead", "event"), [(refused, "action.failed"), (handed_over, "action.unknown")]
)
def test_failed_or_doubtful_send_is_reported_as_such(
    api: Api,
    reviewer: Reviewer,
    listener: Listener,
    script: Script,
    instead: Callable[[ApprovedAction], Outcome],
    event: str,
) -> None:
    listener.added(api)
    script.instead = instead
    reviewer.decide(api.propose(), "approve")
    work()
    told()
    assert listener.types == ["action.proposed", "action.approved", event]


def test_one_approval_of_two_is_not_reported_as_approved(
    api: Api, alice: User, bob: User, mailbox: Mailbox, listener: Listener
) -> None:
    dora = User.objects.create_user("dora@lovelace.example")
    Membership.objects.create(mailbox=mailbox, user=dora, role=Role.APPROVER)
    assert set_rules(alice, mailbox, approvals_needed=2, self_approval="False").status_code == 302
    listener.added(api, events=["action.approved"])
    action = api.propose()
    Reviewer.signed_in(bob).decide(action, "approve")
    told()
    assert listener.types == []
    Reviewer.signed_in(dora).decide(action, "approve")
    told()
    assert listener.types == ["action.approved"]


def test_only_chosen_new_events_are_delivered(api: Api, listener: Listener) -> None:
    before = api.propose(subject="Before")
    listener.added(api, events=["action.proposed"])
    after = api.propose(subject="After")
    api.post(f"/actions/{before}/cancel")
    told()
    assert [message["data"]["id"] for message in listener.heard] == [after]


def test_failed_delivery_is_repeated_under_the_same_number(api: Api, listener: Listener) -> None:
    listener.added(api, events=["action.proposed"])
    listener.answers = [500, 302, 200]
    api.propose()
    for count in (1, 2, 3):
        told()
        told()  # nothing arrives before its time
        assert len(listener.heard) == count
        hurried()
    told()
    assert len(listener.heard) == 3
    assert len(set(listener.numbers)) == 1
    delivery = WebhookDelivery.objects.get()
    assert (delivery.tries, delivery.answer, delivery.next_at) == (3, "200", None)


def test_delivery_ends_after_the_last_attempt_and_can_resume(
    api: Api, alice: User, listener: Listener
) -> None:
    webhook = listener.added(api, events=["action.proposed"])
    listener.answers = [500] * (len(courier.AGAIN) + 1)
    api.propose()
    for _ in range(len(courier.AGAIN) + 3):
        told()
        hurried()
    delivery = WebhookDelivery.objects.get()
    assert (delivery.tries, delivery.next_at, delivery.delivered_at) == (
        len(courier.AGAIN) + 1,
        None,
        None,
    )

    again = browser(alice).post(f"/webhooks/{webhook}/deliveries/{delivery.pk}/again/")
    assert again.status_code == 302
    told()
    assert WebhookDelivery.objects.get().delivered_at is not None
    assert len(set(listener.numbers)) == 1


def test_endpoint_that_is_gone_gets_nothing_more(api: Api, listener: Listener) -> None:
    listener.added(api)
    listener.answers = [410]
    api.propose()
    told()
    hurried()
    api.propose(subject="Another")
    told()
    assert len(listener.heard) == 1
    (shown,) = api.get("/webhooks").json()["items"]
    assert shown["ended_at"]


def test_redirect_is_not_followed(api: Api, httpserver: HTTPServer, settings: Any) -> None:
    settings.MAILHUB_ALLOW_LOOPBACK_HOSTS = True
    httpserver.expect_request("/moved").respond_with_data(
        status=307, headers={"Location": "/inside"}
    )
    api.post("/webhooks", {"url": httpserver.url_for("/moved")})
    api.propose()
    told()
    assert [request.path for request, _ in httpserver.log] == ["/moved"]
    assert WebhookDelivery.objects.get().answer == "307"


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/hook", "https://[::1]/", "https://169.254.169.254/latest/", "https://10.0.0.1:8443/",
        "http://192.0.2.7/", "https://192.0.2.7:22/", "ftp://example.com/", "https:///x", "https://u:p@example.com/",
        "https://example.com/#x", "https://exa mple.com/", "https://example.com/\r\nX: y", "https://example.com:99999/",
        "https://8.8.8.8:22/", "https://8.8.8.8/\r\nX: y", "https://8.8.8.8/a b", "https://8.8.8.8/\u00fc",
    ],
)  # fmt: skip
def test_internal_or_invalid_address_is_refused(api: Api, settings: Any, url: str) -> None:
    settings.MAILHUB_ALLOW_LOOPBACK_HOSTS = False
    answer = api.post("/webhooks", {"url": url})
    assert answer.status_code == 422
    assert [error["field"] for error in problem_of(answer)["errors"]] == ["url"]
    assert api.get("/webhooks").json() == {"items": []}


@pytest.mark.parametrize(
    "body",
    [
        {}, [], {"url": "https://example.com", "events": []}, {"url": "https://example.com", "events": ["action.sent"]},
        {"url": "https://example.com", "more": 1},
    ],
)  # fmt: skip
def test_wrong_body_is_refused_with_the_field(api: Api, body: Any) -> None:
    assert problem_of(api.post("/webhooks", body))["code"] == "invalid_input"


def test_newly_internal_address_gets_nothing(api: Api, listener: Listener, settings: Any) -> None:
    listener.added(api)
    settings.MAILHUB_ALLOW_LOOPBACK_HOSTS = False
    api.propose()
    told()
    assert listener.heard == []
    assert WebhookDelivery.objects.get().answer == "unreachable"


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


def test_webhook_covers_only_mailboxes_bound_to_its_token(
    alice: User, mailbox: Mailbox, server: MemoryServer, listener: Listener
) -> None:
    second = make_mailbox("second@lovelace.example", server, alice)
    listener.added(make_api(alice, mailbox, name="one"), events=["action.proposed"])
    make_api(alice, second, name="two").propose()
    heard = make_api(alice, mailbox, name="three").propose()
    told()
    assert [message["data"]["id"] for message in listener.heard] == [heard]


@pytest.mark.parametrize("reason", ["left", "revoked", "expired", "deactivated"])
def test_person_who_lost_access_is_not_notified(
    bob: User, mailbox: Mailbox, api: Api, listener: Listener, reason: str
) -> None:
    listener.added(make_api(bob, mailbox, name="bobs"))
    match reason:
        case "left":
            Membership.objects.filter(user=bob).delete()
        case "revoked":
            ApiToken.objects.filter(user=bob).update(revoked_at=timezone.now())
        case "expired":
            ApiToken.objects.filter(user=bob).update(
                expires_at=timezone.now() - timedelta(seconds=1)
            )
        case "deactivated":
            User.objects.filter(pk=bob.pk).update(is_active=False)
    api.propose()
    told()
    assert listener.heard == []


def test_former_member_gets_no_waiting_delivery(
    bob: User, mailbox: Mailbox, api: Api, listener: Listener
) -> None:
    webhook = listener.added(make_api(bob, mailbox, name="bobs"), events=["action.proposed"])
    listener.answers = [500]
    api.propose()
    told()
    Membership.objects.filter(user=bob).delete()
    hurried()
    browser(bob).post(f"/webhooks/{webhook}/deliveries/{WebhookDelivery.objects.get().pk}/again/")
    told()
    assert len(listener.heard) == 1


def test_program_delivers_no_event_another_is_delivering(
    api: Api, listener: Listener, tmp_path: Path
) -> None:
    listener.added(api, events=["action.proposed"])
    first, second = api.propose(subject="First"), api.propose(subject="Second")
    asked, go_on, beside_us = threading.Event(), threading.Event(), this_test()

    def hold() -> None:
        asked.set()
        go_on.wait(60)

    listener.meanwhile = hold
    with ThreadPoolExecutor(1) as beside:
        other = beside.submit(lambda: manage(tmp_path, "maintain", stdin="", **beside_us))
        assert asked.wait(60)
        listener.meanwhile = lambda: None
        told()  # while the other waits for its answer
        go_on.set()
        assert other.result().returncode == 0, other.result().stderr
    assert sorted(message["data"]["id"] for message in listener.heard) == sorted([first, second])


def test_silent_server_delays_no_mail_and_no_other_webhook(
    api: Api, reviewer: Reviewer, httpserver: HTTPServer, listener: Listener
) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def hang(request: Request) -> Response:
        asked.set()
        go_on.wait(30)
        return Response(status=200)

    httpserver.expect_request("/slow").respond_with_handler(hang)
    api.post("/webhooks", {"url": httpserver.url_for("/slow"), "events": ["action.proposed"]})
    action = api.propose()
    try:
        maintenance.sweep()
        assert asked.wait(30)
        listener.added(api, events=["action.approved", "action.succeeded"])
        reviewer.decide(action, "approve")
        work()
        maintenance.sweep()
        until(lambda: listener.types == ["action.approved", "action.succeeded"])
        assert WebhookDelivery.objects.filter(event="action.proposed", delivered_at=None).exists()
    finally:
        go_on.set()
        courier.deliver()  # waits until the parallel deliveries have ended
    assert WebhookDelivery.objects.get(event="action.proposed").answer == "200"


def test_secrets_follow_a_rotation_of_the_keys(api: Api, listener: Listener, settings: Any) -> None:
    listener.added(api, events=["action.proposed"])
    first = settings.MAILHUB_ENCRYPTION_KEYS[0]
    settings.MAILHUB_ENCRYPTION_KEYS = ["bmV3" * 10 + "bmU=", first]
    call_command("rotate_keys", verbosity=0)
    settings.MAILHUB_ENCRYPTION_KEYS = settings.MAILHUB_ENCRYPTION_KEYS[:1]
    api.propose()
    told()
    assert listener.types == ["action.proposed"]


def test_api_documents_name_the_webhooks(api: Api) -> None:
    paths = json.loads(api.client.get("/api/v1/openapi.json").content)["paths"]
    assert set(paths["/api/v1/webhooks"]) == {"get", "post"}
    assert set(paths["/api/v1/webhooks/{webhook_id}"]) == {"delete"}


def test_webhook_is_added_shown_once_and_removed_on_a_page(
    api: Api, alice: User, charlie: User, listener: Listener, httpserver: HTTPServer
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
    assert b"Nobody is told yet" in window.get("/webhooks/").content


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
