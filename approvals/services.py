"""What may be done with an action: one function for each use case, each one transaction with its audit event."""

import hashlib
from dataclasses import asdict
from datetime import timedelta
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from accounts.caller import Caller
from accounts.models import Mailbox, Membership, Role, User
from accounts.problems import Problem, not_found
from approvals import audit
from approvals.digest import digest_of
from approvals.models import ApprovalPolicy, Blob, Decision, IdempotencyRecord, PendingAction, Revision
from approvals.queues.base import queue
from approvals.states import Status
from approvals.types import Proposal

log = structlog.get_logger(__name__)

STALE = "This is not what was shown to you: it has changed since. Look at it again."


def policy_of(mailbox: Mailbox) -> ApprovalPolicy:
    return ApprovalPolicy.objects.filter(mailbox=mailbox).first() or ApprovalPolicy(mailbox=mailbox)


def replay(
    *, caller: Caller, mailbox: Mailbox, tool: str, key: str | None, request_digest: str
) -> PendingAction | None:
    """The action this key already led to, or None. Raises `idempotency_mismatch` when the request was another."""
    if key is None:
        return None
    record = (
        IdempotencyRecord.objects.filter(
            mailbox=mailbox, proposer=caller.user, proposer_name=caller.name, tool=tool, key=key
        )
        .select_related("action__mailbox")
        .first()
    )
    if record is None:
        return None
    if record.request_digest != request_digest:
        raise Problem("idempotency_mismatch", "This key was used for another request. Use a new key for a new request.")
    return record.action


@transaction.atomic
def propose(
    *, caller: Caller, mailbox: Mailbox, tool: str, proposal: Proposal, key: str | None, request_digest: str
) -> tuple[PendingAction, bool]:
    """Store a proposal for a person to decide. Returns the action, and whether the key had led to it before.

    1. The action, its first revision and the bytes it names.
    2. The idempotency record; when another request with this key was faster, its action is the answer.
    3. The audit event.
    """
    now = timezone.now()
    digest = digest_of(proposal.payload)
    try:
        with transaction.atomic():  # a savepoint: an IntegrityError must not poison the whole
            action = PendingAction.objects.create(
                kind=proposal.kind,
                tool=tool,
                mailbox=mailbox,
                proposer=caller.user,
                proposer_name=caller.name,
                token_id=caller.token.id if caller.token else None,
                digest=digest,
                message_id=proposal.message_id,
                fingerprint=proposal.preview.fingerprint,
                approvals_needed=policy_of(mailbox).approvals_needed,
                created_at=now,
                expires_at=now + timedelta(hours=settings.MAILHUB_ACTION_TTL_HOURS),
            )
            if key is not None:
                IdempotencyRecord.objects.create(
                    mailbox=mailbox,
                    proposer=caller.user,
                    proposer_name=caller.name,
                    tool=tool,
                    key=key,
                    request_digest=request_digest,
                    action=action,
                )
    except IntegrityError:
        earlier = replay(caller=caller, mailbox=mailbox, tool=tool, key=key, request_digest=request_digest)
        if earlier is None:
            raise
        return earlier, True
    Revision.objects.create(
        action=action,
        number=1,
        author=caller.user,
        payload=proposal.payload,
        preview=asdict(proposal.preview),
        digest=digest,
        created_at=now,
    )
    Blob.objects.bulk_create(
        Blob(action=action, sha256=hashlib.sha256(content).hexdigest(), content=content) for content in proposal.blobs
    )
    audit.record(
        mailbox=mailbox, event="created", actor=actor_of(caller), action_id=action.id, digest=digest, tool=tool
    )
    return action, False


def duplicates_of(*, mailbox: Mailbox, fingerprint: str, window: timedelta) -> bool:
    """Whether somebody would call an action of this mailbox, within the window, the same."""
    return PendingAction.objects.filter(
        mailbox=mailbox, fingerprint=fingerprint, created_at__gt=timezone.now() - window
    ).exists()


def open_twin(*, mailbox: Mailbox, fingerprint: str) -> bool:
    """Whether the same is waiting already, however long."""
    return PendingAction.objects.filter(
        mailbox=mailbox, fingerprint=fingerprint, status__in=(Status.PENDING, Status.APPROVED)
    ).exists()


def approve(*, action_id: UUID, person: User, digest: str, revision: int) -> PendingAction:
    """A signed-in person says yes to exactly what was shown.

    Raises `forbidden` for who may not, `conflict` when something else is stored than was shown or it is too late.
    A second yes of the same person changes nothing.
    """
    with transaction.atomic():
        action = _locked(action_id)
        refusal = _refusal_to_approve(action, person) or _refusal_of_stale(action, digest, revision)
        if refusal:
            audit.record(
                mailbox=action.mailbox, event="approval_refused", actor=f"user:{person.pk}",
                action_id=action.id, code=refusal.code, shown=digest[:64], stored=action.digest,
            )  # fmt: skip
        elif action.status == Status.PENDING and not _has_approved(action, person):
            _count_approval(action, person)
    # Raised outside: the audit event of a refusal must stay.
    if refusal:
        raise refusal
    return action


def _count_approval(action: PendingAction, person: User) -> None:
    now = timezone.now()
    Decision.objects.create(
        action=action, person=person, verdict=Decision.Verdict.APPROVED, revision=action.revision,
        approval_round=action.approval_round, digest=action.digest, created_at=now,
    )  # fmt: skip
    given = valid_approvals(action).values("person").distinct().count()
    if given >= action.approvals_needed:
        undo_until = now + timedelta(seconds=settings.MAILHUB_UNDO_SECONDS)
        moved = action.move(
            Status.PENDING, Status.APPROVED, approvals_given=given, approved_at=now, undo_until=undo_until,
            not_before=undo_until,
        )  # fmt: skip
        assert moved, "the row is locked"
        # The row is the outbox and the queue only a doorbell: a bell that fails costs a few seconds, never the mail.
        transaction.on_commit(lambda: queue().ring(action.id), robust=True)
    else:
        PendingAction.objects.filter(pk=action.pk).update(approvals_given=given)
    audit.record(
        mailbox=action.mailbox, event="approved", actor=f"user:{person.pk}", action_id=action.id,
        digest=action.digest, revision=action.revision, given=given, needed=action.approvals_needed,
    )  # fmt: skip


def valid_approvals(action: PendingAction) -> Any:
    """The approvals that count: for this revision, this digest and this round."""
    return action.decisions.filter(
        verdict=Decision.Verdict.APPROVED,
        revision=action.revision,
        digest=action.digest,
        approval_round=action.approval_round,
    )


def _has_approved(action: PendingAction, person: User) -> bool:
    return bool(valid_approvals(action).filter(person=person).exists())


def _refusal_to_approve(action: PendingAction, person: User) -> Problem | None:
    if not _may(person, action.mailbox, Role.APPROVER):
        return Problem("forbidden", "You may not approve for this mailbox.")
    if action.proposer_id == person.pk and not policy_of(action.mailbox).lets_proposer_approve():
        return Problem("forbidden", "Who proposed it may not approve it: this mailbox asks for somebody else.")
    return None


def _refusal_of_stale(action: PendingAction, digest: str, revision: int) -> Problem | None:
    if action.digest != digest or action.revision != revision:
        return Problem("conflict", STALE)
    if action.status == Status.PENDING:
        return Problem("conflict", "It has expired.") if action.expires_at <= timezone.now() else None
    if action.status in (Status.REJECTED, Status.CANCELLED, Status.EXPIRED, Status.SUPERSEDED):
        return Problem("conflict", f"It is {Status(action.status).label} already.")
    return None


def reject(*, action_id: UUID, person: User, note: str = "") -> PendingAction:
    """A signed-in person says no, with a reason that the proposer will read."""
    with transaction.atomic():
        action = _locked(action_id)
        refusal = None if _may(person, action.mailbox, Role.APPROVER) else Problem(
            "forbidden", "You may not decide for this mailbox."
        )  # fmt: skip
        if refusal is None and not action.move(Status.PENDING, Status.REJECTED, finished_at=timezone.now()):
            refusal = Problem("conflict", f"Too late to reject: it is {Status(action.status).label}.")
        if refusal is None:
            Decision.objects.create(
                action=action, person=person, verdict=Decision.Verdict.REJECTED, revision=action.revision,
                approval_round=action.approval_round, digest=action.digest, note=note, created_at=timezone.now(),
            )  # fmt: skip
        event = "rejection_refused" if refusal else "rejected"
        audit.record(mailbox=action.mailbox, event=event, actor=f"user:{person.pk}", action_id=action.id)
    if refusal:
        raise refusal
    return action


def undo(*, action_id: UUID, person: User) -> PendingAction:
    """Take an approval back while the server still counts; the decisions are void and it waits again."""
    with transaction.atomic():
        action = _locked(action_id)
        if not _may(person, action.mailbox, Role.APPROVER):
            raise Problem("forbidden", "You may not decide for this mailbox.")
        if not action.move(
            Status.APPROVED, Status.PENDING, Q(undo_until__gt=timezone.now()),
            approvals_given=0, approval_round=action.approval_round + 1,
            approved_at=None, undo_until=None, not_before=None,
        ):  # fmt: skip
            raise Problem("conflict", f"Too late to undo: it is {Status(action.status).label}.")
        audit.record(mailbox=action.mailbox, event="undone", actor=f"user:{person.pk}", action_id=action.id)
    return action


def cancel(*, action_id: UUID, caller: Caller) -> PendingAction:
    """Withdraw what has not left: the proposer, or who may approve. A second time changes nothing."""
    with transaction.atomic():
        action = _locked(action_id)
        own = action.proposer_id == caller.user.pk and (caller.token is None or action.proposer_name == caller.name)
        if not own and not (caller.token is None and _may(caller.user, action.mailbox, Role.APPROVER)):
            raise not_found("The action")
        if action.status == Status.CANCELLED:
            return action
        if not any(
            action.move(source, Status.CANCELLED, finished_at=timezone.now())
            for source in (Status.PENDING, Status.APPROVED)
        ):
            raise Problem("conflict", f"Too late to cancel: it is {Status(action.status).label}.")
        audit.record(mailbox=action.mailbox, event="cancelled", actor=actor_of(caller), action_id=action.id)
    return action


def actor_of(caller: Caller) -> str:
    return f"token:{caller.token.id}" if caller.token else f"user:{caller.user.pk}"


def _may(person: User, mailbox: Mailbox, role: Role) -> bool:
    return Membership.objects.filter(mailbox=mailbox, user=person, role__in=Role.at_least(role)).exists()


def _locked(action_id: UUID) -> PendingAction:
    action = (
        PendingAction.objects.select_for_update(of=("self",)).select_related("mailbox").filter(pk=action_id).first()
    )
    if action is None:
        raise not_found("The action")
    return action
