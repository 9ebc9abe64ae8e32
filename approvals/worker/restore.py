"""After a restore: approved actions are looked up in Sent, and only a person lets them leave."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

import structlog
from django.db import transaction

from accounts.infra.texts import join, translatable
from approvals.audit import chain
from approvals.core.kinds import get_kind
from approvals.core.states import Status
from approvals.core.types import PreviewWarning
from approvals.lifecycle.load import load_approved
from approvals.lifecycle.outcomes import close_as_sent
from approvals.lifecycle.returns import return_with_warnings
from approvals.lifecycle.revisions import add_notice
from approvals.models import PendingAction
from approvals.pauses import journal, restored

log = structlog.get_logger(__name__)

LOOK_FIRST = translatable("Look in the Sent folder, or ask a recipient, before you approve it.")
Found = Literal["in_sent", "not_in_sent", "not_looked_at", "journal"]


@dataclass(frozen=True, kw_only=True)
class Reconciled:
    """The result for one action: closed as sent, or waiting for a person with a warning."""

    action_id: UUID
    found: Found


def reconcile_after_restore() -> Iterator[Reconciled]:
    """Look up every approved action in Sent, while everything is paused; yield the results.

    1. Warn of a pending action that was handed over according to the send journal. This comes
       first: lookups in Sent take a while, and a person may decide meanwhile.
    2. Close an approved action as sent if it is found in Sent.
    3. If it is not found, or Sent could not be searched, send it back to a person with a warning.

    It may be interrupted and run again. It sends nothing.
    """
    yield from _warn_of_handed_over()
    for action_id in PendingAction.objects.filter(status=Status.APPROVED).values_list(
        "pk", flat=True
    ):
        yield _reconcile(action_id)
    yield from _warn_of_handed_over()  # an approval that was undone in between


def _warn_of_handed_over() -> Iterator[Reconciled]:
    for entry in restored.find_missing(journal.entries()):
        action = PendingAction.objects.filter(pk=entry.action_id, status=Status.PENDING).first()
        if action is not None and _warn(action, _journal_warning(entry)):
            yield Reconciled(action_id=action.pk, found="journal")


def _reconcile(action_id: UUID) -> Reconciled:
    found: Found = "not_in_sent"
    try:
        approved = load_approved(action_id)
        outcome = get_kind(approved.kind).reconcile(approved)
    except Exception:  # a provider's library may raise anything; no evidence was found
        log.exception("probe_failed", action=str(action_id))
        outcome, found = None, "not_looked_at"
    if (
        outcome is not None
        and outcome.verdict == "accepted"
        and close_as_sent(action_id, outcome, worker="after_restore", actor="command")
    ):
        return Reconciled(action_id=action_id, found="in_sent")
    action = PendingAction.objects.get(pk=action_id)
    return_with_warnings(action, [_warning(found)])
    return Reconciled(action_id=action_id, found=found)


@transaction.atomic
def _warn(action: PendingAction, warning: PreviewWarning) -> bool:
    current = PendingAction.objects.select_for_update(no_key=True, of=("self",)).get(pk=action.pk)
    told = {each["code"] for each in current.current.preview.get("warnings", [])}
    if current.status != Status.PENDING or warning.code in told:
        return False
    add_notice(current, [warning], approval_round=current.approval_round + 1)
    chain.record(
        mailbox=current.mailbox_id,
        event="noticed",
        actor="command",
        action_id=current.pk,
        revision=current.revision,
        code=warning.code,
    )
    return True


def _warning(found: Found) -> PreviewWarning:
    looked = (
        translatable("mailhub could not look in Sent.")
        if found == "not_looked_at"
        else translatable("It is not in Sent, which proves nothing.")
    )
    return PreviewWarning(
        code=restored.WARNED,
        title=translatable("It may have been sent already."),
        text=join(
            translatable("mailhub was restored from an older copy, in which this was approved."),
            looked,
            LOOK_FIRST,
        ),
        severity="risk",
    )


def _journal_warning(entry: journal.Entry) -> PreviewWarning:
    return PreviewWarning(
        code=restored.WARNED,
        title=translatable("It may have been sent already."),
        text=join(
            translatable("mailhub was restored from an older copy."),
            translatable(
                "Its send journal says that this was handed over at %(time)s UTC.",
                time=f"{entry.at:%Y-%m-%d %H:%M}",
            ),
            LOOK_FIRST,
        ),
        severity="risk",
    )
