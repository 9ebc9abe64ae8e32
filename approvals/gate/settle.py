"""The work after a send: the copy in Sent, the marks of the original, the draft that was sent."""

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cache, partial
from uuid import UUID

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now

from accounts.connect.connecting import is_of_account
from accounts.infra.database import commit_soon
from approvals.audit import chain
from approvals.core.states import Status
from approvals.core.types import Followed, LeaseLost, NotYet, get_kind
from approvals.gate import preparation, watches
from approvals.gate.backoff import retry_wait
from approvals.gate.load import read_action
from approvals.gate.rules.conditions import is_in_mailbox_that_may_look
from approvals.models import Attempt, PendingAction

log = structlog.get_logger(__name__)

TRIES = 104  # with the waits of backoff.retry_wait, a minute at least: a day
LOOKS = 5  # for the copy in Sent, a minute apart; it may come late, or under another id
SHORTEST_WAIT = timedelta(minutes=1)
UPLOAD_SECONDS = 400.0  # of the largest mail, as bytes of base64, on the slowest line


def _lease_seconds() -> float:
    """Return how long a process may take: three requests, and the time of an upload twice, because
    the upload may begin at the end of its time.
    """
    return 3 * float(settings.MAILHUB_REQUEST_SECONDS) + 2 * UPLOAD_SECONDS


def find_to_settle() -> QuerySet[PendingAction]:
    """Return the work after sends. A mailbox that must be reconnected uses up no attempt."""
    due = PendingAction.objects.filter(status=Status.SUCCEEDED, settle_at__lte=Now())
    return due.filter(is_in_mailbox_that_may_look()).order_by("settle_at")


def _take(action_id: UUID) -> bool:
    """Begin a try, if it is time and nobody else has; the lease lasts for the largest upload."""
    free = Q(settling_until=None) | Q(settling_until__lte=Now())
    ends = Now() + timedelta(seconds=_lease_seconds())
    mine = PendingAction.objects.filter(free, pk=action_id, settle_at__lte=Now())
    return bool(
        mine.update(settle_tries=F("settle_tries") + 1, settle_at=ends, settling_until=ends)
    )


def _check_lease(began: float) -> None:
    """Raise LeaseLost if the upload could end after the lease, because this process was frozen."""
    if time.clock_gettime(time.CLOCK_BOOTTIME) > began + _lease_seconds() / 2:
        raise LeaseLost


def settle_one(action_id: UUID) -> None:
    """Do the work after the send of an action, if it is time and nobody else does it.

    The lease lasts for the largest upload: a second worker finds nothing to do, and after a crash
    the work is repeated later. Each part of it is idempotent, so neither commit waits for the disk.
    """
    began = time.clock_gettime(time.CLOCK_BOOTTIME)  # before the lease does
    with transaction.atomic():
        commit_soon()
        if not _take(action_id):
            return
        read = read_action(action_id)
    assert read is not None, "an action is never deleted"
    tries = read.action.settle_tries
    accepted = read.action.attempts.filter(verdict=Attempt.Verdict.ACCEPTED)
    kind = get_kind(read.action.kind)
    is_elsewhere = isinstance(kind, Followed) and not is_of_account(
        read.action.mailbox, accepted.latest("fence").account
    )
    approved = read.to_approved(wire_started=partial(_check_lease, began))
    approved = replace(approved, blob=cache(approved.blob))  # for both steps
    try:
        if isinstance(kind, Followed) and kind.can_look(approved):
            with transaction.atomic():
                commit_soon()
                watches.begin(read.action, kind.follow_up(approved.payload))
        if is_elsewhere:
            _give_up(read.action)  # a copy there would show its Bcc to another account
            return
        kind.settle(approved)
        differs = kind.compare_effect(approved)
    except NotYet as later:
        _end_try(read.action, wait=later.wait)
        return
    except Exception:  # the mail was sent; only the work after it failed
        log.exception("settle_failed", action=str(action_id), count=tries)
        _end_try(read.action)
        return
    if differs is None and tries < LOOKS:
        _end_try(read.action)
        return
    if differs:
        _record_difference(read.action, differs)
    preparation.forget(read)
    with transaction.atomic():
        commit_soon()
        mine = PendingAction.objects.filter(pk=action_id)
        mine.update(settle_at=None, settling_until=None)


@transaction.atomic
def _record_difference(action: PendingAction, differs: Sequence[str]) -> None:
    """Say that something else was sent than a person approved. Nothing is sent again."""
    mine = PendingAction.objects.filter(pk=action.pk, differs_in_sent__isnull=True)
    if mine.update(differs_in_sent=list(differs)):
        log.error("sent_differs", action=str(action.pk), count=len(differs))
        chain.record(
            mailbox=action.mailbox_id,
            event="sent_differs",
            actor="worker",
            action_id=action.pk,
            changed=list(differs),
        )


def _end_try(action: PendingAction, *, wait: timedelta | None = None) -> None:
    tries = action.settle_tries
    if tries >= TRIES:
        _give_up(action)
        return
    mine = PendingAction.objects.filter(pk=action.pk, settle_tries=tries, unsettled_at=None)
    wait = wait or max(retry_wait(tries), SHORTEST_WAIT)
    mine.update(settle_at=Now() + wait, settling_until=None)


@transaction.atomic
def _give_up(action: PendingAction) -> None:
    mine = PendingAction.objects.filter(
        pk=action.pk, settle_tries=action.settle_tries, unsettled_at=None
    )
    if mine.update(settle_at=None, settling_until=None, unsettled_at=Now()):
        chain.record(
            mailbox=action.mailbox_id,
            event="settling_given_up",
            actor="worker",
            action_id=action.pk,
        )
