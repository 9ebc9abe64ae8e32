"""Other people's objects look as if they did not exist; private content is not in logs, and not in
plain text in the database.
"""

import json
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core import serializers

from accounts.infra import credentials
from accounts.models import ApiToken, Mailbox, Membership, Role, SignInLink, User
from approvals.models import AuditEvent, Heartbeat, PendingAction
from tests.conftest import Api, Reviewer, make_api, problem_of
from tests.support.logged import logged
from tests.support.servers.memory import MemoryServer
from tests.support.work import work

__all__ = ["logged"]
pytestmark = pytest.mark.django_db(transaction=True)
HOUR = timedelta(hours=1)
UNKNOWN = "7d444840-9dc0-11d1-b245-5ffdce74fad2"


@pytest.mark.fault(57)
def test_foreign_action_looks_like_an_unknown_one(api: Api, foreign_api: Api) -> None:
    action_id = api.propose()

    for path in ("/actions/{}", "/mailboxes/{}"):
        own = (
            action_id
            if "actions" in path
            else str(Mailbox.objects.get(address="alice@lovelace.example").id)
        )
        foreign, unknown = foreign_api.get(path.format(own)), foreign_api.get(path.format(UNKNOWN))
        assert (foreign.status_code, unknown.status_code) == (404, 404)
        assert _without_instance(foreign) == _without_instance(unknown)
    cancelled, missing = (
        foreign_api.post(f"/actions/{one}/cancel") for one in (action_id, UNKNOWN)
    )
    assert (cancelled.status_code, missing.status_code) == (404, 404)
    assert _without_instance(cancelled) == _without_instance(missing)
    assert PendingAction.objects.get().status == "pending"


def _without_instance(answer: Any) -> dict[str, Any]:
    return {name: value for name, value in problem_of(answer).items() if name != "instance"}


@pytest.mark.fault(57)
@pytest.mark.parametrize("verb", ["", "body/", "approve/", "reject/", "cancel/", "undo/"])
def test_foreign_page_looks_like_an_unknown_one(
    api: Api, foreign_mailbox: Mailbox, charlie: User, verb: str
) -> None:
    action_id = api.propose(body="<p>Hello</p>", body_type="html")
    reviewer = Reviewer.signed_in(charlie)
    reviewer.client.get("/")
    method = reviewer.client.get if verb in ("", "body/") else reviewer.client.post
    token = reviewer.client.cookies["csrftoken"].value

    answers = [
        method(f"/actions/{one}/{verb}", {"csrfmiddlewaretoken": token})
        for one in (action_id, UNKNOWN)
    ]

    assert [answer.status_code for answer in answers] == [404, 404]
    assert answers[0].content == answers[1].content
    assert PendingAction.objects.get().status == "pending"


@pytest.mark.fault(57)
def test_foreign_mailbox_looks_like_an_unknown_one(foreign_api: Api, mailbox: Mailbox) -> None:
    for tool, arguments in (
        ("list_emails", {}),
        ("read_email", {"message_id": "inbox:0"}),
        ("send_email", {"to": ["a@b.example"], "subject": "s", "body": "b", "confirm": True}),
    ):
        answers = [
            foreign_api.tool(tool, mailbox=ref, **arguments)
            for ref in (mailbox.address, str(mailbox.id), "nobody@nowhere.example", UNKNOWN)
        ]
        assert {answer.status_code for answer in answers} == {404}
        assert len({json.dumps(_without_instance(answer)) for answer in answers}) == 1


def test_token_sees_only_its_own_mailboxes_and_actions(
    api: Api, alice: User, mailbox: Mailbox
) -> None:
    action_id = api.propose()
    other = make_api(alice, mailbox, name="another agent")

    assert other.get(f"/actions/{action_id}").status_code == 404
    assert other.get("/actions").json() == {"items": []}
    assert [row["id"] for row in api.get("/actions").json()["items"]] == [action_id]
    assert [row["address"] for row in api.tool("list_mailboxes").json()["mailboxes"]] == [
        "alice@lovelace.example"
    ]


@pytest.mark.parametrize(
    ("tool", "arguments", "scopes"),
    [
        ("list_emails", {}, ["mail:propose", "mail:draft"]),
        (
            "send_email",
            {"to": ["a@b.example"], "subject": "s", "body": "b"},
            ["mail:read", "mail:draft"],
        ),
        ("get_action", {"action_id": UNKNOWN}, ["mail:read"]),
    ],
)
def test_token_without_the_scope_is_forbidden(
    alice: User, mailbox: Mailbox, tool: str, arguments: dict[str, Any], scopes: list[str]
) -> None:
    answer = make_api(alice, mailbox, scopes=scopes).tool(tool, **arguments)

    assert (answer.status_code, problem_of(answer)["code"]) == (403, "forbidden")


@pytest.mark.parametrize(("role", "allowed"), [(Role.VIEWER, False), (Role.PROPOSER, True)])
def test_viewer_cannot_propose(charlie: User, mailbox: Mailbox, role: Role, allowed: bool) -> None:
    Membership.objects.create(mailbox=mailbox, user=charlie, role=role)
    answer = make_api(charlie, mailbox).tool(
        "send_email", to=["a@b.example"], subject="s", body="b", confirm=True
    )
    assert answer.status_code == (202 if allowed else 403)


@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Bearer mh_nonsense"}, {"X-API-Key": "nope"}]
)
def test_api_needs_a_token_even_from_a_signed_in_person(
    reviewer: Reviewer, headers: dict[str, str]
) -> None:
    answer = reviewer.client.get("/api/v1/tools", headers=headers)

    assert (answer.status_code, problem_of(answer)["code"]) == (401, "unauthenticated")
    assert answer["WWW-Authenticate"].startswith("Bearer ")
    assert "/.well-known/oauth-protected-resource" in answer["WWW-Authenticate"]


CANARIES: dict[str, Any] = {
    "to": ["canary-address@northwind.example"],
    "subject": "canary-subject",
    "body": "canary-body",
}


@pytest.mark.fault(56)
@pytest.mark.parametrize("weather", ["fine", "unreachable", "raising"])
def test_no_content_reaches_log_audit_or_error_page(
    api: Api,
    reviewer: Reviewer,
    alice: User,
    server: MemoryServer,
    logged: StringIO,
    weather: str,
    settings: Any,
) -> None:
    secret = SignInLink.issue(user=alice, lifetime=HOUR)
    action_id = api.propose(**CANARIES)
    reviewer.client.get(f"/sign-in/{secret}/")
    refused = api.tool("send_email", **{**CANARIES, "to": ["canary-address"], "confirm": True})
    server.reachable = weather != "unreachable"
    if weather == "raising":
        server.folders = None  # type: ignore[assignment]  # whatever a provider raises
    reviewer.decide(action_id, "approve")
    work()
    api.client.raise_request_exception = False
    failed = api.tool("list_emails")
    reviewer.decide(action_id, "approve", digest="0" * 64)

    said = logged.getvalue()
    assert action_id in said
    assert "canary" not in said
    assert secret not in said
    assert api.secret not in said
    assert "canary" not in serializers.serialize(
        "json", [*AuditEvent.objects.all(), *Heartbeat.objects.all()]
    )
    assert b"canary" not in refused.content + failed.content


@pytest.mark.fault(58)
def test_database_holds_no_usable_secret(api: Api, mailbox: Mailbox, alice: User) -> None:
    secret = SignInLink.issue(user=alice, lifetime=HOUR)
    dump = serializers.serialize(
        "json", [*ApiToken.objects.all(), *SignInLink.objects.all(), *Mailbox.objects.all()]
    )
    assert api.secret not in dump
    assert api.secret.removeprefix("mh_")[:12] not in dump
    assert secret not in dump

    other = Mailbox.objects.create(
        address="other@lovelace.example", provider="memory", credentials=bytes(mailbox.credentials)
    )
    with pytest.raises(credentials.CannotDecrypt):
        credentials.decrypt(bytes(other.credentials), mailbox_id=other.id)
    assert "server" in credentials.decrypt(bytes(mailbox.credentials), mailbox_id=mailbox.id)
