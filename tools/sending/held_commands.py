"""Commands to other systems that wait for a person: the kind of such actions, and their proposal.

A subclass says in which system the command runs, and how.
"""

import time
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.utils.translation import gettext_lazy as _

from accounts.access.caller import Caller
from accounts.infra.texts import translatable
from accounts.models import Mailbox
from approvals.core.types import BEFORE_WIRE, ActionKind, ApprovedAction, Outcome, Proposal, Target
from approvals.gate import propose as proposals
from tools.mail.text.addresses import domain_of
from tools.schemas import SendingParameters
from tools.sending import command_runs as runs
from tools.sending.answers import Proposed, build_proposed
from tools.sending.kinds import accepted_outcome
from tools.sending.proposals import find_earlier, request_digest
from tools.sending.requests import read_remarks

EXCERPT = 200


class Unreachable(Exception):
    """The server cannot be reached, so it received no command."""


class Lost(Exception):
    """The server received the command, and no answer says how it ended: it may have run.

    The text is what the server said all the same.
    """


@dataclass(frozen=True, kw_only=True)
class Reply:
    """The output of a command. `failed`: it ended with an error, and the text is the error's."""

    text: str
    failed: bool


class HeldCommand(ActionKind):
    """A kind of command to another system, which runs once after its approval.

    There is no evidence of the effect of a lost command, so it stays unknown until a person
    decides.
    """

    provider: str  # the word for the system in a receipt
    unreachable: str
    words: Mapping[str, Any] = {
        "sort": _("command"),
        "approve": _("Approve and run"),
        "approve_anyway": _("Approve and run anyway"),
        "sealed": _(
            "This digest covers the command and every option. mailhub checks it again just before "
            "the command runs. If anything differs, nothing runs."
        ),
        "returned": _("The command did not run. A new decision is needed."),
        # States
        "approved": _("approved, will run"),
        "executing": _("running now"),
        "succeeded": _("command ran"),
        "failed": _("command failed"),
        "unknown": _("not known whether the command ran"),
        # Attempts
        "accepted": _("ran"),
        "refused": _("refused, did not run"),
        "not_sent": _("did not run, will be retried"),
        # The page of a decided action
        "about_to": _("Approved, about to run"),
        "not_yet": _("Approved, did not run yet"),
        "attempt_did_nothing": _("The last attempt ran nothing, that is certain."),
        "refused_for_good": _(
            "Nothing was changed, and mailhub will not retry. Fix the problem above, then ask for "
            "a new proposal."
        ),
        "nothing": _("The command did not run."),
        "it_happened": _("It ran"),
        "not_again": _("You cannot run it again."),
        "again": _("It did not run: run it again"),
        "again_means": _(
            "You are sure that the command changed nothing. If you are wrong, it happens twice. "
            "It runs after the undo window."
        ),
        # Attempts whose answer was lost
        "may_have_happened": _("May have run"),
        "did_happen": _("The command ran all the same."),
        "did_happen_twice": _("The command ran twice."),
        "twice": translatable(
            "The answer to an earlier attempt was lost. If that attempt ran after all, it happens "
            "twice."
        ),
    }

    @abstractmethod
    def find_obstacle(self, payload: Mapping[str, Any]) -> Outcome | None:
        """Return the outcome if the settings of this server no longer let the command run."""

    @abstractmethod
    def run(self, approved: ApprovedAction) -> Reply:
        """Run the command, and mark the start of the wire before. Raises Unreachable or Lost."""

    @abstractmethod
    def describe(self, payload: Mapping[str, Any]) -> str:
        """Return the command as one line, for the record."""

    @abstractmethod
    def shorten(self, payload: Mapping[str, Any], output: str) -> str:
        """Return the short form of the output, with secrets masked."""

    @abstractmethod
    def judge_error(self, short: str) -> Outcome:
        """Return the outcome of a command that ended with an error; `short` is its text."""

    def execute(self, approved: ApprovedAction) -> Outcome:
        if obstacle := self.find_obstacle(approved.payload):
            return obstacle
        started = time.monotonic()
        try:
            reply = self.run(approved)
        except Unreachable:
            return Outcome.broken_off(on_wire=False, code="unreachable", detail=self.unreachable)
        except Lost:
            return Outcome(
                verdict="unknown",
                code="no_answer",
                detail=translatable("The MCP server gave no answer."),
            )
        short = self.shorten(approved.payload, reply.text)
        runs.record_approved(
            approved.id,
            self.describe(approved.payload),
            output=short,
            outcome="error" if reply.failed else "ok",
            duration_ms=round((time.monotonic() - started) * 1000),
        )
        if reply.failed:
            return self.judge_error(short)
        # Its receipt has no content of the answer, because it outlives the action's content.
        return accepted_outcome(self.provider, 0, datetime.now(UTC))

    def reconcile(self, approved: ApprovedAction) -> Outcome | None:
        return None

    def can_look(self, approved: ApprovedAction) -> bool:
        return False

    def settle(self, approved: ApprovedAction) -> None:
        """Do nothing."""

    def result(self, action_id: UUID) -> Mapping[str, str] | None:
        return runs.result_of(action_id)


def refuse(detail: str) -> Outcome:
    """Return the outcome of a command that was not handed over, and never will be."""
    return Outcome(verdict="refused", proof=BEFORE_WIRE, code="refused", detail=detail)


def propose_command(
    caller: Caller,
    mailbox: Mailbox,
    parameters: SendingParameters,
    *,
    tool: str,
    proposal: Proposal,
) -> Proposed | None:
    """Store the proposal of a command; return None after all checks if it is only a preview."""
    if earlier := find_earlier(caller, mailbox, tool, parameters):
        return earlier
    if not parameters.confirm:
        return None
    action, replayed = proposals.propose(
        caller=caller,
        mailbox=mailbox,
        tool=tool,
        key=parameters.idempotency_key,
        request_digest=request_digest(tool, parameters),
        proposal=proposal,
        replaces=parameters.replaces,
        remarks=read_remarks(parameters),
    )
    return build_proposed(action, caller, replayed=replayed)


def find_targets(values: Iterable[tuple[str, str]], mailbox: Mailbox) -> tuple[Target, ...]:
    """Return every address in these named values: each is a possible recipient."""
    addresses = [
        (name, word.strip(" ;<>"))
        for name, value in values
        for word in value.split(",")
        if "@" in word and " " not in word.strip()
    ]
    return tuple(
        Target(address=address, role=name, external=domain_of(address) != mailbox.domain)
        for name, address in addresses
    )
