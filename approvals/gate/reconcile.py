"""Attempts that may have sent a mail, and the search for proof about them."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Coalesce, Now

from accounts.infra.texts import translatable
from approvals.audit import chain
from approvals.core.states import FINAL, Status
from approvals.core.types import ActionKind, ApprovedAction, NotLookedAt, Outcome
from approvals.gate.outcome import RESTORED, close_as_sent, record_outcome
from approvals.gate.rules.conditions import MAY_LOOK
from approvals.models import Attempt, AuditEvent, PendingAction, Preparation

log = structlog.get_logger(__name__)

DESTROYED = "draft_destroyed"  # code of an attempt whose order names no object any more
LOOKED_FOR = timedelta(minutes=10)  # after the end: the clean-up has looked twice by then
NOBODY_LOOKS = translatable("mailhub cannot look whether it happened already.")
PROOFS = ("outcome_accepted", "outcome_refused", "outcome_not_sent", "proven_unsent")


class SentAlready(Exception):
    """Raised if an earlier attempt has sent the mail."""


def is_unproven() -> Q:
    """Return the condition for an attempt that was on the wire and that nothing proves unsent.

    The word of a person is no proof.
    """
    return Q(phase=Attempt.Phase.WIRE_STARTED, proof="") & ~Q(verdict=Attempt.Verdict.ACCEPTED)


def doubtful_attempts(action_id: UUID, *, before: int | None = None) -> QuerySet[Attempt]:
    """Return the unproven attempts, oldest first; with `before` only those of earlier claims."""
    found = Attempt.objects.filter(is_unproven(), action=action_id).order_by("fence")
    return found if before is None else found.filter(fence__lt=before)


def may_any_have_left(action_ids: Iterable[UUID]) -> bool:
    """Return True if an attempt of one of these actions was accepted, or is not proven unsent, or if
    its prepared draft is gone.
    """
    ids = list(action_ids)
    on_wire = Attempt.objects.filter(phase=Attempt.Phase.WIRE_STARTED, proof="", action__in=ids)
    return on_wire.exists() or find_gone().filter(action__in=ids).exists()


def may_have_left(action: PendingAction) -> datetime | None:
    """Return when the first unproven attempt began its handover, or None.

    It is the time of the restore for an action that came back with an older copy of the database,
    the time at which a prepared draft was found gone, and the end of an action since which mailhub
    could not look for that draft.
    The attempt of a worker that is handing it over just now is not in doubt yet.
    """
    if not action.fence:
        return action.restored_at
    now_leaving = action.fence if action.status == Status.EXECUTING else None
    return (
        doubtful_attempts(action.pk, before=now_leaving)
        .values_list("wire_started_at", flat=True)
        .first()
        or action.restored_at
        or _when_gone(find_gone().filter(action=action.pk))
    )


def _when_gone(found: QuerySet[Preparation]) -> datetime | None:
    return found.values_list(Coalesce("gone_at", "action__finished_at"), flat=True).first()


def find_gone() -> QuerySet[Preparation]:
    """Return the preparations, of actions that are not known to have happened, whose objects are gone,
    or that mailhub could not look for since the action ended.
    """
    ended = Q(action__status__in=FINAL)
    unseen = Q(action__finished_at__lt=Now() - LOOKED_FOR) | ~Q(
        action__mailbox__status__in=MAY_LOOK
    )
    found = Preparation.objects.filter(Q(gone_at__isnull=False) | (ended & unseen))
    return found.exclude(action__status=Status.SUCCEEDED)


def may_have_left_by(action_id: UUID, at: datetime) -> datetime | None:
    """Return the result of `may_have_left` at that time.

    It is computed from the audit, so the answer stays the same later on. Only the last restore and a prepared
    draft are not in the audit of each action: they count as they are now, if they are not later than that.
    """
    in_doubt: set[int] = set()
    came_back = PendingAction.objects.filter(pk=action_id, restored_at__lte=at)
    restored_at: datetime | None = None
    for link in AuditEvent.objects.filter(action_id=action_id, at__lte=at).order_by(
        "chain", "sequence"
    ):
        fence, by_person = link.data.get("fence"), link.data.get("evidence") == "person"
        if link.event in ("noticed", "returned") and link.data.get("code") == RESTORED:
            restored_at = link.at
        elif link.event == "outcome_unknown":
            in_doubt.add(fence)
        elif link.event in PROOFS and not (link.event == "outcome_not_sent" and by_person):
            in_doubt.discard(fence)
    return (
        Attempt.objects.filter(action=action_id, fence__in=in_doubt)
        .order_by("fence")
        .values_list("wire_started_at", flat=True)
        .first()
        or came_back.values_list("restored_at", flat=True).first()
        or restored_at
        or _when_gone(find_gone().filter(action=action_id).exclude(gone_at__gt=at))
    )


def find_unshown_send(action: PendingAction) -> datetime | None:
    """Return when a mail was handed over and accepted that the state does not show, or None.

    That is a mail whose action ended otherwise, or a second copy.
    """
    if not action.fence:
        return None
    accepted = action.attempts.filter(verdict=Attempt.Verdict.ACCEPTED).order_by("fence")
    # A draft that its owner sent was never handed over by mailhub.
    at = Coalesce("wire_started_at", "ended_at")
    times = list(accepted.values_list(at, flat=True))
    return next(iter(times[action.status == Status.SUCCEEDED :]), None)


def find_in_sent(kind: ActionKind, approved: ApprovedAction) -> Outcome | None:
    """Look the mail up in Sent and change nothing; return evidence or None. Raises NotLookedAt."""
    try:
        found = kind.reconcile(replace(approved, prepared={}))
    except Exception:  # a provider's library may raise anything; no evidence was found
        log.exception("look_failed", action=str(approved.id))
        raise NotLookedAt from None
    return found if found is not None and found.verdict == "accepted" else None


def close_found(action: PendingAction, found: Outcome, *, worker: str, actor: str) -> bool:
    """Close as sent an action that was found in Sent; return True if it moved.

    The last attempt in doubt has sent it. Without one, an attempt that the database has lost has sent it,
    if it is approved.
    """
    last = doubtful_attempts(action.pk, before=action.fence + 1).last()
    if last is None:
        return close_as_sent(action.pk, found, worker=worker, actor=actor)
    return record_outcome(action.pk, last.fence, found, evidence="probe", actor=actor)


def settle_doubts(kind: ActionKind, approved: ApprovedAction, *, fence: int) -> ApprovedAction:
    """Reconcile before a mail leaves again that may have left; return the action to execute.

    1. Look in Sent. A mail that is found there closes the action: raises SentAlready.
    2. Destroy the objects that the earlier orders name. A confirmed destruction proves that these
       orders cannot be carried out any more.
    3. Do not reuse an object that an earlier order names: without proof it could be sent twice.

    Raises NotLookedAt if Sent could not be searched.
    """
    earlier = list(doubtful_attempts(approved.id, before=fence))
    if not earlier:
        return approved
    found = find_in_sent(kind, approved)
    if found is not None:
        record_outcome(approved.id, earlier[-1].fence, found, evidence="probe")
        raise SentAlready
    for attempt in earlier:
        destroy_order(kind, approved, attempt.fence, attempt.notes)
    if any(is_named_by(attempt.notes, approved.prepared) for attempt in earlier):
        approved.keep({})
        return replace(approved, prepared={})
    return approved


def is_named_by(order: Mapping[str, Any] | None, prepared: Mapping[str, Any]) -> bool:
    """Return True if the order of an attempt names the prepared object.

    The preparation may say more: a lookup notes there that it has seen the object.
    """
    return order is not None and bool(order) and order.items() <= prepared.items()


def destroy_order(
    kind: ActionKind, approved: ApprovedAction, fence: int, order: Mapping[str, Any] | None
) -> bool:
    """Destroy the object of an unproven order; return True if that proves that nothing was sent.

    Only the object that this very order names proves that. An order that names none proves nothing.
    """
    if not (order and kind.destroy(replace(approved, prepared=order))):
        return False
    return record_destroyed(approved.id, fence)


@transaction.atomic
def record_destroyed(action_id: UUID, fence: int) -> bool:
    """Record the proof that an attempt sent nothing; return True if the attempt was still in doubt.

    An attempt that is still unknown is left to `record_outcome`, which moves the action as well.
    """
    action = PendingAction.objects.select_for_update(no_key=True).get(pk=action_id)
    known = doubtful_attempts(action_id).filter(fence=fence, verdict=Attempt.Verdict.NOT_SENT)
    changed = known.update(evidence="probe", proof="destroyed", code=DESTROYED, ended_at=Now())
    if changed:
        chain.record(
            mailbox=action.mailbox_id,
            event="proven_unsent",
            actor="worker",
            action_id=action_id,
            fence=fence,
            code=DESTROYED,
        )
    return bool(changed)
