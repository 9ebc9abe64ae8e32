"""Decisions of a person about an action, and undo."""

from collections.abc import Sequence
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from accounts.access.caller import Caller
from accounts.access.provider_calls import limit_waiting
from accounts.infra.database import database_now
from accounts.infra.problems import Problem, not_found
from accounts.infra.texts import join, translatable
from accounts.infra.transactions import retry_if_rolled_back
from accounts.models import Membership, User
from approvals.audit import chain
from approvals.core.queue import queue
from approvals.core.signatures import sign_decision
from approvals.core.states import FINAL, SENTENCES, Status
from approvals.core.types import PreviewWarning
from approvals.gate.load import Read, lock_action, read_action, refuse_unseen
from approvals.gate.news import DECIDED_BEFORE, add_news, tell_news
from approvals.gate.rules.conditions import approvals_of, approving_people
from approvals.gate.rules.policy import (
    check_approver,
    count_needed,
    leave_times,
    may_approve,
    may_decide,
    policy_of,
    refusal_of_unfit,
    refusal_of_unopened,
    refusal_to_decide,
)
from approvals.gate.seen import last_seen
from approvals.gate.send_back import UNDECIDED
from approvals.gate.twins import find_news
from approvals.models import ApprovalPolicy, Decision, PendingAction

log = structlog.get_logger(__name__)

STALE = translatable("This has changed since you opened it. Look at it again.")
UNDONE = translatable("Every approval from before no longer counts.")
NEWS = translatable("Something has happened since you opened this. Look at it again.")


@retry_if_rolled_back
def approve(
    *,
    action_id: UUID,
    person: User,
    digest: str,
    revision: int,
    restored: str = "",
    method: str = "",
) -> PendingAction:
    """Store the approval of a signed-in person for exactly the shown content.

    `restored` names the restore that the page showed (`mark_of_restore`): after one, a number of a
    revision comes again. `method` is how they had signed in. Raises `forbidden` if they may not
    approve. Raises `conflict` if the stored content is not the shown one, or if it is too late. Raises `conflict`
    too if the kind finds something new about it, which the page then shows as a warning. A second
    approval by the same person changes nothing.
    """
    read = read_action(action_id)
    if read is None:
        raise not_found("The action does not exist, or you may not see it.")
    shown = (Status.PENDING, digest, revision)
    if (read.action.status, read.action.digest, read.action.revision) == shown:
        _recheck(read, person)
        refuse_unseen(read.action)
    with transaction.atomic():
        action = lock_action(action_id)
        refusal = None
        try:
            _count_approval_of(action, person, (digest, revision, restored), method)
        except Problem as problem:
            refusal = problem
            chain.record(
                mailbox=action.mailbox,
                event="approval_refused",
                actor=f"user:{person.pk}",
                action_id=action.id,
                code=refusal.code,
                shown=digest[:64],
                stored=action.digest,
            )
    log.info("approval", action=str(action.pk), outcome=refusal.code if refusal else action.status)
    # Raised outside the transaction, so that the audit event of the refusal is kept.
    if refusal:
        raise refusal
    return action


def mark_of_restore(action: PendingAction) -> str:
    """Return a mark of the restore with which an action came back; empty if there was none."""
    return action.restored_at.isoformat() if action.restored_at else ""


def _recheck(read: Read, person: User) -> None:
    """Recheck the action before the approval counts; outside any transaction.

    A recheck that fails does not block the approval: the worker rechecks before the mail leaves.
    """
    action = read.action
    try:
        with limit_waiting(person.pk, action.mailbox_id):
            news = find_news(read)
    except Exception:  # a provider's library may raise anything; the worker rechecks later
        log.exception("recheck_failed", action=str(action.pk))
        return
    if news and may_approve(person, action) and _add_news(action, news):
        raise Problem("conflict", join(NEWS, *(warning.text for warning in news)))


@transaction.atomic
def _add_news(action: PendingAction, news: Sequence[PreviewWarning]) -> bool:
    """Add the news in a new revision with the same content.

    An open page of the earlier revision has to show it before an approval. Return False if the
    action has moved on from the state of `action`.
    """
    current = lock_action(action.pk)
    if current.status != Status.PENDING or current.revision != action.revision:
        return False
    tell_news(current, news)
    return True


def _count_approval_of(
    action: PendingAction, person: User, shown: tuple[str, int, str], method: str
) -> None:
    """Count the approval if nothing forbids it, else raise the refusal; the row is locked.

    `shown` is the digest, the revision and the mark of a restore on the page of the person.
    """
    policy = policy_of(action.mailbox)
    check_approver(person, action, policy)
    if (action.digest, action.revision, mark_of_restore(action)) != shown:
        raise Problem("conflict", STALE)
    if action.status in (Status.REJECTED, Status.CANCELLED, Status.EXPIRED, Status.SUPERSEDED):
        raise Problem("conflict", SENTENCES[Status(action.status)])
    if action.status != Status.PENDING:
        return
    if refusal := refusal_of_unfit(action, policy) or refusal_of_unopened(action, policy, person):
        raise refusal
    # Their approval without a valid signature would be in the way of another one.
    approvals = approvals_of(action)
    void = [DECIDED_BEFORE] if approvals.get(person.pk) is False else []
    if told := tell_news(action, void):
        raise Problem("conflict", join(NEWS, *(each.title for each in told)))
    people = approving_people(action, approvals)
    if person.pk not in people:
        count_approval(action, person, policy, given=len(people) + 1, method=method)


def count_approval(
    action: PendingAction, person: User, policy: ApprovalPolicy, *, given: int, method: str
) -> None:
    """Store the approval of a person who may give it; the last one needed moves the action.

    The chain keeps whether an open page of the person reported that it showed the text: programs
    that post the form without a browser do not.
    """
    needed = count_needed(action, policy)
    seen = last_seen(action, person) == action.revision
    record_decision(action, person, Decision.Verdict.APPROVED, method=method)
    if given >= needed:
        moved = action.move(
            Status.PENDING,
            Status.APPROVED,
            approvals_given=given,
            approved_at=Now(),
            returned=None,
            rules_version=policy.version,
            **leave_times(action, policy),
        )
        assert moved, "the row is locked"
        # The row is the outbox and the queue only notifies: a failed notification costs a few
        # seconds, never the mail.
        transaction.on_commit(lambda: queue().notify(action.id), robust=True)
    else:
        PendingAction.objects.filter(pk=action.pk).update(approvals_given=given)
    chain.record(
        mailbox=action.mailbox_id,
        event="approved",
        actor=f"user:{person.pk}",
        action_id=action.id,
        digest=action.digest,
        revision=action.revision,
        given=given,
        needed=needed,
        seen=seen,
        anchored=True,
    )


def record_decision(
    action: PendingAction,
    person: User,
    verdict: Decision.Verdict,
    *,
    method: str,
    note: str = "",
    passage: str = "",
) -> None:
    """Write a decision about the action in its present state, by a person who may decide.

    `method` is how they had signed in. The decision rests on their membership and on the generation
    of their account, as they are now.
    """
    held = Membership.objects.filter(user=person, mailbox=action.mailbox_id)
    said = {
        "method": method,
        "verdict": verdict.value,
        "revision": action.revision,
        "approval_round": action.approval_round,
        "digest": action.digest,
        "created_at": database_now(),
        "membership": held.values_list("pk", flat=True).first(),
        "account_generation": User.objects.values_list("generation", flat=True).get(pk=person.pk),
    }
    Decision.objects.create(
        action=action,
        person=person,
        note=note,
        passage=passage,
        seal=sign_decision(action=action.pk, person=person.pk, **said),
        **said,
    )


def erase_notes(person: User) -> int:
    """Delete the words of a person's decisions about ended actions; return how many stay for now."""
    said = Decision.objects.filter(person=person).exclude(note="", passage="")
    ended = PendingAction.objects.filter(status__in=FINAL)
    said.filter(action__in=ended.values("pk")).update(note="", passage="")
    return said.count()


@retry_if_rolled_back
def reject(
    *,
    action_id: UUID,
    person: User,
    note: str = "",
    digest: str | None = None,
    revision: int | None = None,
    method: str = "",
) -> PendingAction:
    """Reject an action, with a reason that the proposer will read.

    Raises `conflict` if the stored digest and revision are not the given ones.
    """
    with transaction.atomic():
        action = lock_action(action_id)
        refusal = _refusal_to_reject(action, person, digest, revision)
        if refusal is None:
            record_decision(action, person, Decision.Verdict.REJECTED, method=method, note=note)
        chain.record(
            mailbox=action.mailbox,
            event="rejection_refused" if refusal else "rejected",
            actor=f"user:{person.pk}",
            action_id=action.id,
            anchored=True,
        )
    if refusal:
        raise refusal
    return action


def _refusal_to_reject(
    action: PendingAction, person: User, digest: str | None, revision: int | None
) -> Problem | None:
    """Move the action to `rejected`, or return why it cannot be."""
    if refusal := (
        refusal_to_decide(person, action.mailbox) or _refusal_of_another(action, digest, revision)
    ):
        return refusal
    if action.move(Status.PENDING, Status.REJECTED, finished_at=timezone.now()):
        return None
    return Problem(
        "conflict", join(translatable("Too late to reject."), SENTENCES[Status(action.status)])
    )


def _refusal_of_another(
    action: PendingAction, digest: str | None, revision: int | None
) -> Problem | None:
    if digest is None and revision is None:
        return None
    if (action.digest, action.revision) == (digest, revision):
        return None
    return Problem("conflict", STALE)


@retry_if_rolled_back
def undo(*, action_id: UUID, person: User) -> PendingAction:
    """Take an approval back during the undo window; all decisions are void then."""
    with transaction.atomic():
        action = lock_action(action_id)
        if refusal := refusal_to_decide(person, action.mailbox):
            raise refusal
        in_time, next_round = Q(undo_until__gt=Now()), action.approval_round + 1
        if not action.move(
            Status.APPROVED, Status.PENDING, in_time, **UNDECIDED, approval_round=next_round
        ):
            raise Problem(
                "conflict",
                join(translatable("Too late to undo."), SENTENCES[Status(action.status)]),
            )
        title = translatable("%(person)s undid an approval of this.", person=str(person))
        add_news(action, [PreviewWarning(code="undone", title=title, text=UNDONE)])
        chain.record(
            mailbox=action.mailbox,
            event="undone",
            actor=f"user:{person.pk}",
            action_id=action.id,
            anchored=True,
        )
    return action


@retry_if_rolled_back
def cancel(
    *, action_id: UUID, caller: Caller, digest: str | None = None, revision: int | None = None
) -> PendingAction:
    """Withdraw an action that has not left. A second call changes nothing.

    Only the proposer or an approver may do it. Raises `conflict` if the stored digest and revision
    are not the given ones.
    """
    with transaction.atomic():
        action = lock_action(action_id)
        own = action.proposer_id == caller.user.pk and (
            caller.is_person or action.proposer_name == caller.name
        )
        if not own and not (caller.is_person and may_decide(caller.user, action.mailbox)):
            raise not_found("The action does not exist, or you may not see it.")
        if action.status == Status.CANCELLED:
            return action
        if refusal := _refusal_of_another(action, digest, revision):
            raise refusal
        if not any(
            action.move(source, Status.CANCELLED, finished_at=timezone.now())
            for source in (Status.PENDING, Status.APPROVED)
        ):
            raise Problem(
                "conflict",
                join(translatable("Too late to withdraw it."), SENTENCES[Status(action.status)]),
            )
        chain.record(
            mailbox=action.mailbox,
            event="cancelled",
            actor=caller.actor,
            action_id=action.id,
            anchored=True,
        )
    return action
