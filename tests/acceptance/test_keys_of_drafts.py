"""The same key and request write one draft, keep one file, and make one webhook."""

import hashlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.utils import timezone

from accounts.access import keyed_calls
from accounts.models import KeyedCall, Mailbox, User
from tests.conftest import HELLO, Api, make_api, make_mailbox, problem_of
from tests.support.concurrently import all_at_once
from tests.support.servers.memory import MemoryServer
from tools.models import Upload

pytestmark = pytest.mark.django_db


def upload(api: Api, key: str, content: bytes = b"plan", name: str = "plan.txt") -> Any:
    return api.client.post(
        "/api/v1/attachments",
        {"file": SimpleUploadedFile(name, content, "text/plain")},
        headers={"Authorization": f"Bearer {api.secret}", "Idempotency-Key": key},
    )


def drafts(api: Api) -> list[str]:
    return [row["id"] for row in api.tool("list_drafts").json()["drafts"]]


def test_same_key_writes_one_draft(api: Api) -> None:
    first = api.tool("create_draft", key="k", **HELLO)
    again = api.tool("create_draft", key='"k"', **HELLO)

    assert (first.status_code, again.status_code) == (200, 200)
    assert again.json() == first.json()
    assert "Idempotency-Replayed" not in first
    assert again["Idempotency-Replayed"] == "true"
    assert drafts(api) == [first.json()["id"]]
    assert api.tool("create_draft", key="other", **HELLO).json()["id"] != first.json()["id"]


@pytest.mark.django_db(transaction=True)
def test_many_calls_at_once_write_one_draft(api: Api) -> None:
    call = lambda: Api(secret=api.secret).tool("create_draft", key="k", **HELLO)  # noqa: E731
    answers = all_at_once([call] * 8)

    assert {answer.status_code for answer in answers} <= {200, 409}
    assert len(drafts(api)) == 1


@pytest.mark.parametrize("change", [{"body": "Other"}, {"cc": ["x@northwind.example"]}])
def test_same_key_for_another_draft_is_refused(api: Api, change: dict[str, Any]) -> None:
    api.tool("create_draft", key="k", **HELLO)
    answer = api.tool("create_draft", key="k", **{**HELLO, **change})

    assert (answer.status_code, problem_of(answer)["code"]) == (422, "idempotency_mismatch")
    assert len(drafts(api)) == 1


def test_key_counts_for_one_token_mailbox_and_tool(
    api: Api, alice: User, mailbox: Mailbox, server: MemoryServer
) -> None:
    other = make_mailbox("team@lovelace.example", server, alice)
    both = make_api(alice, mailbox, other, name="second")
    calls = [
        api.tool("create_draft", key="k", **HELLO),
        both.tool("create_draft", key="k", mailbox=mailbox.address, **HELLO),
        both.tool("create_draft", key="k", mailbox=other.address, **HELLO),
    ]
    assert [call.status_code for call in calls] == [200, 200, 200]
    assert not any("Idempotency-Replayed" in call for call in calls)
    named = both.tool("create_draft", key="k", mailbox=str(other.pk), **HELLO)
    assert named["Idempotency-Replayed"] == "true"


def test_deletion_and_withdrawal_are_repeated_by_their_key(api: Api) -> None:
    draft_id = api.tool("create_draft", **HELLO).json()["id"]
    action_id = api.propose()
    for name, named in (("delete_draft", "draft_id"), ("cancel_action", "action_id")):
        arguments = {named: draft_id if named == "draft_id" else action_id}
        first, again = (api.tool(name, key="k", **arguments) for _ in range(2))
        assert (first.status_code, again.status_code) == (200, 200)
        assert again.json() == first.json()
    assert api.tool("delete_draft", draft_id=draft_id).status_code == 404


def test_foreign_draft_leads_to_one_proposal(api: Api, alice: User, mailbox: Mailbox) -> None:
    draft_id = make_api(alice, mailbox, name="second").tool("create_draft", **HELLO).json()["id"]
    first, again = (api.tool("delete_draft", key="k", draft_id=draft_id) for _ in range(2))

    assert (first.status_code, again.status_code) == (202, 202)
    assert again.json()["action"]["id"] == first.json()["action"]["id"]
    assert again["Idempotency-Replayed"] == "true"


def test_same_key_keeps_one_file(api: Api) -> None:
    first, again = upload(api, "k"), upload(api, "k")

    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    assert first.json()["sha256"] == hashlib.sha256(b"plan").hexdigest()
    assert again["Idempotency-Replayed"] == "true"
    for other in (upload(api, "k", b"another"), upload(api, "k", name="other.txt")):
        assert problem_of(other)["code"] == "idempotency_mismatch"
    assert Upload.objects.count() == 1


CALLS: dict[str, Callable[[Api, str], Any]] = {
    "draft": lambda api, key: api.tool("create_draft", key=key, **HELLO),
    "read": lambda api, key: api.tool("list_drafts", key=key),
    "upload": lambda api, key: upload(api, key),
    "withdrawal": lambda api, key: api.post("/actions/none/cancel", **{"Idempotency-Key": key}),
    "webhook": lambda api, key: api.post(
        "/webhooks", {"callbacks": True}, **{"Idempotency-Key": key}
    ),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("key", ["", "k" * 256])
def test_invalid_key_is_never_ignored(api: Api, call: Callable[..., Any], key: str) -> None:
    answer = call(api, key)
    assert (answer.status_code, problem_of(answer)["code"]) == (400, "invalid_input")
    assert not KeyedCall.objects.exists()


def test_same_key_makes_one_webhook_with_its_secret(api: Api) -> None:
    first, again = (CALLS["webhook"](api, "k") for _ in range(2))
    assert (first.status_code, again.json()) == (201, first.json())
    assert len(api.get("/webhooks").json()["items"]) == 1
    (kept,) = KeyedCall.objects.values_list("answer", flat=True)
    assert first.json()["secret"].encode() not in bytes(kept)


def test_refused_call_leaves_its_key_free(api: Api) -> None:
    assert api.tool("create_draft", key="k", **HELLO, in_reply_to="none").status_code == 404
    assert api.tool("create_draft", key="k", **HELLO).status_code == 200


def test_key_of_a_lost_answer_is_not_used_again(api: Api, server: MemoryServer) -> None:
    server.loses_answers = True
    assert api.tool("create_draft", key="k", **HELLO).status_code == 503

    server.loses_answers = False
    answer = api.tool("create_draft", key="k", **HELLO)
    assert (answer.status_code, problem_of(answer)["code"]) == (409, "conflict")
    assert api.tool("create_draft", key="new", **HELLO).status_code == 200


def test_mailbox_that_is_down_leaves_the_key_free(api: Api, server: MemoryServer) -> None:
    server.reachable = False
    assert api.tool("create_draft", key="k", **HELLO).status_code == 503
    server.reachable = True
    assert api.tool("create_draft", key="k", **HELLO).status_code == 200


def test_key_is_forgotten_after_a_day(api: Api) -> None:
    first = api.tool("create_draft", key="k", **HELLO)
    KeyedCall.objects.update(created_at=timezone.now() - timedelta(hours=25))
    assert api.tool("create_draft", key="k", **HELLO).json()["id"] != first.json()["id"]
    KeyedCall.objects.update(created_at=timezone.now() - timedelta(hours=25))
    keyed_calls.forget_old()
    assert not KeyedCall.objects.exists()
