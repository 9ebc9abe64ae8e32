"""A proposal is a task of MCP (SEP-2663); its page is opened by URL elicitation. SDK's own client."""

import base64
import json
from typing import Any, Literal

import anyio
import httpx2
import pytest
from mcp import types
from mcp.client import Client
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from accounts.models import User
from approvals.models import PendingAction
from tests.approvals.revisions import ask_back, edit
from tests.conformance.served import ERAS, SECONDS, Door
from tests.conftest import HELLO, Api, Reviewer
from tests.support.work import work
from tools.surfaces.mcp_tasks import EXTENSION

HEADER_MISMATCH = -32020
pytestmark = pytest.mark.django_db(transaction=True)
PROPOSAL = {**HELLO, "confirm": True}


class Handle(types.Result):
    """The task that the server gives instead of a result."""

    result_type: Literal["task"] = "task"
    task_id: str
    status: str
    status_message: str
    created_at: str
    last_updated_at: str
    ttl_ms: int | None
    poll_interval_ms: int


class Task(types.Result):
    """The answer to tasks/get."""

    task_id: str
    status: str
    status_message: str
    last_updated_at: str
    result: dict[str, Any] | None = None
    input_requests: dict[str, Any] | None = None


class AboutTask(types.RequestParams):
    task_id: str
    input_responses: dict[str, Any] | None = None


class TaskRequest(types.Request[AboutTask, str]):
    name_param = "taskId"


class Tasks(ClientExtension):
    """The extension of the client: it keeps the handle, and does not poll."""

    identifier = EXTENSION

    def __init__(self) -> None:
        self.handles: list[Handle] = []

    def claims(self) -> Any:
        return (ResultClaim(result_type="task", model=Handle, resolve=self._keep),)

    async def _keep(self, handle: Handle, context: ClaimContext) -> types.CallToolResult:
        self.handles.append(handle)
        return types.CallToolResult(content=[])


class Program:
    """A client of the SDK, with or without the extension and URL elicitation."""

    def __init__(self, url: str, secret: str, *, tasks: bool = True, urls: bool = False) -> None:
        self._url, self._secret, self._urls = url, secret, urls
        self.tasks = Tasks() if tasks else None
        self.opened: list[str] = []

    async def _open(self, context: Any, params: Any) -> types.ElicitResult:
        self.opened.append(params.url)
        return types.ElicitResult(action="accept")

    def run(self, work: Any, *, era: str = ERAS[1]) -> Any:
        async def session() -> Any:
            refused = None
            with anyio.fail_after(SECONDS):
                headers = {"Authorization": f"Bearer {self._secret}"}
                async with (
                    httpx2.AsyncClient(headers=headers, timeout=SECONDS) as http,
                    Client(
                        streamable_http_client(f"{self._url}/mcp", http_client=http),
                        mode=era,
                        cache=None,
                        extensions=[self.tasks] if self.tasks else [],
                        elicitation_callback=self._open if self._urls else None,
                    ) as client,
                ):
                    try:
                        return await work(client)
                    except MCPError as error:  # raised outside: no group of exceptions around it
                        refused = error
            raise refused

        return anyio.run(session)

    def propose(self, **changes: Any) -> Any:
        return self.run(lambda client: client.call_tool("send_email", {**PROPOSAL, **changes}))

    def about(self, method: str, task_id: str, **more: Any) -> Any:
        params = AboutTask(task_id=task_id, **more)
        request = TaskRequest(method=f"tasks/{method}", params=params)
        model = Task if method == "get" else types.Result
        return self.run(lambda client: client.session.send_request(request, model))


def raw(
    url: str, api: Api, method: str, params: dict[str, Any], *, name: str = ""
) -> httpx2.Response:
    """Send one request as the protocol of 2026-07-28 has it."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {EXTENSION: {}}},
    }
    headers = {
        "Authorization": f"Bearer {api.secret}",
        "Mcp-Protocol-Version": "2026-07-28",
        "Mcp-Method": method,
        "Mcp-Name": name,
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    sent = {key: value for key, value in headers.items() if value}
    return httpx2.post(f"{url}/mcp", json=body, headers=sent, timeout=SECONDS)


@pytest.fixture
def program(url: str, api: Api) -> Program:
    return Program(url, api.secret)


def proposed(program: Program) -> str:
    program.propose()
    assert program.tasks is not None
    return program.tasks.handles[-1].task_id


def outcome(task: Task) -> dict[str, Any]:
    assert task.result is not None
    document: dict[str, Any] = json.loads(task.result["content"][0]["text"])
    return document


def test_proposal_is_a_task_with_the_id_of_the_action(program: Program) -> None:
    task_id = proposed(program)
    action = PendingAction.objects.get()
    assert program.tasks is not None
    (handle,) = program.tasks.handles
    assert (task_id, handle.status, handle.ttl_ms) == (str(action.pk), "working", None)
    assert f"/actions/{action.pk}/" in handle.status_message
    task = program.about("get", task_id)
    assert (task.status, task.result) == ("working", None)
    assert task.status_message.startswith("A person has not decided yet.")


def test_task_completes_with_the_receipt(program: Program, reviewer: Reviewer) -> None:
    task_id = proposed(program)
    reviewer.decide(task_id, "approve")
    assert program.about("get", task_id).status == "working"
    work()
    task = program.about("get", task_id)
    assert (task.status, outcome(task)["state"]) == ("completed", "succeeded")
    assert outcome(task)["receipt"]["recipient_count"] == 1


def test_repeated_call_gets_the_task_as_it_is_now(program: Program, reviewer: Reviewer) -> None:
    assert program.tasks is not None
    program.propose(idempotency_key="k")
    reviewer.decide(program.tasks.handles[-1].task_id, "approve")
    program.propose(idempotency_key="k")
    assert len({each.task_id for each in program.tasks.handles}) == 1
    assert program.tasks.handles[-1].status_message.startswith("A person approved it")


def test_task_completes_with_the_refusal_and_the_note(program: Program, reviewer: Reviewer) -> None:
    task_id = proposed(program)
    reviewer.decide(task_id, "reject", note="Too early")
    task = program.about("get", task_id)
    assert (task.status, outcome(task)["review"]["note"]) == ("completed", "Too early")


def test_request_for_changes_completes_the_task_for_good(program: Program, alice: User) -> None:
    task_id = proposed(program)
    ask_back(task_id, alice, "Shorter")
    assert outcome(program.about("get", task_id))["review"]["note"] == "Shorter"
    edit(task_id, alice, subject="Better")
    assert program.about("get", task_id).status == "completed"
    program.about("cancel", task_id)
    assert PendingAction.objects.get().status == "cancelled"
    assert program.about("get", task_id).status == "completed"


def test_cancelled_task_is_withdrawn(program: Program, reviewer: Reviewer) -> None:
    task_id = proposed(program)
    program.about("cancel", task_id)
    assert program.about("get", task_id).status == "cancelled"
    assert PendingAction.objects.get().status == "cancelled"
    late = proposed(program)
    reviewer.decide(late, "approve")
    work()
    program.about("cancel", late)
    assert program.about("get", late).status == "completed"


@pytest.mark.parametrize("method", ["get", "update", "cancel"])
def test_unknown_task_is_an_error(
    program: Program, foreign_api: Api, api: Api, method: str
) -> None:
    for task_id in ("7d444840-9dc0-11d1-b245-5ffdce74fad2", foreign_api.propose(), "no id"):
        more: dict[str, Any] = {"input_responses": {}} if method == "update" else {}
        with pytest.raises(MCPError) as refused:
            program.about(method, task_id, **more)
        assert refused.value.error.code == types.INVALID_PARAMS


def test_client_without_the_extension_gets_results_and_no_tasks(url: str, api: Api) -> None:
    plain = Program(url, api.secret, tasks=False)
    result = plain.propose()
    assert json.loads(result.content[0].text)["status"] == "pending"
    with pytest.raises(MCPError) as refused:
        plain.about("get", str(PendingAction.objects.get().pk))
    assert refused.value.error.code == -32021
    assert refused.value.error.data == {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
def test_older_protocol_has_no_tasks(url: str, api: Api, version: str) -> None:
    door = Door(url=url, secret=api.secret)

    def send(method: str, params: dict[str, Any]) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        headers = {"MCP-Protocol-Version": version} if method != "initialize" else {}
        return door.raw(body=body, **headers).json()

    client = {"clientInfo": {"name": "x", "version": "1"}, "capabilities": {"tasks": {}}}
    start = send("initialize", {"protocolVersion": version, **client})["result"]
    assert (start["protocolVersion"], "tasks" in start["capabilities"]) == (version, False)
    call = {"name": "send_email", "arguments": PROPOSAL, "task": {}}
    result = send("tools/call", call)["result"]
    assert json.loads(result["content"][0]["text"])["status"] == "pending"
    task_id = str(PendingAction.objects.get().pk)
    for method in ("get", "result", "cancel", "list"):
        error = send(f"tasks/{method}", {"taskId": task_id})["error"]
        assert error["code"] == types.METHOD_NOT_FOUND
    assert PendingAction.objects.get().status == "pending"


def test_task_asks_to_open_the_page_until_a_person_has(
    url: str, api: Api, reviewer: Reviewer
) -> None:
    program = Program(url, api.secret, urls=True)
    task_id = proposed(program)
    assert program.opened == [], "the task asks, not the call"
    task = program.about("get", task_id)
    assert task.status == "input_required"
    (request,) = (task.input_requests or {}).values()
    assert (request["method"], request["params"]["mode"]) == ("elicitation/create", "url")
    assert request["params"]["url"].endswith(f"/actions/{task_id}/")

    program.about("update", task_id, input_responses={"review": {"action": "accept"}})
    assert PendingAction.objects.get().status == "pending", "opening is no decision"
    page = reviewer.page(task_id)
    token = reviewer.client.cookies["csrftoken"].value
    reviewer.client.post(
        f"/actions/{task_id}/presence/", {"revision": 1, "csrfmiddlewaretoken": token}
    )
    assert page.status_code == 200
    assert program.about("get", task_id).status == "working"


def test_client_without_tasks_opens_the_page_at_once(url: str, api: Api) -> None:
    program = Program(url, api.secret, tasks=False, urls=True)
    result = json.loads(program.propose().content[0].text)
    action = PendingAction.objects.get()
    assert result["action"]["id"] == str(action.pk)
    assert "first_time_recipient" in [each["code"] for each in result["warnings"]]
    assert [address.rstrip("/").rpartition("/")[2] for address in program.opened] == [
        str(action.pk)
    ]
    assert action.status == "pending", "opening is no decision"


@pytest.mark.parametrize(
    ("method", "key"),
    [
        ("tools/call", "name"),
        ("resources/read", "uri"),
        ("tasks/get", "taskId"),
        ("tasks/update", "taskId"),
        ("tasks/cancel", "taskId"),
    ],
)
def test_header_that_names_something_else_is_refused(
    url: str, api: Api, method: str, key: str
) -> None:
    own, other = api.propose(), api.propose(subject="Another")
    said = {"name": "list_mailboxes", "uri": "ui://mailhub/proposal"}.get(key, own)
    params = {key: said, "inputResponses": {}}
    for name in (other, "", f"=?base64?{base64.b64encode(other.encode()).decode()}?="):
        answer = raw(url, api, method, params, name=name)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, HEADER_MISMATCH)
    assert set(PendingAction.objects.values_list("status", flat=True)) == {"pending"}
    for name in (said, f"=?base64?{base64.b64encode(said.encode()).decode()}?="):
        assert "result" in raw(url, api, method, params, name=name).json()


def test_state_of_another_round_leads_to_own_actions_only(
    url: str, api: Api, foreign_api: Api
) -> None:
    result = raw(
        url,
        api,
        "tools/call",
        {
            "name": "send_email",
            "arguments": PROPOSAL,
            "requestState": foreign_api.propose(),
            "inputResponses": {"review": {"action": "accept"}},
        },
        name="send_email",
    ).json()["result"]
    assert (result["isError"], "not_found" in result["content"][0]["text"]) == (True, True)
    assert PendingAction.objects.count() == 1, "nothing was proposed"


def test_server_advertises_the_extension(url: str, api: Api) -> None:
    capabilities = raw(url, api, "server/discover", {}).json()["result"]["capabilities"]
    assert capabilities["extensions"] == {EXTENSION: {}, "io.modelcontextprotocol/ui": {}}
