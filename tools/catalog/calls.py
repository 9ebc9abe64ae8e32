"""The only entrance to the tools: every surface calls a tool here."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import UUID

import structlog
from pydantic import ValidationError

from accounts.access import keyed_calls, rate_limits, request_log, roles
from accounts.access.audience import lacks_scope
from accounts.access.auth import find_again
from accounts.access.caller import Caller
from accounts.access.provider_calls import limit_waiting
from accounts.infra.json_bodies import check_texts
from accounts.infra.nearest import find_nearest
from accounts.infra.problems import Problem, invalid
from accounts.infra.texts import join, translatable
from accounts.models import Mailbox, Role
from tools.catalog.arguments import fold_name, names_given, rename, understand
from tools.catalog.entries import TOOLS, AnyTool, MailboxTool, Result, Tool
from tools.catalog.servers import ServerTool, find_tool, server_tools
from tools.catalog.synonyms import (
    GIVEN_BY,
    NOT_OFFERED,
    NOT_OFFERED_SAYS,
    NOT_TAKEN,
    NOT_TAKEN_OF_ANSWERS,
)
from tools.catalog.tool_schema import plain_members
from tools.schemas import MOST_NAMES, MailParameters, Parameters, SendingParameters
from tools.sending.answers import Proposed, find_proposed, shows_mail

log = structlog.get_logger(__name__)

# In the place of the addresses, for a caller who may not see those of a mail.
NOT_TO_THEM = translatable("The rules of this mailbox do not let this mail go to its recipients.")
NEAR_TOOL = 0.8  # a name as near as `move_email` to `send_email` means something else

MODELS = frozenset({"mcp", "agent"})  # surfaces of models, which read no document


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A tool's result.

    `proposal` is set if the result is a proposal, so that an adapter can answer 202 with a
    Location. `replayed`: the idempotency key had led to this result before.
    """

    result: Mapping[str, Any]
    proposal: Proposed | None = None
    replayed: bool = False


def call_tool(
    caller: Caller, name: str, arguments: Mapping[str, Any], idempotency_key: str | None = None
) -> Answer:
    """Call a tool of the catalogue.

    1. Look the caller up again if it was not found just now. Find the tool, and check that the
       caller's scopes cover it.
    2. Read the arguments: a model may use other names and forms, a program only other names; those
       for another server stay as they are. Check
       the letters of all texts, the idempotency key, from beside or inside the arguments, and
       the parameters; an unknown field is an error.
    3. Find the mailbox, by the one ownership check.
    4. Run the tool.

    Raises Problem and nothing else.
    """
    started = time.monotonic()
    outcome = "error"
    result: Result | None = None
    replayed = False
    about: dict[str, object] = {}
    parameters: Parameters | None = None
    try:
        caller = find_again(caller)
        tool = _tool(caller, name)
        _check(arguments)
        given = _with_one_key(tool, _read(caller, tool, arguments), idempotency_key)
        parameters = _parameters(tool, given, arguments)
        about = _about(parameters)
        result, replayed = _run(tool, caller, parameters, idempotency_key)
        outcome = "ok"
    except Problem as problem:
        outcome = problem.code
        raise _say_where(problem, parameters) from None
    finally:
        known, took = (
            name if find_tool(caller, name) else "unknown",
            round((time.monotonic() - started) * 1000),
        )
        proposed = result if isinstance(result, Proposed) else None
        log.info(
            "tool_called",
            tool=known,
            surface=caller.surface,
            outcome=outcome,
            duration_ms=took,
            action=str(proposed.action_id) if proposed else None,
            **about,
        )
        request_log.record(
            caller,
            tool=known,
            outcome=outcome,
            duration_ms=took,
            action_id=proposed.action_id if proposed else None,
            replayed=replayed or bool(proposed and proposed.replayed),
        )
    if isinstance(result, Proposed):
        return Answer(result=result.result, proposal=result, replayed=replayed or result.replayed)
    return Answer(result=result, replayed=replayed)


def mailbox_of(caller: Caller, name: str, arguments: Mapping[str, Any]) -> UUID | None:
    """Return the id of the mailbox that a call of a model is about, if the caller sees it."""
    tool = find_tool(caller, name)
    if not isinstance(tool, MailboxTool):
        return None
    try:
        _check(arguments)
        ref = _read(caller, tool, arguments).get("mailbox")
        if ref is not None and not isinstance(ref, str):
            return None
        return roles.get_mailbox(caller, ref, need=Role.VIEWER).pk
    except Problem:
        return None


def tools_for(caller: Caller) -> list[Tool]:
    """Return the tools that this caller's scopes cover, in the catalogue's order. For the chat those of
    further servers follow.
    """
    further = server_tools().values() if caller.surface == "agent" else ()
    return [tool for tool in (*TOOLS.values(), *further) if caller.may(tool.scope)]


def unknown_tool(name: str) -> Problem:
    """Return the answer to the name of no tool: what no tool does, or the nearest that exists."""
    near = find_nearest(name, TOOLS, cutoff=NEAR_TOOL)
    if near is None and NOT_OFFERED & set(fold_name(name).split("_")):
        return Problem("not_found", NOT_OFFERED_SAYS)
    if near:
        return Problem(
            "not_found",
            translatable(
                "There is no such tool. Did you mean %(near)s? GET /api/v1/tools lists all, "
                "and so does tools/list over MCP.",
                near=near,
            ),
        )
    return Problem(
        "not_found",
        "There is no such tool. GET /api/v1/tools lists all, and so does tools/list over MCP.",
    )


def _check(arguments: Mapping[str, Any]) -> None:
    check_texts(arguments)
    if len(arguments) > MOST_NAMES:  # no tool has so many, and each is looked up in all tools
        raise Problem("invalid_input", "Too many parameters: see tools/list.")


def _read(caller: Caller, tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments in our own names and forms."""
    if isinstance(tool, ServerTool):
        return tool.wrap(arguments)
    if caller.surface not in MODELS:
        return rename(tool.parameters, arguments)
    given = understand(tool.parameters, arguments)
    check_texts(given)  # a text that was JSON had others inside
    return given


def _tool(caller: Caller, name: str) -> AnyTool:
    tool = find_tool(caller, name)
    if tool is None:
        raise unknown_tool(name)
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


def _run(tool: AnyTool, caller: Caller, parameters: Any, key: str | None) -> tuple[Result, bool]:
    """Run the tool; return its result, and True if the key had led to it before.

    A read needs no key, and a tool that sends keeps its key with the action.
    """
    if not isinstance(tool, MailboxTool):
        place = ""
        run: Callable[[], Result] = partial(tool.run, caller, parameters)
    else:
        is_proposal = isinstance(parameters, SendingParameters) and parameters.confirm
        if tool.effect == "send" and is_proposal:
            rate_limits.count_proposal(caller)
        mailbox = roles.get_mailbox(caller, parameters.mailbox, need=tool.need)
        place = str(mailbox.pk)
        run = partial(_run_at_mailbox, tool, caller, mailbox, parameters)
    if key is None or tool.read_only or isinstance(parameters, SendingParameters):
        return run(), False
    asked = parameters.model_dump(mode="json", exclude={"mailbox"})
    return _run_once(tool, caller, place, key, asked, run)


def _run_at_mailbox(
    tool: MailboxTool[Any], caller: Caller, mailbox: Mailbox, parameters: Any
) -> Result:
    """Run a tool, counted meanwhile, because it may wait for the mail server."""
    try:
        with limit_waiting(caller.user.pk, mailbox.pk):
            return tool.run(caller, mailbox, parameters)
    except Problem as problem:
        by_lists = problem.code == "policy_blocked" and caller.may_propose
        if not by_lists or shows_mail(caller, tool.name):
            raise
        raise Problem(problem.code, NOT_TO_THEM) from None


def _run_once(
    tool: Tool,
    caller: Caller,
    place: str,
    key: str,
    asked: Mapping[str, Any],
    run: Callable[[], Result],
) -> tuple[Result, bool]:
    """Run the tool under its key. Of a proposal only its id is kept with the key, because its
    action changes.
    """

    def describe() -> dict[str, Any]:
        result = run()
        return {"action": result.action_id} if isinstance(result, Proposed) else {"result": result}

    kept, replayed = keyed_calls.call_once(
        caller, tool=tool.name, place=place, key=key, request=asked, run=describe
    )
    if "action" not in kept:
        return kept["result"], replayed
    return find_proposed(caller, kept["action"], replayed=replayed), replayed


def _parameters(tool: Tool, given: Mapping[str, Any], asked: Mapping[str, Any]) -> Any:
    """Return the parameters; the refusal has the names that the caller `asked` with."""
    wanted = tool.parameters
    try:
        return wanted.model_validate(given)
    except ValidationError as error:
        refused = invalid(error, wanted, hints=_hints(tool, given))
    names = names_given(wanted, asked)
    refused.errors = tuple(
        replace(each, field=".".join([names.get(first, first), *rest]))
        for each in refused.errors
        for first, *rest in [each.field.split(".")]
    )
    raise refused


def _say_where(problem: Problem, parameters: Parameters | None) -> Problem:
    """Return the refusal of an unknown id or folder, with the tool that gives it."""
    if problem.code != "not_found" or "list_" in problem.detail or parameters is None:
        return problem
    named = [name for name in GIVEN_BY if name in parameters.model_fields_set]
    if not named:
        return problem
    said = translatable("%(tool)s gives %(name)s.", tool=GIVEN_BY[named[0]], name=named[0])
    return Problem(problem.code, join(problem.detail, said), status=problem.status)


def _hints(tool: Tool, given: Mapping[str, Any]) -> dict[str, str]:
    """Return what to do about unknown and missing parameters, by their names as they were given."""
    members = plain_members(tool.parameters)
    strange = {name: fold_name(name) for name in given if name not in members}
    answers = NOT_TAKEN_OF_ANSWERS if "comment" in members else {}
    found = {name: answers.get(each) or NOT_TAKEN.get(each) for name, each in strange.items()}
    hints = {name: hint for name, hint in found.items() if hint}
    elsewhere = _takes_all(tool, given) if strange.keys() - hints.keys() else ""
    if elsewhere:
        hints |= dict.fromkeys(strange, f"{elsewhere} takes it")
    missing = {name: f"{by} gives it" for name, by in GIVEN_BY.items() if name not in given}
    return missing | hints


def _takes_all(tool: Tool, given: Mapping[str, Any]) -> str:
    """Return the name of another tool for the same scope that takes all these parameters, or ""."""
    for other in TOOLS.values():
        wanted: type[Parameters] = other.parameters
        members = plain_members(wanted)
        needed = {name for name, member in members.items() if member["required"]}
        names = rename(wanted, given).keys()
        if other.scope == tool.scope and other != tool and needed <= names <= members.keys():
            return other.name
    return ""


def _with_one_key(tool: Tool, arguments: Mapping[str, Any], key: str | None) -> dict[str, Any]:
    given = dict(arguments)
    if "idempotency_key" in tool.parameters.model_fields:
        given["idempotency_key"] = _one_key(given.get("idempotency_key"), key)
    else:
        keyed_calls.check_key(key)
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
    return keyed_calls.check_key(key)
