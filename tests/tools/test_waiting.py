"""A program waits for news of an action: woken by the live hub, without a thread or queries."""

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from accounts.models import ApiToken, Mailbox, User
from approvals.live import hub
from approvals.live.hub import HUB
from approvals.models import AuditEvent
from tests.approvals.revisions import ask_back
from tests.conformance.served import Door
from tests.conftest import Api, Reviewer, make_api
from tests.support.processes.programs import until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def beside() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as threads:
        yield threads


def ask(url: str, secret: str, path: str, body: bytes = b"", **headers: str) -> httpx2.Response:
    headers = {"Authorization": f"Bearer {secret}", **headers}
    address = f"{url}/api/v1/actions/{path}"
    return httpx2.request("GET", address, headers=headers, content=body or None, timeout=80)


def call(url: str, secret: str, **arguments: Any) -> httpx2.Response:
    headers = {"Authorization": f"Bearer {secret}"}
    address = f"{url}/api/v1/tools/get_action"
    return httpx2.post(address, headers=headers, json=arguments, timeout=80)


def waiting(number: int = 1) -> None:
    """Return once so many programs wait."""
    until(lambda: sum(len(each) for each in HUB._waiters.values()) == number)


def test_decision_wakes_the_waiting_program(
    url: str, api: Api, reviewer: Reviewer, beside: ThreadPoolExecutor
) -> None:
    action = api.propose()
    answer = beside.submit(ask, url, api.secret, f"{action}?wait=60")
    waiting()
    reviewer.decide(action, "reject", note="Too early")
    told = answer.result(30)
    assert (told.status_code, told.json()["state"]) == (200, "rejected")
    assert told.json()["review"]["note"] == "Too early"
    assert "preference-applied" not in told.headers


def test_preference_is_applied_and_named(
    url: str, api: Api, reviewer: Reviewer, beside: ThreadPoolExecutor
) -> None:
    action = api.propose()
    answer = beside.submit(ask, url, api.secret, action, Prefer="respond-async, wait=3600")
    waiting()
    reviewer.decide(action, "reject")
    assert answer.result(30).headers["preference-applied"] == "wait=60"


def test_tool_waits_over_rest_like_its_action(
    url: str, api: Api, reviewer: Reviewer, beside: ThreadPoolExecutor
) -> None:
    """A program that calls each tool by its name would otherwise ask again and again."""
    action = api.propose()
    for wrong in ({"wait": 61}, {"wait": "5"}, {"wait": True}, {"wait": 5, "action_id": 7}):
        assert call(url, api.secret, **{"action_id": action, **wrong}).status_code == 422
    unknown = "7d444840-9dc0-11d1-b245-5ffdce74fad2"
    assert call(url, api.secret, action_id=unknown, wait=60).status_code == 404
    answers = [
        beside.submit(call, url, api.secret, wait=60, **{name: action})
        for name in ("action_id", "id")
    ]
    waiting(2)
    reviewer.decide(action, "reject", note="Too early")
    for answer in answers:
        told = answer.result(30).json()
        assert (told["state"], told["review"]["note"]) == ("rejected", "Too early")


def test_wait_ends_with_the_present_state(url: str, api: Api) -> None:
    began = time.monotonic()
    answer = ask(url, api.secret, f"{api.propose()}?wait=1")
    assert (answer.status_code, answer.json()["state"]) == (200, "pending")
    assert time.monotonic() - began >= 1


@pytest.mark.parametrize("reason", ["ended", "asked back", "unknown", "foreign", "other scope"])
def test_nothing_to_wait_for_is_answered_at_once(
    url: str,
    api: Api,
    foreign_api: Api,
    alice: User,
    mailbox: Mailbox,
    reviewer: Reviewer,
    beside: ThreadPoolExecutor,
    reason: str,
) -> None:
    action, secret, status = api.propose(), api.secret, 200
    if reason == "ended":
        reviewer.decide(action, "reject")
    elif reason == "asked back":
        ask_back(action, alice, "Shorter")
    elif reason == "unknown":
        action, status = "7d444840-9dc0-11d1-b245-5ffdce74fad2", 404
    elif reason == "foreign":
        secret, status = foreign_api.secret, 404
    else:
        secret, status = make_api(alice, mailbox, name="r", scopes=["mail:read"]).secret, 403
    answer = beside.submit(ask, url, secret, f"{action}?wait=60")
    assert answer.result(50).status_code == status  # before the end of the wait


@pytest.mark.parametrize("wait", ["61", "-1", "x", "1.5", "", "\u0661"])
def test_wrong_wait_is_refused_at_once(url: str, api: Api, wait: str) -> None:
    answer = ask(url, api.secret, f"{api.propose()}?wait={wait}")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input")


@pytest.mark.parametrize("body", [b"", b"x"])
def test_revoked_token_gets_no_answer_after_the_wait(
    url: str, api: Api, reviewer: Reviewer, beside: ThreadPoolExecutor, body: bytes
) -> None:
    """Only the secret ends: every call that takes a second notices if its program ends."""
    action = api.propose()
    answer = beside.submit(ask, url, api.secret, f"{action}?wait=60", body)
    waiting()
    ApiToken.objects.update(digest="0" * 64)
    reviewer.decide(action, "reject")
    assert answer.result(30).status_code == 401


def test_proposal_itself_wakes_nobody(
    url: str, api: Api, reviewer: Reviewer, beside: ThreadPoolExecutor
) -> None:
    # Somebody waits already, so the hub runs, and reads the second proposal while it is waited for.
    first = api.propose()
    earlier = beside.submit(ask, url, api.secret, f"{first}?wait=60")
    waiting()
    second = api.propose(subject="Another")
    later = beside.submit(ask, url, api.secret, f"{second}?wait=60")
    waiting(2)
    newest = AuditEvent.objects.order_by("-pk").values_list("pk", flat=True).first()
    until(lambda: HUB._floor == newest)
    for action in (first, second):
        reviewer.decide(action, "reject")
    assert [each.result(30).json()["state"] for each in (earlier, later)] == ["rejected"] * 2


def test_client_that_hangs_up_waits_no_more(url: str, api: Api) -> None:
    action = api.propose()
    with socket.create_connection(("127.0.0.1", httpx2.URL(url).port or 0)) as client:
        client.sendall(
            f"GET /api/v1/actions/{action}?wait=60 HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"Authorization: Bearer {api.secret}\r\n\r\n".encode()
        )
        waiting(1)
    waiting(0)


def test_client_without_asgi_is_answered_at_once(api: Api) -> None:
    answer = api.get(f"/actions/{api.propose()}?wait=60", Prefer="wait=60")
    assert answer.status_code == 200
    assert "Preference-Applied" not in answer


@pytest.mark.parametrize("revoked", [False, True])
def test_tool_waits_over_mcp_too(
    url: str, api: Api, reviewer: Reviewer, beside: ThreadPoolExecutor, revoked: bool
) -> None:
    action = api.propose()

    async def work(client: Any) -> Any:
        return await client.call_tool("get_action", {"action_id": action, "wait": 25})

    door = Door(url=url, secret=api.secret)
    answer: Future[Any] = beside.submit(door.session, work)
    waiting()
    if revoked:
        ApiToken.objects.all().delete()
    reviewer.decide(action, "reject", note="Too early")
    told = answer.result(30).content[0].text
    assert ("unauthenticated" in told) == revoked
    assert ("Too early" in told) != revoked


def test_program_beyond_the_limit_is_answered_at_once(
    url: str, api: Api, reviewer: Reviewer, beside: ThreadPoolExecutor, monkeypatch: Any
) -> None:
    monkeypatch.setattr(hub, "WAITERS_OF_PERSON", 2)
    action = api.propose()

    async def work(client: Any) -> Any:
        return await client.call_tool("get_action", {"action_id": action, "wait": 60})

    answers = [beside.submit(ask, url, api.secret, f"{action}?wait=60") for _ in range(2)]
    waiting(2)
    assert ask(url, api.secret, f"{action}?wait=60").json()["state"] == "pending"
    told = Door(url=url, secret=api.secret).session(work)
    assert '"state":"pending"' in told.content[0].text
    waiting(2)
    reviewer.decide(action, "reject")
    assert {answer.result(30).json()["state"] for answer in answers} == {"rejected"}
    assert not HUB._waiting


@pytest.mark.parametrize("by_tool", [False, True])
def test_waiting_programs_cost_no_threads_and_no_queries(
    url: str, api: Api, reviewer: Reviewer, beside: ThreadPoolExecutor, by_tool: bool
) -> None:
    action = api.propose()
    ask(url, api.secret, action)  # the server's own threads are there now
    before = threading.active_count()
    with ThreadPoolExecutor(20) as many:
        before += 20 + 4 + 1  # the clients, the few threads for questions, and the hub
        answers = [
            many.submit(call, url, api.secret, action_id=action, wait=60)
            if by_tool
            else many.submit(ask, url, api.secret, f"{action}?wait=60")
            for _ in range(20)
        ]
        waiting(20)
        assert threading.active_count() <= before
        reviewer.decide(action, "reject")
        assert {answer.result(30).json()["state"] for answer in answers} == {"rejected"}
