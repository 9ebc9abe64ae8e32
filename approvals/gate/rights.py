"""The right to decide about an action, its decisions with their proof, and what each person has seen of it."""

from typing import Any
from uuid import UUID

from django.db.models import F

from accounts.access.roles import has_role
from accounts.infra.database import database_now
from accounts.infra.problems import Problem
from accounts.infra.texts import translatable
from accounts.models import Mailbox, Membership, Role, User
from accounts.people.second_factor import FactorMissing, lacks_factor
from approvals.audit import chain
from approvals.core.signatures import sign_decision, verify_decision
from approvals.core.states import FINAL, Status
from approvals.gate.rules.policy import (
    approvers_of,
    asks_for_staff,
    may_approve_at_all,
    own_counts,
    policy_of,
)
from approvals.gate.rules.quorum import find_counted, stored_approvals
from approvals.models import ApprovalPolicy, AuditEvent, Decision, PendingAction, Seen

PROPOSED_IT = translatable(
    "You proposed this, so you cannot approve it. This mailbox asks for another person."
)
WROTE_IT = translatable(
    "You wrote a part of this or asked for its changes, so you cannot approve it. "
    "This mailbox asks for another person."
)


def may_decide(person: User, mailbox: Mailbox) -> bool:
    """Return True if this person may reject, edit, ask back or undo; `check_approver` is for the
    right to approve.
    """
    return has_role(person, mailbox, Role.APPROVER)


def check_reviewer(person: User, mailbox: Mailbox) -> None:
    """Raise `forbidden` for a person who may not decide."""
    if not may_decide(person, mailbox):
        raise Problem("forbidden", "You may not decide for this mailbox.")


def may_approve(person: User, action: PendingAction) -> bool:
    return refusal_to_approve(person, action, policy_of(action.mailbox)) is None


def find_remaining_approvers(action: PendingAction, policy: ApprovalPolicy) -> list[User]:
    """Return the people whose approval the action can still get, by name."""
    people = User.objects.filter(
        pk__in=approvers_of(policy).values("user"), is_active=True
    ).exclude(pk__in=find_counted(action))
    if asks_for_staff(action):
        people = people.filter(is_staff=True)
    if not own_counts(action, policy):
        people = people.exclude(pk=action.proposer_id).exclude(
            pk__in=action.authors.values("person")
        )
    return sorted(people, key=str)


def check_approver(person: User, action: PendingAction, policy: ApprovalPolicy) -> None:
    """Raise `forbidden` for a person who may not approve the action now.

    Every approval that is stored passes this. `FactorMissing` leads to the set-up of a factor.
    """
    if refusal := refusal_to_approve(person, action, policy):
        raise refusal
    if lacks_factor(person):
        raise FactorMissing


def refusal_to_approve(
    person: User, action: PendingAction, policy: ApprovalPolicy
) -> Problem | None:
    """Return why this person has no right to approve the action, or None if they have it."""
    if not may_approve_at_all(person, policy):
        return Problem("forbidden", "You may not approve for this mailbox.")
    if asks_for_staff(action) and not person.is_staff:
        return Problem(
            "forbidden", "Only staff of this server may approve this. Ask your administrator."
        )
    if own_counts(action, policy):
        return None
    if action.proposer_id == person.pk:
        return Problem("forbidden", PROPOSED_IT)
    if action.authors.filter(person=person).exists():
        return Problem("forbidden", WROTE_IT)
    return None


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


def approvals_of(action: PendingAction) -> dict[int, bool]:
    """Return who approved this revision, digest and round, with True if all their signatures are
    valid.
    """
    approved: dict[str, Any] = {
        "action": action.pk,
        "revision": action.revision,
        "digest": action.digest,
        "approval_round": action.approval_round,
    }
    decisions = stored_approvals(**approved)
    found: dict[int, bool] = {}
    for said in decisions.values(
        "person", "method", "verdict", "created_at", "membership", "account_generation"
    ).annotate(signature=F("seal")):
        is_valid = verify_decision(**said, **approved)
        found[said["person"]] = found.get(said["person"], True) and is_valid
    return found


def approving_people(action: PendingAction) -> set[int]:
    """Return the people whose approval counts."""
    proven = {person for person, holds in approvals_of(action).items() if holds}
    return find_counted(action) & proven if proven else set()


def recount_approvals(mailbox: Mailbox, user_id: int) -> list[UUID]:
    """Recount the approvals of pending actions that they approved; return those that lost one.

    The audit is written later: an approval locks the action first and then the chain, so the same
    order here avoids a deadlock.
    """
    lost = []
    waiting = (
        PendingAction.objects.select_for_update(no_key=True, of=("self",))
        .filter(
            mailbox=mailbox,
            status=Status.PENDING,
            pk__in=Decision.objects.filter(
                person=user_id, verdict=Decision.Verdict.APPROVED
            ).values("action"),
        )
        .order_by("pk")
    )
    for action in waiting:
        given = len(find_counted(action))
        if given != action.approvals_given:
            PendingAction.objects.filter(pk=action.pk, status=Status.PENDING).update(
                approvals_given=given
            )
            lost.append(action.pk)
    return lost


def record_lost(mailbox: Mailbox, user_id: int, actions: list[UUID]) -> None:
    """Record in the history of each action that an approval was lost."""
    for action_id in actions:
        chain.record(
            mailbox=mailbox,
            event="approval_lost",
            actor="worker",
            action_id=action_id,
            member=user_id,
        )


def erase_notes(person: User) -> int:
    """Delete the words of a person's decisions about ended actions; return how many stay for now."""
    said = Decision.objects.filter(person=person).exclude(note="", passage="")
    ended = PendingAction.objects.filter(status__in=FINAL)
    said.filter(action__in=ended.values("pk")).update(note="", passage="")
    return said.count()


def record_seen(*, action: PendingAction, person: User, revision: int) -> None:
    """Record the revision that this person sees now.

    The open page reports it, because a fetch does not mean that somebody looks. An old window does
    not take back a newer revision.
    """
    if (last_seen(action, person) or 0) < revision <= action.revision:
        Seen.objects.update_or_create(action=action, person=person, defaults={"revision": revision})


def last_seen(action: PendingAction, person: User) -> int | None:
    """Return the revision that this person saw last; None before the first."""
    mine = Seen.objects.filter(action=action, person=person)
    return mine.values_list("revision", flat=True).first()


def was_opened(action_id: UUID | str) -> bool:
    """Return True if somebody has had the review page of an action open."""
    return Seen.objects.filter(action__pk=action_id).exists()


def record_opened(action: PendingAction, person: User, *, sha256: str) -> None:
    """Record once that this person has opened a file of the action.

    It is an event of the mailbox: later decisions follow it in the chain.
    """
    if sha256 not in find_opened(action, person):
        chain.record(
            mailbox=action.mailbox_id,
            event="file_opened",
            actor=f"user:{person.pk}",
            action_id=action.pk,
            sha256=sha256,
        )


def find_opened(action: PendingAction, person: User) -> set[str]:
    """Return the hashes of the files of the action that this person has opened."""
    events = AuditEvent.objects.filter(
        action_id=action.pk, event="file_opened", actor=f"user:{person.pk}"
    )
    return {str(data.get("sha256")) for data in events.values_list("data", flat=True)}
