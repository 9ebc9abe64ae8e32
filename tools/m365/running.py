"""The tool m365_run_command: reads run and are shortened, writes are refused or wait for an
approval.
"""

import hashlib
import shlex
import time
from uuid import uuid4

import structlog
from django.conf import settings

from accounts.access import roles
from accounts.access.caller import Caller
from accounts.access.provider_calls import limit_waiting
from accounts.infra.database import give_back_connection
from accounts.infra.problems import Problem
from accounts.infra.texts import translatable
from accounts.models import Mailbox, Role
from approvals.core.answers import CommandOutput
from approvals.core.signatures import digest_of
from approvals.core.types import Preview, PreviewWarning, Proposal
from tools.answers import CommandPreview, PreviewedCommand
from tools.m365.classify import (
    NAME,
    Command,
    Refused,
    classified,
    refuse_ambiguous,
    server_line,
)
from tools.m365.commands import known_commands
from tools.m365.reduce import reduce_output
from tools.schemas import M365RunCommand
from tools.sending import command_runs as runs
from tools.sending.answers import Proposed
from tools.sending.held_commands import (
    EXCERPT,
    Lost,
    Unreachable,
    find_targets,
    propose_command,
)
from tools.sending.preview import as_warnings

log = structlog.get_logger(__name__)

PAYLOAD_VERSION = 1
RETRY_SECONDS = 30
CHANGES_MICROSOFT_365 = PreviewWarning(
    code="m365_write",
    title=translatable("Changes something in Microsoft 365"),
    text=translatable(
        "The command runs with the rights of this server's own sign-in, not with those of the mailbox."
    ),
    severity="risk",
)


def run_command(
    caller: Caller, parameters: M365RunCommand
) -> CommandPreview | CommandOutput | Proposed:
    """Run a reading command now; preview or propose a writing one if the settings allow writes.

    The CLI is signed in as one account for the whole server, independent of the mailbox. So the
    tool needs a scope that only staff can give. The mailbox decides who approves a write;
    a read needs no mailbox.
    """
    if parameters.mailbox is not None:
        roles.get_mailbox(caller, parameters.mailbox, need=Role.PROPOSER)
    if NAME not in settings.MCP_M365_TOOLS:
        raise Problem(
            "policy_blocked",
            translatable("%(name)s is switched off on this server (MCP_M365_TOOLS).", name=NAME),
        )
    try:
        command = classified(parameters.command, known_commands())
        refuse_ambiguous(command, known_commands())
    except Refused as refusal:
        raise Problem("policy_blocked", str(refusal)) from None
    if command.reads:
        return _read(caller, command)
    if settings.MCP_M365_STRICT_READONLY:
        raise Problem(
            "policy_blocked",
            translatable(
                '"m365 %(name)s" changes something, and this server only reads Microsoft 365. Nothing was done.',
                name=command.name,
            ),
        )
    return _propose_command(
        caller,
        roles.get_mailbox(caller, parameters.mailbox, need=Role.PROPOSER),
        parameters,
        command,
    )


def _read(caller: Caller, command: Command) -> CommandOutput:
    if not settings.MCP_M365_START_CMD:
        raise Problem(
            "transient",
            "The CLI for Microsoft 365 is not set up on this server (MCP_M365_START_CMD).",
        )
    # It loads the MCP library (30 MB), so only users of this tool pay for it.
    from tools.m365.client import m365_client

    started = time.monotonic()
    give_back_connection()
    try:
        with limit_waiting(caller.user.pk):
            reply = m365_client().run(server_line(command))
    except Unreachable:
        raise Problem(
            "transient",
            "The MCP server of the CLI for Microsoft 365 cannot be started.",
            retry_after=RETRY_SECONDS,
        ) from None
    except Lost:
        runs.record_read(caller, command.line, outcome="no_answer", duration_ms=_since(started))
        raise Problem(
            "transient",
            "The MCP server of the CLI for Microsoft 365 gave no answer.",
            retry_after=RETRY_SECONDS,
        ) from None
    short = reduce_output(command.name, reply.text)
    outcome = "error" if reply.failed else "ok"
    log.info(
        "m365_command",
        outcome=outcome,
        raw_bytes=len(reply.text.encode()),
        slim_bytes=len(short.encode()),
        sha256=hashlib.sha256(reply.text.encode()).hexdigest(),
        duration_ms=_since(started),
    )
    runs.record_read(caller, command.line, outcome=outcome, duration_ms=_since(started))
    if reply.failed:
        raise Problem(
            "invalid_input", translatable("The command failed: %(output)s", output=short[:EXCERPT])
        )
    return {"command": command.line, "output": short}


def _since(started: float) -> int:
    return round((time.monotonic() - started) * 1000)


def _propose_command(
    caller: Caller, mailbox: Mailbox, parameters: M365RunCommand, command: Command
) -> CommandPreview | Proposed:
    payload = {
        "version": PAYLOAD_VERSION,
        "kind": "m365.command",
        "mailbox": str(mailbox.id),
        "command": command.name,
        "options": [list(option) for option in command.options],
        "line": server_line(command),
    }
    preview = _preview(command, mailbox)
    proposed = propose_command(
        caller,
        mailbox,
        parameters,
        tool=NAME,
        proposal=Proposal(
            kind="m365.command", payload=payload, preview=preview, message_id=f"m365-{uuid4()}"
        ),
    )
    if proposed is not None:
        return proposed
    text = f"Run in Microsoft 365: {command.line}. Nothing has been sent."
    shown: PreviewedCommand = {
        "kind": "m365",
        "mailbox": mailbox.address,
        "command": command.line,
        "digest": digest_of(payload),
        "text": text,
    }
    return {"status": "preview", "preview": shown, "warnings": as_warnings(preview)}


def _preview(command: Command, mailbox: Mailbox) -> Preview:
    """Return the preview; every address in a value is a possible recipient."""
    return Preview(
        title=f"m365 {command.name}",
        targets=find_targets(((name, value or "") for name, value in command.options), mailbox),
        excerpt=shlex.join(command.argv)[:EXCERPT],
        fingerprint=hashlib.sha256(command.line.encode()).hexdigest(),
        warnings=(CHANGES_MICROSOFT_365,),
    )
