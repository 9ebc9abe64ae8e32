"""Checks that every claim has its approvals, every attempt its claim, every decision its signature.

The chain is keyed, so it is the evidence. Somebody without a key can write rows of other tables.
"""

from collections.abc import Iterable, Iterator
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from approvals.audit.chain import Link
from approvals.audit.findings import Finding
from approvals.core.signatures import verify_decision
from approvals.models import Attempt, AuditEvent, Decision

BATCH = 1000
# After these events an earlier approval no longer counts.
VOIDED = frozenset({"undone", "edited", "changes_requested", "noticed", "returned"})
ENDED = frozenset(
    {"outcome_accepted", "outcome_refused", "rejected", "cancelled", "expired", "superseded"}
)
# The columns of a decision that its signature covers.
SIGNED = (
    "action_id", "person_id", "method", "verdict", "revision", "approval_round", "digest", "created_at",
    "membership", "account_generation",
)  # fmt: skip
VERDICTS = ("approved", "rejected", "changes_requested")  # each is the name of its event too


class History:
    """The state of each action after the events of one chain so far.

    `whole` means that all earlier events are known, and `approved` are the approved actions after
    them.
    """

    def __init__(self, chain: UUID, *, whole: bool, approved: Iterable[UUID] = ()) -> None:
        self._chain = chain
        self._whole = whole
        self._created: set[UUID] = set()
        self.approved = set(approved)

    def add_event(self, link: Link) -> list[Finding]:
        """Take the next event; return the defects that it shows."""
        action = link.action_id
        if action is None:
            return []
        data = link.data if isinstance(link.data, dict) else {}
        if link.event == "created":
            self._created.add(action)
        elif link.event == "approved" and _has_enough(data):
            self.approved.add(action)
        elif link.event in VOIDED:
            self.approved.discard(action)
        elif link.event == "claimed" and action not in self.approved:
            # If only the newest events are checked, the approval may be before them.
            if self._whole or action in self._created:
                detail = _("a worker claimed an action that nobody had approved")
                return [
                    Finding(
                        chain=self._chain, sequence=link.sequence, wrong="unapproved", detail=detail
                    )
                ]
        elif link.event in ENDED:
            self.approved.discard(action)
            self._created.discard(action)
        return []


def unclaimed_attempts(after: int = 0) -> Iterator[Finding]:
    """Yield the attempts with a higher key that have no worker's claim in the audit."""
    attempts = (
        Attempt.objects.filter(pk__gt=after)
        .order_by("pk")
        .values_list("pk", "action_id", "action__mailbox_id", "fence")
    )
    for some in _in_batches(attempts):
        events = AuditEvent.objects.filter(event="claimed", action_id__in={row[1] for row in some})
        claims = {
            (action, data.get("fence")) for action, data in events.values_list("action_id", "data")
        }
        for _pk, action, mailbox, fence in some:
            if (action, fence) not in claims:
                detail = _("attempt %(n)s of action %(id)s was not claimed by a worker") % {
                    "n": fence,
                    "id": action,
                }
                yield Finding(chain=mailbox, sequence=0, wrong="unclaimed", detail=detail)


def unsigned_decisions(after: int = 0) -> Iterator[Finding]:
    """Yield the decisions with a higher key that mailhub did not write.

    A decision from an older version has no signature; then its event in the audit is the proof.
    """
    decisions = (
        Decision.objects.filter(pk__gt=after)
        .order_by("pk")
        .values_list("pk", *SIGNED, "seal", "action__mailbox_id", named=True)
    )
    for some in _in_batches(decisions):
        recorded = _recorded_verdicts({row.action_id for row in some if not row.seal})
        for row in some:
            verdict = (row.action_id, f"user:{row.person_id}", row.verdict)
            if not _is_signed(row) and (row.seal or verdict not in recorded):
                detail = _("decision %(n)s on action %(id)s was not written by mailhub") % {
                    "n": row.pk,
                    "id": row.action_id,
                }
                yield Finding(
                    chain=row.action__mailbox_id, sequence=0, wrong="unsealed", detail=detail
                )


def _recorded_verdicts(actions: set[UUID]) -> set[tuple[UUID | None, str, str]]:
    if not actions:
        return set()
    events = AuditEvent.objects.filter(event__in=VERDICTS, action_id__in=actions)
    return {(event.action_id, event.actor, event.event) for event in events}


def _is_signed(row: Any) -> bool:
    said = {name.removesuffix("_id"): getattr(row, name) for name in SIGNED}
    return verify_decision(row.seal, **said)


def _has_enough(data: dict[str, Any]) -> bool:
    given, needed = data.get("given"), data.get("needed")
    return isinstance(given, int) and isinstance(needed, int) and given >= needed >= 1


def _in_batches(rows: QuerySet[Any, Any]) -> Iterator[list[Any]]:
    """Yield the rows in order of their key, their first column, in separate statements."""
    batch = list(rows[:BATCH])
    while batch:
        yield batch
        batch = list(rows.filter(pk__gt=batch[-1][0])[:BATCH])
