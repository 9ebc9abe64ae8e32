"""MCP tasks (`io.modelcontextprotocol/tasks`, SEP-2663) and URL elicitation: a proposal is a task.

The task is the action: its id is the action's id, so it survives a restart, and everything about it
is read from the action. A client that declares URL elicitation is asked to open the review page.
Its answer only says that the page was opened. The decision is the signed-in person's.
"""

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from mcp import types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp.types import HEADER_MISMATCH, MISSING_REQUIRED_CLIENT_CAPABILITY

from accounts.access.caller import Caller
from accounts.infra.problems import Problem
from approvals.core.states import Status
from approvals.gate import seen
from approvals.reports.steps import Step, steps_of
from tools.catalog.calls import call_tool

EXTENSION = "io.modelcontextprotocol/tasks"
VERSION = "2026-07-28"
POLL_MS = 5_000
REVIEW = "review"  # the key of the one request to the client
WORKING = (Status.PENDING, Status.APPROVED, Status.EXECUTING, Status.UNKNOWN)
Context = ServerRequestContext[Any, Any]


class TaskParams(types.RequestParams):
    """The parameters of `tasks/get` and `tasks/cancel`."""

    task_id: str


class UpdateParams(TaskParams):
    """The parameters of `tasks/update`; the responses are acknowledged and not read."""

    input_responses: dict[str, Any]


def declares_tasks(context: Context) -> bool:
    """Return True if the client takes a task instead of a result."""
    declared = context.session.client_capabilities
    extensions = declared.extensions if declared else None
    return context.protocol_version == VERSION and EXTENSION in (extensions or {})


def opens_urls(context: Context) -> bool:
    """Return True if the client can be asked to open a page."""
    declared = context.session.client_capabilities
    elicitation = declared.elicitation if declared else None
    return context.protocol_version == VERSION and bool(elicitation and elicitation.url)


def created(action: Mapping[str, Any], *, replayed: bool) -> dict[str, Any]:
    """Return the answer to a tool call that proposed this action, now or before: the handle of a
    task.
    """
    decides = f"A person decides at {action['review_url']}"
    return {
        "resultType": "task",
        "status": "working",
        "statusMessage": action["next"] if replayed else decides,
        **_handle(action["id"], action["created_at"], action["created_at"]),
    }


def ask_to_open(action: Mapping[str, Any]) -> types.InputRequiredResult:
    """Return the answer for a client without tasks that can open the review page now.

    The client repeats its call with the state, which leads to this action.
    """
    request = types.ElicitRequest(params=types.ElicitRequestURLParams(**_page_of(action)))
    return types.InputRequiredResult(input_requests={REVIEW: request}, request_state=action["id"])


def get_task(
    caller: Caller, task_id: str, result_of: Callable[..., types.CallToolResult], *, urls: bool
) -> dict[str, Any]:
    """Return the task of an action; raise MCPError."""
    action = _call(caller, "get_action", task_id)
    steps = steps_of(action["id"])
    updated = _moment(steps[-1]) if steps else action["created_at"]
    task = {
        "resultType": "complete",
        "statusMessage": action["next"],
        **_handle(action["id"], action["created_at"], updated),
    }
    state = Status(action["state"])
    # A person who asks for changes has answered the proposal. A task never leaves its last status,
    # whatever they do afterwards.
    asked_back = any(step.name == "action.changes_requested" for step in steps)
    if state == Status.CANCELLED and not asked_back:
        return {**task, "status": "cancelled"}
    if state not in WORKING or asked_back:
        result = result_of(action, is_error=state == Status.FAILED)
        shown = result.model_dump(mode="json", by_alias=True, exclude_none=True)
        return {**task, "status": "completed", "result": shown}
    if urls and state == Status.PENDING and not seen.was_opened(action["id"]):
        request = {"method": "elicitation/create", "params": _page_of(action)}
        return {**task, "status": "input_required", "inputRequests": {REVIEW: request}}
    return {**task, "status": "working"}


def update_task(caller: Caller, task_id: str) -> dict[str, Any]:
    """Acknowledge the responses of the client; raise MCPError for an unknown task.

    None of them changes anything: the request is outstanding until a person opens the page.
    """
    _call(caller, "get_action", task_id)
    return {}


def cancel_task(caller: Caller, task_id: str) -> dict[str, Any]:
    """Withdraw the action if it has not left; raise MCPError for an unknown task."""
    # If it is too late, the client learns from the task how it went on.
    with contextlib.suppress(Problem):
        _call(caller, "cancel_action", task_id, late=False)
    return {}


def refuse_undeclared(context: Context) -> None:
    """Raise MCPError unless the client has declared the extension in this request."""
    if context.protocol_version != VERSION:
        raise MCPError(code=types.METHOD_NOT_FOUND, message="Method not found")
    if not declares_tasks(context):
        raise MCPError(
            code=MISSING_REQUIRED_CLIENT_CAPABILITY,
            message="Missing required client capability",
            data={"requiredCapabilities": {"extensions": {EXTENSION: {}}}},
        )


async def refuse_other_name(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Pass a request on; raise MCPError if its header `Mcp-Name` is missing or names another task.

    The library compares the header of calls, prompts and resources only.
    """
    about_task = ctx.protocol_version == VERSION and ctx.method.startswith("tasks/")
    if about_task and ctx.request is not None:  # without HTTP there are no headers
        named = decode_header_value(ctx.request.headers.get(MCP_NAME_HEADER))
        if named != (ctx.params or {}).get("taskId"):
            raise MCPError(
                code=HEADER_MISMATCH,
                message=f"{MCP_NAME_HEADER} header does not match the request body's 'taskId' parameter",
            )
    return await call_next(ctx)


def _call(caller: Caller, tool: str, task_id: str, *, late: bool = True) -> Mapping[str, Any]:
    """Return the result of a tool about the task's action; raise MCPError.

    With `late=False` a Problem `conflict` passes: it is too late for the tool.
    """
    try:
        return call_tool(caller, tool, {"action_id": task_id}).result
    except Problem as problem:
        if problem.code == "conflict" and not late:
            raise
        unknown = problem.code in ("not_found", "invalid_input")
        raise MCPError(
            code=types.INVALID_PARAMS if unknown else types.INVALID_REQUEST, message=problem.detail
        ) from None


def _handle(action_id: str, created_at: str, updated_at: str) -> dict[str, Any]:
    return {
        "taskId": action_id,
        "createdAt": created_at,
        "lastUpdatedAt": updated_at,
        "ttlMs": None,
        "pollIntervalMs": POLL_MS,
    }


def _page_of(action: Mapping[str, Any]) -> dict[str, str]:
    return {
        "mode": "url",
        "message": "Open the review page. A person decides there whether it leaves.",
        "url": action["review_url"],
    }


def _moment(step: Step) -> str:
    return step.link.at.isoformat().replace("+00:00", "Z")
