"""The execution of an approved action: recheck, claim, run the kind, record.

Nothing else calls ActionKind.execute.

The promise: mail never leaves without a person's approval of that exact content. It is never sent
again automatically unless it is proven that the first attempt sent nothing. If mailhub does not
know the outcome, it says so.
"""

import errno
import os
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from types import MappingProxyType
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.db import DataError, Error, IntegrityError, connection, transaction
from django.db.models import (
    F,
    Q,
)
from django.db.models.functions import Now

from accounts.connect.connecting import account_of
from accounts.infra.database import database_now
from accounts.infra.texts import translatable
from accounts.models import Mailbox
from approvals.audit import chain
from approvals.core.queue import queue
from approvals.core.states import Status
from approvals.core.types import (
    BEFORE_WIRE,
    CLOCKS_DIFFER,
    AnsweredFirst,
    LeaseLost,
    NotLookedAt,
    Outcome,
    get_kind,
)
from approvals.gate.load import ContentUnavailable, Read, read_action
from approvals.gate.outcome import SENT_AFTER_ALL, record_outcome
from approvals.gate.pauses import restored
from approvals.gate.preparation import discard_outdated, keep
from approvals.gate.reconcile import (
    SentAlready,
    close_found,
    find_in_sent,
    may_have_left,
    settle_doubts,
)
from approvals.gate.rules.conditions import approvals_of, due, may_execute_now
from approvals.gate.send_back import (
    return_if_void,
    return_unproven,
    return_with_warnings,
    withdraw_answered,
)
from approvals.gate.twins import find_news
from approvals.models import Attempt, PendingAction

log = structlog.get_logger(__name__)

# The outcome of a send must not be lost to a database that restarts, or to a failover.
RECORD_SECONDS = 300.0
MOST_SECONDS_BETWEEN = 5.0
RENEWAL_ENDS_SECONDS = 5.0
LOOK_AGAIN = timedelta(seconds=30)  # after a failed lookup
HELD_BACK_AT_MOST = timedelta(minutes=10)
NOT_LOOKED_AT = {
    "code": "not_looked_at",
    "detail": translatable(
        "mailhub could not check whether something changed after the approval. Nothing leaves until mailhub can check."
    ),
}
NOT_LOOKED_IN_SENT = translatable(
    "The mail may have left already, and mailhub could not look in Sent. Nothing leaves until mailhub can look."
)

GONE = translatable("The prepared draft is gone, and it is not known why.")


class NotGranted(Exception):
    """Raised if the send journal could not be read or written; nothing has left."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error)
        busy = isinstance(error, restored.JournalBusy)
        self.code = "journal_busy" if busy else "journal_failed"
        self.errno = errno.errorcode.get(error.errno or 0)
        reason = name_os_error(error)
        self.detail = (
            translatable("Another process holds the send journal. Nothing leaves without it.")
            if busy
            else translatable(
                "The send journal cannot be written (%(reason)s). Nothing leaves without it.",
                reason=reason or "a line was cut",
            )
        )


def name_os_error(error: BaseException) -> str:
    """Return the number and words of the operating system, such as "ENOSPC: No space left on
    device"; an empty string for any other error. They name no file.
    """
    number = error.errno or 0 if isinstance(error, OSError) else 0
    name = errno.errorcode.get(number)
    return f"{name}: {os.strerror(number)}" if name else ""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The right to carry one action out, until the lease ends; `fence` identifies this claim.

    After a restore another claim may have the same fence, so `worker` is another word for each claim.
    `on_wire` is set once "from here on it may have been sent" is committed.
    """

    action_id: UUID
    fence: int
    worker: str
    on_wire: threading.Event = field(default_factory=threading.Event)

    def is_held(self) -> Q:
        """Return the condition that the lease has not run out."""
        return Q(
            pk=self.action_id,
            fence=self.fence,
            status=Status.EXECUTING,
            lease_until__gt=Now(),
        )


def execute(action_id: UUID, *, worker: str) -> bool:
    """Carry the action out if it is due and nobody else does; return True if this worker did.

    The action is read once, and exactly the read content is carried out. Its digest is computed
    from that content, and the claim is only for this digest in this round.
    """
    read = read_action(action_id)
    if read is None or read.action.status != Status.APPROVED:
        return False
    # The checks below are for mail that may leave. Other mail must not leave without them.
    if not PendingAction.objects.filter(may_execute_now(), pk=action_id).exists():
        return_if_void(action_id)
        return False
    if not (_is_still_unsent(read, worker) and _is_still_right(read)):
        return False
    approved = read.action
    claim = take_claim(approved, worker)
    if claim is None:
        return_if_void(action_id)
        return False
    started = time.monotonic()
    with _keep_lease(claim):
        outcome = _run(claim, read)
    _record(claim, outcome)
    log.info(
        "attempt_ended",
        action=str(action_id),
        fence=claim.fence,
        outcome=outcome.verdict,
        code=outcome.code,
        duration_ms=round((time.monotonic() - started) * 1000),
        recipient_count=outcome.receipt.get("recipient_count"),
    )
    _notify_next(approved)
    return True


def _notify_next(left: PendingAction) -> None:
    """Notify for the next mail of this mailbox.

    A worker that came for it during the send went away again. Whether the mail may leave is for the
    claim to say: a judgement of each waiting mail would take longer with each of them. If the
    notification fails, the next sweep picks the mail up.
    """
    try:
        waiting = PendingAction.objects.filter(
            due(), mailbox=left.mailbox_id, status=Status.APPROVED
        )
        for action_id in waiting.order_by("not_before").values_list("pk", flat=True)[:1]:
            queue().notify(action_id)
    except Exception:  # the sent mail is recorded: a later failure must not look like its failure
        log.exception("bell_failed", action=str(left.pk))


def _is_still_right(read: Read) -> bool:
    """Recheck the action; any warning sends it back, or withdraws it."""
    action = read.action
    try:
        warnings = find_news(read)
    except Exception:  # without an answer nothing leaves; the recheck is repeated later
        log.exception("recheck_failed", action=str(action.pk))
        _look_later(action, NOT_LOOKED_AT["detail"])
        return False
    answer = next((each for each in warnings if isinstance(each, AnsweredFirst)), None)
    # An older answer was there when a person approved, even if only a newer one was shown.
    earliest = (action.approved_at or action.created_at) - CLOCKS_DIFFER
    is_new = answer is not None and answer.at is not None and answer.at > earliest
    if answer is not None and is_new and may_have_left(action) is None:
        withdraw_answered(action, answer)
    elif warnings:
        return_with_warnings(action, warnings)
    return not warnings


def _is_still_unsent(read: Read, worker: str) -> bool:
    """Look up in Sent an action that this process has neither seen proposed nor attempted.

    If it is found there, everything pauses, because only an older copy of the database can have
    lost that attempt. If the database knows how it may have left, it is closed as sent, and nothing
    else has to pause: by an attempt in doubt, by a prepared draft that its owner sent, or before a
    restore that a person was warned of. If Sent cannot be searched, the mail is held back for ten
    minutes after the start: one whose Sent cannot be opened would wait for ever.
    """
    action = read.action
    since = action.created_at
    if action.fence:
        since = action.attempts.values_list("started_at", flat=True).get(fence=action.fence)
    if since > restored.process_start():  # otherwise the database may have been restored since
        return True
    try:
        found = find_in_sent(get_kind(action.kind), read.to_approved())
    except (NotLookedAt, ValueError):  # the latter if its content cannot be read here
        if database_now() > restored.process_start() + HELD_BACK_AT_MOST:
            return True
        _look_later(action, NOT_LOOKED_IN_SENT)
        return False
    if found is None:
        return True
    if may_have_left(action) is not None or read.has_preparation:
        _close_found(action, found, worker)
    elif PendingAction.objects.filter(
        pk=action.pk, status=Status.APPROVED, fence=action.fence
    ).exists():
        restored.pause_for("sent")  # otherwise another worker has just sent it
    return False


def _close_found(action: PendingAction, found: Outcome, worker: str) -> None:
    """Close as sent an action that an earlier attempt sent.

    If another mail of the mailbox is leaving now, a later sweep does it.
    """
    try:
        close_found(action, found, worker=worker, actor="worker")
    except IntegrityError as error:
        if not _another_leaves(error):
            raise


def _look_later(action: PendingAction, detail: str) -> None:
    PendingAction.objects.filter(
        pk=action.pk, status=Status.APPROVED, approval_round=action.approval_round
    ).update(not_before=Now() + LOOK_AGAIN, error={"code": NOT_LOOKED_AT["code"], "detail": detail})


class _Unproven(Exception):
    """An approval that the claim counted has no valid signature."""


class _Older(Exception):
    """A chain of the audit is older than its anchored head."""


class _AnotherAccount(Exception):
    """The mailbox that the claim read is of another generation than the approved one."""


def take_claim(action: PendingAction, worker: str) -> Claim | None:
    """Claim the action with one conditional UPDATE, and write the attempt in the same transaction.

    Both happen before any call. First the signature of the order to leave is checked. Approvals are
    only ever added, so all that the UPDATE counted are among those that are read after it, and the
    signature of each is checked. Return None if another worker was faster, with this action or with
    another one of the same mailbox. Return None too if a signature is not valid: then the action
    goes back to a person. `action.mailbox` is then the mailbox as the claim found it.
    """
    if not action.has_order():
        return_unproven(action)
        return None
    worker = f"{worker}:{secrets.token_hex(4)}"
    try:
        with transaction.atomic():
            if not _claim(action):
                return None
            action.mailbox = Mailbox.objects.get(pk=action.mailbox_id)
            # It may have been connected again since the UPDATE.
            if action.mailbox.generation != action.mailbox_generation:
                raise _AnotherAccount
            if not all(approvals_of(action).values()):
                raise _Unproven
            if not chain.lock_current(action.mailbox_id):
                raise _Older
            fence = action.fence + 1
            Attempt.objects.create(
                action_id=action.pk,
                fence=fence,
                worker=worker,
                started_at=Now(),
                account=account_of(action.mailbox),
            )
            chain.record(
                mailbox=action.mailbox_id,
                event="claimed",
                actor="worker",
                action_id=action.pk,
                fence=fence,
            )
    except _AnotherAccount:
        return None
    except _Unproven:  # the claim was rolled back
        return_unproven(action)
        return None
    except _Older:  # undone approvals and pauses are lost with the newer database
        restored.compare_everything()
        return None
    except IntegrityError as error:
        if _another_leaves(error):
            return None
        raise
    return Claim(action_id=action.pk, fence=fence, worker=worker)


def _another_leaves(error: IntegrityError) -> bool:
    return "action_one_leaving_a_mailbox" in str(
        error
    ) or "approvals_pendingaction.mailbox_id" in str(error)


def _claim(action: PendingAction) -> bool:
    """Move the action, in the state that was read and rechecked, to `executing`.

    SKIP LOCKED: a second worker does not wait.
    """
    free = PendingAction.objects.select_for_update(no_key=True, skip_locked=True)
    mine = PendingAction.objects.filter(
        may_execute_now(),
        digest=action.digest,
        approval_round=action.approval_round,
        fence=action.fence,
        pk__in=free.filter(pk=action.pk).values("pk"),
    )
    lease = timedelta(seconds=settings.MAILHUB_LEASE_SECONDS)
    claimed = mine.update(status=Status.EXECUTING, fence=F("fence") + 1, lease_until=Now() + lease)
    return bool(claimed)


def _run(claim: Claim, read: Read) -> Outcome:
    """Run the kind. After an exception with the wire started the outcome is unknown.

    If the mail may have left already, its earlier attempts are reconciled before it leaves again.
    """
    try:
        approved = read.to_approved(
            wire_started=partial(_mark_wire_started, claim),
            keep=partial(keep, read.action, held=claim.is_held()),
        )
        kind = get_kind(approved.kind)
        if read.outdated is not None and not discard_outdated(kind, approved, read.outdated):
            return Outcome.broken_off(on_wire=True, code="draft_gone", detail=GONE)
        if claim.fence > 1:
            approved = settle_doubts(kind, approved, fence=claim.fence)
        return kind.execute(approved)
    except SentAlready:
        return Outcome(verdict="not_sent", proof=BEFORE_WIRE, code=SENT_AFTER_ALL)
    except NotLookedAt:
        return Outcome(
            verdict="not_sent",
            proof=BEFORE_WIRE,
            code=NOT_LOOKED_AT["code"],
            detail=NOT_LOOKED_IN_SENT,
        )
    except ContentUnavailable as error:
        return Outcome.broken_off(
            on_wire=claim.on_wire.is_set(), code=error.reason, detail=error.detail
        )
    except NotGranted as error:
        log.error("journal_failed", action=str(claim.action_id), code=error.code, errno=error.errno)
        return Outcome(verdict="not_sent", proof=BEFORE_WIRE, code=error.code, detail=error.detail)
    # A provider's library may raise anything. It must end as an outcome, never as a lost attempt.
    except Exception as error:
        lost = isinstance(error, LeaseLost)
        if not lost:
            log.exception("kind_raised", action=str(claim.action_id), fence=claim.fence)
        reason = name_os_error(error)
        return Outcome.broken_off(
            on_wire=claim.on_wire.is_set(),
            code="lease_lost" if lost else "internal_error",
            detail=translatable("The server reports: %(reason)s.", reason=reason) if reason else "",
        )


def _mark_wire_started(claim: Claim, order: Mapping[str, Any] = MappingProxyType({})) -> None:
    """Commit that the effect may happen from now on, and let the send journal grant it.

    `order` holds the notes on the objects that the order to the provider names.

    Raises LeaseLost, and NotGranted for the journal. Then nothing leaves, whatever was written.
    """
    try:
        granted = restored.grant(
            claim.action_id, fence=claim.fence, worker=claim.worker, order=order
        )
    except OSError as error:
        raise NotGranted(error) from error
    if not granted:
        restored.compare()  # an older copy of the database pauses everything
        raise LeaseLost
    claim.on_wire.set()


@contextmanager
def _keep_lease(claim: Claim) -> Iterator[None]:
    """Renew the lease while the kind runs.

    It is renewed for the time allowed until the point of no return, and as long again for the
    answer.
    """
    done = threading.Event()
    every = settings.MAILHUB_LEASE_SECONDS / 3
    began = time.monotonic()

    def may_go_on() -> bool:
        allowed: float = settings.MAILHUB_WIRE_TIMEOUT_SECONDS
        return time.monotonic() < began + (2 if claim.on_wire.is_set() else 1) * allowed

    def renew() -> None:
        try:
            while not done.wait(every) and may_go_on():
                lease = timedelta(seconds=settings.MAILHUB_LEASE_SECONDS)
                try:
                    # A lease that has ended is not renewed: another process may have acted on it
                    # already.
                    PendingAction.objects.filter(claim.is_held()).update(lease_until=Now() + lease)
                except Error:
                    # the database restarts; the next round uses a new connection
                    connection.close()
        finally:
            connection.close()

    thread = threading.Thread(target=renew, name=f"lease-{claim.fence}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(RENEWAL_ENDS_SECONDS)  # it may wait for a database that does not answer


def _record(claim: Claim, outcome: Outcome) -> None:
    """Write the outcome.

    A failed COMMIT may have committed, so retry on a new connection: a second write changes
    nothing.
    """
    ends_at, wait = time.monotonic() + RECORD_SECONDS, 0.25
    while True:
        try:
            record_outcome(
                claim.action_id, claim.fence, outcome, evidence="answer", worker=claim.worker
            )
            return
        except (IntegrityError, DataError):
            raise  # of the row, so the same would happen again
        except Error:
            connection.close()
            if time.monotonic() > ends_at:
                log.exception(
                    "outcome_not_recorded", action=str(claim.action_id), fence=claim.fence
                )
                return
            time.sleep(wait)
            wait = min(2 * wait, MOST_SECONDS_BETWEEN)
