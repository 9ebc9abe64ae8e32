"""Nothing but the form on the review page decides: no link, no other site, no frame."""

from typing import Any

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from accounts.models import Mailbox, User
from approvals.models import Decision, PendingAction, Presence, Seen
from tests.conftest import Api, Reviewer, make_api
from tests.support.servers.memory import MemoryServer
from tests.support.work import work

pytestmark = pytest.mark.django_db(transaction=True)


def _paths(action_id: str) -> list[str]:
    """Return every address of the project that can be formed for this action."""
    found = []

    def walk(patterns: Any, prefix: str) -> None:
        for pattern in patterns:
            route = prefix + str(pattern.pattern)
            if isinstance(pattern, URLResolver):
                if not route.startswith("admin"):
                    walk(pattern.url_patterns, route)
            elif isinstance(pattern, URLPattern):
                found.append(
                    "/"
                    + route.replace("<uuid:action_id>", action_id).replace("<action_id>", action_id)
                )

    walk(get_resolver().url_patterns, "")
    return [path for path in found if "<" not in path]


@pytest.mark.fault(14)
@pytest.mark.parametrize("method", ["get", "head", "options"])
@pytest.mark.parametrize("signed_in", [True, False])
def test_get_request_changes_nothing(
    api: Api, alice: User, method: str, signed_in: bool, server: MemoryServer
) -> None:
    action_id = api.propose()
    before = PendingAction.objects.values().get()
    client = Client()
    if signed_in:
        client.force_login(alice)
    paths = _paths(action_id)
    assert f"/actions/{action_id}/approve/" in paths

    for path in paths:
        getattr(client, method)(
            path, headers={"Sec-Purpose": "prefetch", "Authorization": f"Bearer {api.secret}"}
        )
    work()

    assert PendingAction.objects.values().get() == before
    assert not Decision.objects.exists()
    assert not Seen.objects.exists()
    assert not Presence.objects.exists()
    assert server.ledger == []


@pytest.mark.fault(15)
@pytest.mark.parametrize("verdict", ["approve", "reject", "cancel", "undo"])
def test_post_without_token_or_from_another_site_fails(
    api: Api, reviewer: Reviewer, verdict: str
) -> None:
    action_id = api.propose()
    action = PendingAction.objects.get()
    fields = {"digest": action.digest, "revision": 1}

    without = reviewer.client.post(f"/actions/{action_id}/{verdict}/", fields)
    reviewer.page(action_id)
    token = reviewer.client.cookies["csrftoken"].value
    foreign = reviewer.client.post(
        f"/actions/{action_id}/{verdict}/",
        {**fields, "csrfmiddlewaretoken": token},
        headers={"Origin": "https://evil.example"},
    )

    assert (without.status_code, foreign.status_code) == (403, 403)
    action.refresh_from_db()
    assert action.status == "pending"


@pytest.mark.fault(15)
def test_only_our_own_page_can_frame_the_preview(api: Api, reviewer: Reviewer) -> None:
    action_id = api.propose(body="<p>Hello</p>", body_type="html")
    for path in (
        "/",
        f"/actions/{action_id}/",
        "/mailboxes/",
        "/sign-in/",
        "/api/v1/tools",
        "/nowhere",
        "/admin/",
    ):
        answer = reviewer.client.get(path)
        assert "frame-ancestors 'none'" in answer["Content-Security-Policy"], path
        assert answer["X-Frame-Options"] == "DENY", path

    body = reviewer.client.get(f"/actions/{action_id}/body/")

    policy = dict(
        part.strip().partition(" ")[::2] for part in body["Content-Security-Policy"].split(";")
    )
    assert policy["frame-ancestors"] == "'self'"
    assert policy["default-src"] == policy["script-src"] == policy["form-action"] == "'none'"
    assert "sandbox" in policy
    assert body["X-Frame-Options"] == "SAMEORIGIN"


def test_address_of_a_link_stands_behind_its_text(api: Api, reviewer: Reviewer) -> None:
    written = "<p><a href='https://northwind.example'>here</a> <a href='mailto:a@b.example'>a@b.example</a></p>"
    action_id = api.propose(body=written, body_type="html")
    body = reviewer.client.get(f"/actions/{action_id}/body/").content.decode()
    assert "a[href]:not([data-shown])::after" in body
    assert "content: ' (' attr(href) ')'" in body
    assert '<a href="https://northwind.example">here</a>' in body
    assert '<a data-shown href="mailto:a@b.example">' in body


def test_agent_with_the_name_of_a_person_is_called_an_agent(
    alice: User, mailbox: Mailbox, reviewer: Reviewer
) -> None:
    action_id = make_api(alice, mailbox, name="Bob").propose()
    page = reviewer.page(action_id).content.decode()
    assert "proposed by <b><bdi>Agent Bob</bdi></b>" in page
    token = reviewer.client.cookies["csrftoken"].value
    action = PendingAction.objects.get()
    item = f"{action.pk}:{action.digest}:{action.revision}"
    chosen = {"item": item, "csrfmiddlewaretoken": token}
    assert "1 mail by Agent Bob" in reviewer.client.post("/bulk/", chosen).content.decode()
