"""MCP tasks of 2025-11-25: a client asks for one with `task` in a tool call. The task is the action.

There are no notifications, because they need a stream. There is no `tasks/list`: `list_actions` has
the same rows.
"""

from collections.abc import Callable, Mapping
from typing import Any

from mcp import types
from mcp.server.context import CallNext, HandlerResult
from mcp.shared.exceptions import MCPError

from accounts.access.caller import Caller
from accounts.infra.problems import Problem
from approvals.core.states import Status
from tools.catalog.calls import call_tool
from tools.catalog.entries import TOOLS, Tool
from tools.surfaces import mcp_tasks
from tools.surfaces.mcp_tasks import Context, Progress, progress_of

VERSION = "2025-11-25"
# `tools/list` says which tools run as tasks. Only an address that names this toolset gets that,
# because each byte of the usual list costs every model.
TOOLSET = "tasks"
TOOLSET_OF_PROPOSALS = "send"
CAPABILITY: dict[str, Any] = {"cancel": {}, "requests": {"tools": {"call": {}}}}
RELATED = "io.modelcontextprotocol/related-task"
# The official clients give up after 60.
RESULT_SECONDS = 55


def is_asked(context: Context) -> bool:
    """Return True for a tool call that asks for a task."""
    params = context.params or {}
    return (
        context.protocol_version == VERSION
        and context.method == "tools/call"
        and params.get("task") is not None
    )


async def declare(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Pass a request on, and add the capability to the answer to a handshake of this version."""
    result = await call_next(ctx)
    if ctx.method != "initialize" or not isinstance(result, Mapping):
        return result
    if result.get("protocolVersion") != VERSION:
        return result
    return {**result, "capabilities": {**result["capabilities"], "tasks": CAPABILITY}}


def with_support(described: types.Tool, tool: Tool) -> types.Tool:
    """Return the description of a tool, which says so if the tool runs as a task."""
    if tool.toolset != TOOLSET_OF_PROPOSALS:
        return described
    support = types.ToolExecution(task_support="optional")
    return described.model_copy(update={"execution": support})


def create_task(caller: Caller, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Propose, and return the task; raise MCPError if nothing was proposed."""
    tool = TOOLS.get(name)
    if tool is None or tool.toolset != TOOLSET_OF_PROPOSALS:
        raise MCPError(code=types.METHOD_NOT_FOUND, message="This tool does not run as a task.")
    if arguments.get("confirm") is not True:
        message = "Only a proposal is a task. Set confirm to true, or call the tool without a task."
        raise MCPError(code=types.INVALID_PARAMS, message=message)
    try:
        proposal = call_tool(caller, name, arguments).proposal
    except Problem as problem:
        raise MCPError(
            code=types.INVALID_PARAMS, message=problem.detail, data=problem.as_dict()
        ) from None
    assert proposal is not None
    return {"task": _task(progress_of(caller, proposal.action_id))}


def get_task(caller: Caller, task_id: str) -> dict[str, Any]:
    """Return the task of an action; raise MCPError."""
    return _task(progress_of(caller, task_id))


def get_result(
    caller: Callable[[], Caller], task_id: str, result_of: Callable[..., types.CallToolResult]
) -> dict[str, Any] | None:
    """Return the answer of `get_action` if the task has ended, otherwise None; raise MCPError."""
    progress = progress_of(caller(), task_id)
    if progress.status == "working":
        return None
    ended_badly = progress.action["state"] in (Status.FAILED, Status.CANCELLED)
    result = result_of(progress.action, is_error=ended_badly)
    shown = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {**shown, "_meta": {RELATED: {"taskId": progress.action["id"]}}}


def cancel_task(caller: Caller, task_id: str) -> dict[str, Any]:
    """Withdraw the action, and return its task; raise MCPError if it has ended or is leaving."""
    progress = progress_of(caller, task_id)
    if progress.status != "working":
        message = f"The task cannot be cancelled: it is {progress.status}."
        raise MCPError(code=types.INVALID_PARAMS, message=message)
    mcp_tasks.call(caller, "cancel_action", task_id)
    return get_task(caller, task_id)


def _task(progress: Progress) -> dict[str, Any]:
    action = progress.action
    failed = action["state"] == Status.FAILED
    return {
        "taskId": action["id"],
        "status": "failed" if failed else progress.status,
        "statusMessage": action["next"],
        "createdAt": action["created_at"],
        "lastUpdatedAt": progress.updated_at,
        "ttl": None,
        "pollInterval": mcp_tasks.POLL_MS,
    }
