"""A person's ruling without evidence: it was sent, or it was not, and a copy shall leave or none."""

from typing import Any, Literal, assert_never
from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone

from accounts.infra.problems import Problem
from accounts.infra.texts import join, translatable
from accounts.infra.transactions import retry_if_rolled_back
from accounts.models import User
from approvals.audit import chain
from approvals.core.states import SENTENCES, Status
from approvals.core.types import Outcome, PreviewWarning, get_kind
from approvals.gate.decide import STALE, count_approval, mark_of_restore
from approvals.gate.load import lock_action, refuse_unseen
from approvals.gate.news import add_news
from approvals.gate.outcome import record_outcome
from approvals.gate.rules.policy import (
    check_approver,
    policy_of,
    refusal_of_unfit,
    refusal_of_unopened,
    refusal_to_approve,
    refusal_to_decide,
)
from approvals.gate.send_back import UNDECIDED
from approvals.gate.twins import find_doubt
from approvals.models import ApprovalPolicy, Attempt, PendingAction

Ruling = Literal["sent", "not_sent", "withdrawn"]

ANOTHER_ATTEMPT = translatable(
    "It was handed over once more since you opened this. Look at it again."
)


@retry_if_rolled_back
def resolve(
    *,
    action_id: UUID,
    person: User,
    ruling: Ruling,
    fence: int,
    restored: str = "",
    method: str = "",
) -> PendingAction:
    """Rule on an unknown outcome; the caller has checked that the person is really there (step-up).

    `fence` names the attempt that the ruling is about, `restored` the restore that the page showed
    (`mark_of_restore`). sent: the action succeeded, and the receipt
    says who ruled. not_sent: the ruling approves another copy, in a new round. It counts as an
    approval of this person, and the mail leaves with the same Message-ID if enough people have
    approved. withdrawn: it was not sent, and no copy shall leave. Raises `forbidden`, and `conflict`
    if the outcome is known, or if the attempt is another one. Raises `conflict` for another copy too
    if the action has expired, or if nobody can read its content here.
    """
    if ruling == "not_sent" and (seen := PendingAction.objects.filter(pk=action_id).first()):
        refuse_unseen(seen)
    with transaction.atomic():
        action = lock_action(action_id)
        policy = policy_of(action.mailbox)
        refusal = _refusal(action, person, policy, ruling, fence)
        if refusal is None and mark_of_restore(action) != restored:
            refusal = Problem("conflict", STALE)
        if refusal:
            chain.record(
                mailbox=action.mailbox,
                event="ruling_refused",
                actor=f"user:{person.pk}",
                action_id=action.id,
                code=refusal.code,
                ruling=ruling,
            )
        elif ruling == "sent":
            _close_as_sent(action, person)
        elif ruling == "not_sent":
            _order_again(action, person, policy, method)
        elif ruling == "withdrawn":
            _withdraw(action, person)
        else:
            assert_never(ruling)
    # Raised outside the transaction, so that the audit event of the refusal is kept.
    if refusal:
        raise refusal
    action.refresh_from_db()
    return action


def may_order_again(action: PendingAction, person: User) -> Problem | None:
    """Return why this person cannot have an unknown mail sent again; None if they can."""
    return _refusal(action, person, policy_of(action.mailbox), "not_sent", action.fence)


def _refusal(
    action: PendingAction, person: User, policy: ApprovalPolicy, ruling: Ruling, fence: int
) -> Problem | None:
    if forbidden := refusal_to_decide(person, action.mailbox):
        return forbidden
    if action.status != Status.UNKNOWN:
        return Problem(
            "conflict",
            join(translatable("There is nothing to decide."), SENTENCES[Status(action.status)]),
        )
    if action.fence != fence:
        return Problem("conflict", ANOTHER_ATTEMPT)
    if ruling != "not_sent":
        return None
    return (
        refusal_to_approve(person, action, policy)
        or refusal_of_unfit(action, policy)
        or refusal_of_unopened(action, policy, person)
    )


def _close_as_sent(action: PendingAction, person: User) -> None:
    outcome = Outcome(verdict="accepted", receipt=_receipt(action, person))
    moved = record_outcome(
        action.pk, action.fence, outcome, evidence="person", actor=f"user:{person.pk}"
    )
    assert moved, "the row is locked"


def _order_again(action: PendingAction, person: User, policy: ApprovalPolicy, method: str) -> None:
    """Order another copy of the mail.

    1. The attempt counts as not sent, by this person's word.
    2. The action waits again, in a new round. A new revision warns of the second copy, so a page
       that was opened before cannot approve it.
    3. The ruling is the first approval.
    """
    check_approver(person, action, policy)
    attempt = _count_as_unsent(action)
    chain.record(
        mailbox=action.mailbox_id,
        event="outcome_not_sent",
        actor=f"user:{person.pk}",
        action_id=action.pk,
        fence=action.fence,
        code="",
        evidence="person",
    )
    told = add_news(action, [*find_doubt(action)[:1], _may_have_left(action, attempt)])
    # The round has just begun, so nobody has approved it. Other news was on no page yet.
    if len(told) == 1:
        count_approval(action, person, policy, given=1, method=method)


def _withdraw(action: PendingAction, person: User) -> None:
    """Withdraw the mail; its attempt stays in doubt."""
    _count_as_unsent(action)
    moved = action.move(Status.PENDING, Status.CANCELLED, finished_at=Now())
    assert moved, "the row is locked"
    chain.record(
        mailbox=action.mailbox_id,
        event="cancelled",
        actor=f"user:{person.pk}",
        action_id=action.pk,
        fence=action.fence,
        anchored=True,
    )


def _count_as_unsent(action: PendingAction) -> Attempt:
    """Let the last attempt count as not sent, by a person's word, and the action wait in a new round."""
    attempt = action.attempts.get(fence=action.fence)
    Attempt.objects.filter(pk=attempt.pk).update(
        verdict=Attempt.Verdict.NOT_SENT, code="", evidence="person", ruled_at=Now(), ended_at=Now()
    )
    moved = action.move(
        Status.UNKNOWN,
        Status.PENDING,
        **UNDECIDED,
        approval_round=action.approval_round + 1,
        error=None,
        returned=None,
        next_probe_at=None,
    )
    assert moved, "the row is locked"
    return attempt


def _may_have_left(action: PendingAction, attempt: Attempt) -> PreviewWarning:
    words = get_kind(action.kind).words
    at = attempt.wire_started_at or attempt.started_at
    handed_over = translatable(
        "It was handed over at %(time)s UTC and the answer was lost.", time=f"{at:%Y-%m-%d %H:%M}"
    )
    return PreviewWarning(
        code="may_have_been_sent",
        title=translatable("It may have happened already.")
        if words
        else translatable("It may have been sent already."),
        text=join(
            handed_over,
            translatable("Since then mailhub was restored from an older copy.")
            if action.restored_at
            else "",
            words.get(
                "twice", translatable("If it was sent after all, the recipients get it twice.")
            ),
        ),
        severity="risk",
        mark=str(attempt.fence),
    )


def _receipt(action: PendingAction, person: User) -> dict[str, Any]:
    return {
        "at": timezone.now().isoformat(timespec="seconds").replace("+00:00", "Z"),
        "recipient_count": len(action.current.preview["targets"]),
        "provider": action.mailbox.provider,
        "ruled_by": str(person),
    }
