"""A client of MCP 2025-11-25 that asks for tasks gets them. Its requests are sent as they are."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from approvals.models import PendingAction
from mailhub.asgi import application
from tests.conformance.served import SECONDS, Door, served
from tests.conftest import HELLO, Api, Reviewer
from tests.support.processes.programs import until
from tests.support.work import work
from tools.surfaces import mcp_tasks_2025

pytestmark = pytest.mark.django_db(transaction=True)
ERA = "2025-11-25"
INVALID_PARAMS, METHOD_NOT_FOUND, REQUEST_TIMEOUT = -32602, -32601, -32001
PROPOSAL = {"name": "send_email", "arguments": {**HELLO, "confirm": True}, "task": {}}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(application) as address:
        yield address


@pytest.fixture
def door(url: str, api: Api) -> Door:
    return Door(url=url, secret=api.secret, era=ERA)


def send(
    door: Door, method: str, params: Any = None, *, query: str = "", era: str = ERA
) -> dict[str, Any]:
    """Return the answer to one request: `result` or `error`."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
    headers = {"MCP-Protocol-Version": era} if era else {}
    found: dict[str, Any] = door.raw(path=f"/mcp{query}", body=body, **headers).json()
    return found


def about(door: Door, method: str, task_id: str) -> Any:
    answer = send(door, f"tasks/{method}", {"taskId": task_id})
    return answer.get("result") or answer["error"]


def proposed(door: Door) -> str:
    return str(send(door, "tools/call", PROPOSAL)["result"]["task"]["taskId"])


def test_call_with_task_gets_the_task_of_the_action(door: Door) -> None:
    task = send(door, "tools/call", PROPOSAL)["result"]["task"]
    action = PendingAction.objects.get()
    assert task == about(door, "get", str(action.pk))
    assert (task["taskId"], task["status"], task["ttl"]) == (str(action.pk), "working", None)
    assert task["statusMessage"].startswith("A person has not decided yet.")
    assert task["pollInterval"] > 0


@pytest.mark.parametrize("verdict", ["approve", "reject"])
def test_result_waits_for_the_decision(door: Door, reviewer: Reviewer, verdict: str) -> None:
    task_id = proposed(door)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(about, door, "result", task_id)
        until(lambda: waiting.running())
        reviewer.decide(task_id, verdict, note="Not today.")
        work()
        result = waiting.result(SECONDS)
    action = json.loads(result["content"][0]["text"])
    assert result["_meta"] == {"io.modelcontextprotocol/related-task": {"taskId": task_id}}
    assert action["state"] == ("succeeded" if verdict == "approve" else "rejected")
    assert result["isError"] is False
    assert action["review"].get("note") == (None if verdict == "approve" else "Not today.")
    assert about(door, "get", task_id)["status"] == "completed"


@pytest.mark.long
@pytest.mark.timeout(180)
def test_result_is_refused_after_a_minute(door: Door) -> None:
    params = {"taskId": proposed(door)}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tasks/result", "params": params}
    headers = {"Authorization": f"Bearer {door.secret}", "MCP-Protocol-Version": ERA}
    began = time.monotonic()
    answer = httpx2.post(f"{door.url}/mcp", json=body, headers=headers, timeout=90)
    assert answer.json()["error"]["code"] == REQUEST_TIMEOUT
    assert 50 < time.monotonic() - began < 60
    assert PendingAction.objects.get().status == "pending"


def test_cancelled_task_is_withdrawn(door: Door) -> None:
    task_id = proposed(door)
    assert about(door, "cancel", task_id)["status"] == "cancelled"
    assert PendingAction.objects.get().status == "cancelled"
    assert about(door, "cancel", task_id)["code"] == INVALID_PARAMS
    assert about(door, "result", task_id)["isError"] is True


@pytest.mark.parametrize("method", ["get", "result", "cancel"])
def test_unknown_task_is_an_error(door: Door, foreign_api: Api, method: str) -> None:
    for task_id in ("7d444840-9dc0-11d1-b245-5ffdce74fad2", foreign_api.propose(), "no id"):
        assert about(door, method, task_id)["code"] == INVALID_PARAMS


def test_call_that_proposes_nothing_is_an_error(door: Door, api: Api) -> None:
    reading = {"name": "list_emails", "arguments": {}, "task": {}}
    assert send(door, "tools/call", reading)["error"]["code"] == METHOD_NOT_FOUND
    preview = {**PROPOSAL, "arguments": HELLO}
    assert send(door, "tools/call", preview)["error"]["code"] == INVALID_PARAMS
    wrong = {**PROPOSAL, "arguments": {**HELLO, "confirm": True, "colour": 1}}
    error = send(door, "tools/call", wrong)["error"]
    assert (error["code"], error["data"]["errors"][0]["field"]) == (INVALID_PARAMS, "colour")
    assert PendingAction.objects.count() == 0


def test_capability_is_declared_for_this_version_only(door: Door) -> None:
    for era, declared in ((ERA, True), ("2025-06-18", False)):
        start = {
            "protocolVersion": era,
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"},
        }
        capabilities = send(door, "initialize", start, era="")["result"]["capabilities"]
        assert ("tasks" in capabilities) is declared
    assert mcp_tasks_2025.CAPABILITY == {"cancel": {}, "requests": {"tools": {"call": {}}}}


def test_other_versions_ignore_the_wish_for_a_task(door: Door) -> None:
    answer = send(door, "tools/call", PROPOSAL, era="2025-06-18")
    assert json.loads(answer["result"]["content"][0]["text"])["status"] == "pending"
    task_id = str(PendingAction.objects.get().pk)
    for method in ("get", "result", "cancel"):
        answer = send(door, f"tasks/{method}", {"taskId": task_id}, era="2025-06-18")
        assert answer["error"]["code"] == METHOD_NOT_FOUND


def test_list_says_which_tools_run_as_tasks_if_asked(door: Door) -> None:
    for query, listed in (("?toolsets=mail,send,tasks", 4), ("", 0)):
        tools = send(door, "tools/list", query=query)["result"]["tools"]
        support = {tool["name"]: tool["execution"] for tool in tools if "execution" in tool}
        assert len(support) == listed
        assert set(map(str, support.values())) <= {"{'taskSupport': 'optional'}"}
