"""After a restore: what is open is looked up in Sent, and only a person lets it leave."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

import structlog
from django.db import transaction

from accounts.infra.texts import Translatable, translatable
from approvals.audit import chain
from approvals.core.states import Status
from approvals.core.types import NotLookedAt, Outcome, PreviewWarning, get_kind
from approvals.gate.load import load_approved
from approvals.gate.outcome import RESTORED, warn_of_doubt
from approvals.gate.pauses.restored import Entry, read_journal
from approvals.gate.reconcile import NOBODY_LOOKS, close_found, find_in_sent
from approvals.gate.revisions import add_notice
from approvals.gate.send_back import return_with_warnings
from approvals.models import Attempt, PendingAction

log = structlog.get_logger(__name__)

Found = Literal["closed", "in_sent", "not_in_sent", "not_looked_at", "nobody_looks"]
SAYINGS: dict[Found, Translatable] = {
    "in_sent": translatable("It is in Sent, so it was sent already."),
    "not_in_sent": translatable("It is not in Sent, which proves nothing."),
    "not_looked_at": translatable("mailhub could not look in Sent."),
    "nobody_looks": NOBODY_LOOKS,
}


@dataclass(frozen=True, kw_only=True)
class Reconciled:
    """The result for one action: closed as sent, or waiting for a person with a warning.

    `handed_over` is True if the send journal names an attempt that the database does not know.
    """

    action_id: UUID
    found: Found
    handed_over: bool


def reconcile_after_restore() -> Iterator[Reconciled]:
    """Look up in Sent all that is unreconciled, while everything is paused; yield the results.

    An action that is found in Sent is closed as sent if it had been approved. All others get a
    warning in a new revision and a new round, so no approval from before counts. It may be
    interrupted and run again. It sends nothing.
    """
    lost = _find_lost_lines()
    for action in PendingAction.objects.filter(unreconciled=True).select_related("mailbox"):
        lines = lost.get(action.pk, [])
        yield Reconciled(
            action_id=action.pk, found=_reconcile(action, lines), handed_over=bool(lines)
        )


def find_lost_mails() -> list[datetime]:
    """Return when the actions were last handed over that only the send journal knows."""
    lost = {entry.subject: entry.at for entry in read_journal() if entry.fence}
    known = set(PendingAction.objects.values_list("pk", flat=True))
    return [at for subject, at in lost.items() if subject not in known]


def _find_lost_lines() -> dict[UUID, list[Entry]]:
    """Return the journal lines of each unreconciled action that the database does not know."""
    restored = set(PendingAction.objects.filter(unreconciled=True).values_list("pk", flat=True))
    known = set(
        Attempt.objects.filter(
            action__unreconciled=True, phase=Attempt.Phase.WIRE_STARTED
        ).values_list("action", "fence")
    )
    lost: dict[UUID, list[Entry]] = {}
    for entry in read_journal():
        if entry.subject in restored and (entry.subject, entry.fence) not in known:
            lost.setdefault(entry.subject, []).append(entry)
    return lost


def _reconcile(action: PendingAction, lost: list[Entry]) -> Found:
    found, outcome = _look(action)
    if outcome is not None and _close(action, outcome, lost):
        return "closed"
    _warn(action, _warning(action.kind, found, lost[-1] if lost else None))
    return found


def _look(action: PendingAction) -> tuple[Found, Outcome | None]:
    try:
        approved = load_approved(action.pk)
        kind = get_kind(approved.kind)
        if not kind.can_look(approved):
            return "nobody_looks", None
        outcome = find_in_sent(kind, approved)
    except NotLookedAt:
        return "not_looked_at", None
    except Exception:  # the content cannot be read; no evidence was found
        log.exception("probe_failed", action=str(action.pk))
        return "not_looked_at", None
    return ("not_in_sent" if outcome is None else "in_sent"), outcome


@transaction.atomic
def _close(action: PendingAction, outcome: Outcome, lost: list[Entry]) -> bool:
    """Close the action as sent; it stays in doubt if the journal names more attempts than it has then."""
    closed = close_found(action, outcome, worker="after_restore", actor="command")
    if closed:
        mine = PendingAction.objects.filter(pk=action.pk)
        mine.filter(fence__gte=action.fence + len(lost)).update(restored_at=None)
        mine.update(unreconciled=False)
    return closed


@transaction.atomic
def _warn(action: PendingAction, warning: PreviewWarning) -> None:
    """Warn of the action; an unknown one is warned of when a person rules that it was not sent."""
    current = PendingAction.objects.select_for_update(no_key=True, of=("self",)).get(pk=action.pk)
    if current.status == Status.APPROVED:
        return_with_warnings(current, [warning])
    elif current.status == Status.PENDING:
        mine = PendingAction.objects.filter(pk=action.pk)
        mine.update(approvals_given=0, approval_round=current.approval_round + 1)
        current.refresh_from_db()
        if current.current.is_ours:  # nobody can approve any other
            add_notice(current, [warning])
        chain.record(
            mailbox=current.mailbox_id,
            event="noticed",
            actor="command",
            action_id=current.pk,
            revision=current.revision,
            code=RESTORED,
        )
    elif current.status == Status.UNKNOWN:
        chain.record(  # it voids nothing
            mailbox=current.mailbox_id,
            event="restored",
            actor="command",
            action_id=current.pk,
            code=RESTORED,
        )
    PendingAction.objects.filter(pk=action.pk).update(unreconciled=False)


def _warning(kind_name: str, found: Found, line: Entry | None) -> PreviewWarning:
    said = [translatable("mailhub was restored from an older copy, in which this was open.")]
    if line is not None:
        said.append(
            translatable(
                "Its send journal says that this was handed over at %(time)s UTC.",
                time=f"{line.at:%Y-%m-%d %H:%M}",
            )
        )
    return warn_of_doubt(kind_name, *said, SAYINGS[found])
