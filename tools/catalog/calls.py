"""The only entrance to the tools: every surface calls a tool here."""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from pydantic import ValidationError

from accounts.access import rate_limits, request_log, roles
from accounts.access.audience import lacks_scope
from accounts.access.caller import Caller
from accounts.infra.problems import Problem, invalid
from tools.catalog.entries import TOOLS, AnyTool, M, MailboxTool, P, Result, Tool
from tools.schemas import IDEMPOTENCY_KEY, MailParameters, Parameters, SendingParameters
from tools.sending.answers import Proposed

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A tool's result.

    `proposal` is set if the result is a proposal, so that an adapter can answer 202 with a
    Location.
    """

    result: dict[str, Any]
    proposal: Proposed | None = None


def call_tool(
    caller: Caller, name: str, arguments: Mapping[str, Any], idempotency_key: str | None = None
) -> Answer:
    """Call a tool of the catalogue.

    1. Find the tool, and check that the caller's scopes cover it.
    2. Check the idempotency key, from beside or inside the arguments, and the parameters; an
       unknown field is an error.
    3. Find the mailbox, by the one ownership check.
    4. Run the tool.

    Raises Problem and nothing else.
    """
    started = time.monotonic()
    outcome = "error"
    result: Result | None = None
    about: dict[str, object] = {}
    try:
        tool = _tool(caller, name)
        given = _with_one_key(tool, arguments, idempotency_key)
        parameters = _parameters(tool.parameters, given)
        about = _about(parameters)
        if isinstance(tool, MailboxTool):
            result = _run_on_mailbox(tool, caller, parameters)
        else:
            result = tool.run(caller, parameters)
        outcome = "ok"
    except Problem as problem:
        outcome = problem.code
        raise
    finally:
        known, took = (
            name if name in TOOLS else "unknown",
            round((time.monotonic() - started) * 1000),
        )
        log.info(
            "tool_called",
            tool=known,
            surface=caller.surface,
            outcome=outcome,
            duration_ms=took,
            **about,
        )
        proposed = result if isinstance(result, Proposed) else None
        request_log.record(
            caller,
            tool=known,
            outcome=outcome,
            duration_ms=took,
            action_id=proposed.action_id if proposed else None,
            replayed=bool(proposed and proposed.replayed),
        )
    if isinstance(result, Proposed):
        return Answer(result=result.result, proposal=result)
    return Answer(result=result)


def tools_for(caller: Caller) -> list[Tool]:
    """Return the tools that this caller's scopes cover, in the catalogue's order."""
    return [tool for tool in TOOLS.values() if caller.may(tool.scope)]


def _tool(caller: Caller, name: str) -> AnyTool:
    tool = TOOLS.get(name)
    if tool is None:
        raise Problem("not_found", "There is no such tool.")
    if not caller.may(tool.scope):
        raise lacks_scope(caller.surface, held=caller.scopes, needed=tool.scope)
    return tool


def _about(parameters: Parameters) -> dict[str, object]:
    """Return the form of a mail for the log: counts and choices, nothing of its content."""
    if not isinstance(parameters, MailParameters):
        return {}
    given = dict(parameters)
    recipients = [given[name] for name in ("to", "cc", "bcc") if name in given]
    return {
        "recipient_count": sum(map(len, recipients)) if recipients else None,
        "body_type": given.get("body_type"),
        "importance": given.get("importance"),
        "reply_all": given.get("reply_all"),
        "has_comment": bool(given["comment"]) if "comment" in given else None,
    }


def _run_on_mailbox(tool: MailboxTool[M], caller: Caller, parameters: M) -> Result:
    is_proposal = isinstance(parameters, SendingParameters) and parameters.confirm
    if tool.effect == "send" and is_proposal:
        rate_limits.count_proposal(caller)
    mailbox = roles.get_mailbox(caller, parameters.mailbox, need=tool.need)
    return tool.run(caller, mailbox, parameters)


def _parameters(wanted: type[P], given: Mapping[str, Any]) -> P:
    try:
        return wanted.model_validate(given)
    except ValidationError as error:
        raise invalid(error) from None


def _with_one_key(tool: Tool, arguments: Mapping[str, Any], key: str | None) -> dict[str, Any]:
    given = dict(arguments)
    if "idempotency_key" in tool.parameters.model_fields:
        given["idempotency_key"] = _one_key(given.get("idempotency_key"), key)
    return given


def _one_key(inside: object, beside: str | None) -> str | None:
    """Return the key from either place. Errors are always 400, as in the header's draft standard.

    Nothing is stored.
    """
    if beside is not None and inside is not None and beside != inside:
        raise Problem(
            "invalid_input", "Header and body name different idempotency keys.", status=400
        )
    key = inside if beside is None else beside
    if key is None:
        return None
    if not isinstance(key, str) or not re.fullmatch(IDEMPOTENCY_KEY, key):
        raise Problem(
            "invalid_input",
            "An idempotency key has 1 to 255 printable ASCII characters.",
            status=400,
        )
    return key
