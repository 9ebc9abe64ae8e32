"""Preparations: objects that a kind leaves at the provider before the send.

The next attempt reuses them. They are removed if nothing leaves.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from accounts.connect.connecting import account_of, is_of_account
from accounts.models import Mailbox
from approvals.core.states import FINAL, Status
from approvals.core.types import ActionKind, ApprovedAction, LeaseLost, NotLookedAt, get_kind
from approvals.gate.load import Read, load_approved
from approvals.gate.outcome import record_outcome
from approvals.gate.reconcile import (
    destroy_order,
    doubtful_attempts,
    find_in_sent,
    is_named_by,
    is_unproven,
)
from approvals.gate.rules import conditions
from approvals.models import Attempt, PendingAction, Preparation

log = structlog.get_logger(__name__)

TIDY_AGAIN = timedelta(minutes=5)
GONE_AGAIN = timedelta(days=1)
LONGEST_WAY = timedelta(hours=2)  # of a mail to Sent: a rule of Outlook delays it for so long
UNSENT = (Status.PENDING, *(status for status in FINAL if status is not Status.SUCCEEDED))


@transaction.atomic
def keep(action: PendingAction, notes: Mapping[str, Any], *, held: Q) -> None:
    """Commit the notes; raises LeaseLost if the action is not `held` any more."""
    if (
        not PendingAction.objects.select_for_update(no_key=True)
        .filter(held, pk=action.pk, digest=action.digest)
        .exists()
    ):
        raise LeaseLost
    Preparation.objects.update_or_create(
        action=action,
        defaults={
            "digest": action.digest,
            "notes": dict(notes),
            "account": account_of(action.mailbox),
            "tidy_at": Now(),
            "gone_at": None,
        },
    )


def discard_outdated(kind: ActionKind, approved: ApprovedAction, notes: Mapping[str, Any]) -> bool:
    """Discard the preparation for an earlier revision, before the new one overwrites its notes.

    Return False if its object is gone: the mailbox owner may have sent it. The attempt says so before
    the notes are forgotten.
    """
    there = kind.discard(replace(approved, prepared=notes))
    if not there:
        approved.wire_started()  # not by this attempt, but the mail may have gone out
    Preparation.objects.filter(action=approved.id).exclude(digest=approved.digest).delete()
    return there


def notes_of(mailbox: Mailbox) -> list[dict[str, Any]]:
    """Return the notes of all preparations in a mailbox, and of all unproven orders there."""
    prepared = Preparation.objects.filter(action__mailbox=mailbox).values_list("notes", flat=True)
    ordered = Attempt.objects.filter(is_unproven(), action__mailbox=mailbox).values_list(
        "notes", flat=True
    )
    return [notes for notes in (*prepared, *ordered) if notes]


def preparations_to_tidy() -> QuerySet[Preparation]:
    """Return the preparations of actions that did not leave in the end."""
    return Preparation.objects.filter(
        tidy_at__lte=Now(),
        action__status__in=UNSENT,
        action__purged_at=None,
        action__mailbox__status__in=conditions.MAY_LOOK,
    ).order_by("tidy_at")


def tidy(action_id: UUID) -> None:
    """Remove the prepared objects of an action that will not leave.

    An object that an unproven order names is destroyed for good, which proves that the order sent
    nothing. A draft in a bin could still be sent by it. If an object is gone, nobody knows whether the
    mail was sent, and the preparation stays to say so. The next attempt does not make another one.
    If the action has ended, a mail that is found in Sent is recorded as a late acceptance; one that
    is not there may be on its way, and is looked for again. Objects in another account than the one
    that is connected now stay, because that account may come back.

    The digest of the preparation is cleared first. A worker that begins now then does not reuse it,
    but discards it before it goes on.
    """
    mine = Preparation.objects.filter(pk=action_id, action__status__in=UNSENT, tidy_at__lte=Now())
    prepared = mine.first()
    if prepared is None or not mine.update(digest="", tidy_at=Now() + TIDY_AGAIN):
        return
    notes = prepared.notes
    try:
        approved = load_approved(action_id)
        if not is_of_account(approved.mailbox, prepared.account):
            elsewhere = Preparation.objects.filter(pk=action_id, digest="")
            elsewhere.update(tidy_at=Now() + GONE_AGAIN)
            return
        kind = get_kind(approved.kind)
        proven = [
            destroy_order(kind, approved, attempt.fence, attempt.notes)
            for attempt in doubtful_attempts(action_id)
        ]
        if not any(proven) and not kind.discard(replace(approved, prepared=notes)):
            gone = Preparation.objects.filter(pk=action_id, digest="")
            gone.filter(gone_at=None).update(gone_at=Now())
            if gone.filter(action__status=Status.PENDING).update(tidy_at=Now() + GONE_AGAIN):
                return
            if not _record_if_sent(kind, approved):
                if not _has_just_ended(action_id):  # it is no longer on its way to Sent
                    gone.update(tidy_at=Now() + GONE_AGAIN)
                return
    except NotLookedAt:
        return
    except Exception:  # it is kept a little longer; that sends nothing
        log.exception("tidy_failed", action=str(action_id))
        return
    Preparation.objects.filter(pk=action_id, digest="").delete()


def _record_if_sent(kind: ActionKind, approved: ApprovedAction) -> bool:
    """Look in Sent for a draft that is gone: its owner may have sent it before the action ended.

    Return True if it is there.
    """
    found = find_in_sent(kind, approved)
    last = Attempt.objects.filter(action=approved.id).order_by("-fence").first()
    if found is None or last is None:
        return False
    record_outcome(approved.id, last.fence, found, evidence="probe")
    return True


def _has_just_ended(action_id: UUID) -> bool:
    since = Now() - LONGEST_WAY
    return PendingAction.objects.filter(pk=action_id, finished_at__gt=since).exists()


def forget(read: Read) -> None:
    """Forget the preparation of a mail that was sent.

    Objects that were prepared in vain are removed: those that no order which went out names.
    """
    if not read.has_preparation:
        return
    kind, action = get_kind(read.action.kind), read.action
    accepted = action.attempts.filter(verdict=Attempt.Verdict.ACCEPTED)
    in_vain = read.prepared and not any(
        is_named_by(order, read.prepared) for order in accepted.values_list("notes", flat=True)
    )
    if in_vain:
        try:
            kind.discard(read.to_approved())
        except Exception:  # the draft is still unsent, and the mailbox owner can delete it
            log.exception("tidy_failed", action=str(action.pk))
    Preparation.objects.filter(action=action.pk).delete()
