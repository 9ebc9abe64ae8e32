"""Storage of decisions, each with its keyed signature, and reading of the approvals."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django.db.models import OuterRef, Subquery

from accounts.infra.compiled_sql import Insert, Select, database_now, slot
from accounts.infra.fields import EncryptedTextField
from accounts.models import Membership, User
from approvals.core.signatures import sign_decision, verify_decision
from approvals.gate.rules.quorum import find_counted, stored_approvals
from approvals.models import Decision, PendingAction

NOTE: EncryptedTextField = Decision._meta.get_field("note")
PASSAGE: EncryptedTextField = Decision._meta.get_field("passage")
_insert = Insert(
    Decision,
    "action person verdict method revision approval_round digest note passage created_at membership"
    " account_generation seal",
)
# The membership of the person, and the generation of their account.
_tenure = Select(
    lambda: (
        User.objects.filter(pk=slot(User, "id", "pk"))
        .order_by()
        .values_list(
            Subquery(
                Membership.objects.filter(
                    user=OuterRef("pk"), mailbox=slot(Membership, "mailbox")
                ).values("pk")
            ),
            "generation",
        )
    )
)
approving = Select(
    lambda: (
        stored_approvals(
            action=slot(Decision, "action"),
            revision=slot(Decision, "revision"),
            digest=slot(Decision, "digest"),
            approval_round=slot(Decision, "approval_round"),
        )
        .order_by()
        .values_list(
            "person_id", "method", "created_at", "membership", "account_generation", "seal"
        )
    )
)


def record_decision(
    action: PendingAction,
    person: User,
    verdict: Decision.Verdict,
    *,
    method: str,
    note: str = "",
    passage: str = "",
    at: datetime | None = None,
    tenure: tuple[int | None, int] | None = None,
) -> None:
    """Write a decision about the action in its present state, by a person who may decide.

    `method` is how they had signed in, `at` the time by the database's clock, `tenure` what the
    decision rests on, if they are known.
    """
    now = at or database_now()
    ((membership, account),) = (
        (tenure,) if tenure else _tenure(pk=person.pk, mailbox=action.mailbox_id)
    )
    said = {
        "action": action.pk,
        "person": person.pk,
        "method": method,
        "verdict": verdict.value,
        "revision": action.revision,
        "approval_round": action.approval_round,
        "digest": action.digest,
        "created_at": now,
        "membership": membership,
        "account_generation": account,
    }
    row = Decision(action_id=action.pk, person_id=person.pk, verdict=verdict.value, created_at=now)
    _insert(
        **said,
        note=NOTE.encrypt_value(note, row),
        passage=PASSAGE.encrypt_value(passage, row),
        seal=sign_decision(**said),
    )


def describe_approved(action: PendingAction) -> dict[str, Any]:
    """Return what an approval that counts is for."""
    return {
        "action": action.pk,
        "revision": action.revision,
        "digest": action.digest,
        "approval_round": action.approval_round,
    }


def approvals_of(action: PendingAction) -> dict[int, bool]:
    """Return who approved this revision, digest and round, with True if the signature is valid."""
    approved = describe_approved(action)
    return check_approvals(approving(**approved), approved)


def check_approvals(rows: Iterable[Any], approved: Mapping[str, Any]) -> dict[int, bool]:
    """Return the people of these rows of `approving`, with True if all signatures are valid."""
    found: dict[int, bool] = {}
    for person, method, at, membership, account, seal in rows:
        found[person] = found.get(person, True) and verify_decision(
            seal,
            **approved,
            person=person,
            method=method,
            verdict=Decision.Verdict.APPROVED.value,
            created_at=at,
            membership=membership,
            account_generation=account,
        )
    return found


def approving_people(
    action: PendingAction, approvals: Mapping[int, bool] | None = None
) -> set[int]:
    """Return the people whose approval counts.

    `approvals` are those of `approvals_of` if they were read under the same lock.
    """
    found = approvals_of(action) if approvals is None else approvals
    proven = {person for person, holds in found.items() if holds}
    return find_counted(action) & proven if proven else set()
