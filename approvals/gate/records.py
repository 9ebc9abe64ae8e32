"""Storage of decisions, each with its keyed signature, and reading of the approvals."""

from typing import Any
from uuid import UUID

from django.db.models import F

from accounts.infra.database import database_now
from accounts.models import Mailbox, Membership, User
from approvals.audit import chain
from approvals.core.signatures import sign_decision, verify_decision
from approvals.core.states import FINAL, Status
from approvals.gate.rules.quorum import find_counted, stored_approvals
from approvals.models import Decision, PendingAction


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
