"""The actions of a load: each with its revision, decision, attempt and audit events."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

from approvals.audit import chain
from approvals.core.at_rest import encrypt_revision
from approvals.core.signatures import digest_of
from approvals.core.states import FINAL, Status
from approvals.core.types import Proposal
from approvals.models import (
    Attempt,
    AuditChain,
    AuditEvent,
    Author,
    Blob,
    Decision,
    PendingAction,
    Revision,
)
from tests.load.people import PROGRAM, Box, random_id
from tests.load.writing import Writer

TOOL = "send_email"
PERIOD = timedelta(days=360)  # over which the finished actions are spread
DECIDED_AFTER = timedelta(minutes=4)
LEFT_AFTER = timedelta(minutes=5)
LIFETIME = timedelta(days=7)
# Of a thousand finished actions.
ENDS = Counter({
    Status.SUCCEEDED: 930,
    Status.REJECTED: 40,
    Status.EXPIRED: 10,
    Status.CANCELLED: 10,
    Status.FAILED: 9,
    Status.UNKNOWN: 1,
})  # fmt: skip
VERDICTS = {
    Status.SUCCEEDED: Attempt.Verdict.ACCEPTED,
    Status.FAILED: Attempt.Verdict.REFUSED,
    Status.UNKNOWN: Attempt.Verdict.UNKNOWN,
}
APPROVED = (*VERDICTS, Status.APPROVED)

Content = Callable[[Random, Box, str], Proposal]


@dataclass(frozen=True, kw_only=True)
class Planned:
    """The mailbox of an action, its state, and when it was proposed.

    `not_before` is for approved actions. `kept` is False if its content was purged.
    """

    box: Box
    status: Status
    at: datetime
    not_before: datetime | None = None
    kept: bool = True


@dataclass(kw_only=True)
class Chains:
    """The ends of the audit chains that grow during a load."""

    ends: dict[UUID, tuple[int, str]] = field(default_factory=dict)

    def link(self, box: Box, event: str, at: datetime, **members: Any) -> AuditEvent:
        length, head = self.ends.get(box.id, (0, "0" * 64))
        link = AuditEvent(
            chain_id=box.id,
            mailbox_id=box.id,
            sequence=length + 1,
            at=at,
            event=event,
            previous=head,
            **members,
        )
        link.hash = chain.hash_of(link)
        self.ends[box.id] = (link.sequence, link.hash)
        return link

    def write(self) -> None:
        """Move the heads of the chains to their ends."""
        moved = [
            AuditChain(id=key, length=length, head=head)
            for key, (length, head) in self.ends.items()
        ]
        AuditChain.objects.bulk_update(moved, ["length", "head"], batch_size=500)


def plan(
    boxes: Sequence[Box],
    chosen: Random,
    now: datetime,
    *,
    finished: int,
    pending: int,
    held: int,
    scheduled: int,
    kept_days: int,
) -> Iterator[Planned]:
    """Yield the actions by age, the oldest first. A few mailboxes have most of them."""
    states = list(ENDS.elements())
    for number in range(finished):
        at = now - timedelta(days=1) - PERIOD * (1 - number / finished)
        kept = at > now - timedelta(days=kept_days)
        status = chosen.choice(states)
        yield Planned(
            box=_busy(boxes, chosen), status=status, at=at, kept=kept or status not in FINAL
        )
    paused = [box for box in boxes if box.paused] or boxes
    opened = now - timedelta(hours=20)
    held_since, later = now - timedelta(minutes=30), now + timedelta(days=1)
    open_ones = [
        *((Status.PENDING, None) for _ in range(pending)),
        *((Status.APPROVED, held_since) for _ in range(held)),
        *((Status.APPROVED, later) for _ in range(scheduled)),
    ]
    chosen.shuffle(open_ones)
    for number, (status, not_before) in enumerate(open_ones):
        spread = timedelta(milliseconds=number)
        yield Planned(
            box=chosen.choice(paused) if not_before is held_since else _busy(boxes, chosen),
            status=status,
            at=opened + spread,
            not_before=not_before + spread if not_before else None,
        )


def _busy(boxes: Sequence[Box], chosen: Random) -> Box:
    return boxes[int(len(boxes) * chosen.random() ** 2)]


def add_action(
    writer: Writer,
    planned: Planned,
    content: Content,
    chains: Chains,
    chosen: Random,
    now: datetime,
) -> None:
    """Add an action with all its rows, as if it had gone its way.

    No decision and no order to leave is signed, so a worker returns an approved one to a person
    instead of sending it.
    """
    box, at, key = planned.box, planned.at, random_id(chosen)
    made = content(chosen, box, f"<{key.hex}@load.example>")
    digest = digest_of(made.payload)
    action = _action(planned, made, key, digest, now)
    revision = Revision(
        action_id=key,
        number=1,
        author_id=box.owner,
        payload=dict(made.payload) if planned.kept else {},
        preview=made.preview.as_json() if planned.kept else {},
        digest=digest,
        created_at=at,
    )
    encrypt_revision(revision)
    writer.add(action, Author(action_id=key, person_id=box.owner), revision)
    if planned.kept:
        for blob in made.blobs:
            sha256 = hashlib.sha256(blob).hexdigest()
            writer.add(Blob(action_id=key, sha256=sha256, content=blob))
    _add_way(writer, planned, action, chains)


def _action(
    planned: Planned, made: Proposal, key: UUID, digest: str, now: datetime
) -> PendingAction:
    status, at, box = planned.status, planned.at, planned.box
    approved = status in APPROVED
    ended = at + LEFT_AFTER if status in FINAL else None
    return PendingAction(
        id=key,
        kind=made.kind,
        tool=TOOL,
        mailbox_id=box.id,
        proposer_id=box.owner,
        proposer_name=PROGRAM,
        token_id=box.token,
        status=status,
        digest=digest,
        message_id=made.message_id,
        fingerprint=made.preview.fingerprint,
        approvals_given=1 if approved else 0,
        created_at=at,
        expires_at=(at if ended else now) + LIFETIME,
        approved_at=at + DECIDED_AFTER if approved else None,
        undo_until=at + DECIDED_AFTER if status == Status.APPROVED else None,
        not_before=planned.not_before,
        finished_at=ended,
        purged_at=None if planned.kept else ended,
        fence=1 if status in VERDICTS else 0,
        receipt={"recipient_count": 1} if status == Status.SUCCEEDED else None,
    )


def _add_way(writer: Writer, planned: Planned, action: PendingAction, chains: Chains) -> None:
    """Add the decision and the attempt that led to the state, and the events of each step."""
    box, at, status = planned.box, planned.at, planned.status
    person = f"user:{box.owner}"

    def add_event(event: str, after: timedelta, actor: str, **data: Any) -> None:
        link = chains.link(box, event, at + after, action_id=action.pk, actor=actor, data=data)
        writer.add(link)

    add_event("created", timedelta(0), f"token:{box.token}", digest=action.digest, tool=TOOL)
    if status in APPROVED or status == Status.REJECTED:
        verdict = Decision.Verdict.APPROVED if status in APPROVED else Decision.Verdict.REJECTED
        writer.add(_decision(action, box, verdict, at + DECIDED_AFTER))
        counted = {"given": 1, "needed": 1} if status in APPROVED else {}
        add_event(verdict.value, DECIDED_AFTER, person, digest=action.digest, **counted)
    if status in VERDICTS:
        writer.add(_attempt(action, VERDICTS[status], at + LEFT_AFTER))
        add_event("claimed", LEFT_AFTER, "worker", fence=1)
        outcome = f"outcome_{VERDICTS[status].value}"
        add_event(outcome, LEFT_AFTER, "worker", fence=1, code="", evidence="answer")
    elif status in (Status.EXPIRED, Status.CANCELLED):
        add_event(status.value, LEFT_AFTER, "worker" if status == Status.EXPIRED else person)


def _decision(action: PendingAction, box: Box, verdict: Decision.Verdict, at: datetime) -> Decision:
    return Decision(
        action_id=action.pk,
        person_id=box.owner,
        membership=box.membership,
        verdict=verdict,
        revision=1,
        approval_round=1,
        digest=action.digest,
        created_at=at,
    )


def _attempt(action: PendingAction, verdict: Attempt.Verdict, at: datetime) -> Attempt:
    return Attempt(
        action_id=action.pk,
        fence=1,
        phase=Attempt.Phase.WIRE_STARTED,
        verdict=verdict,
        evidence="answer",
        worker="load",
        started_at=at,
        wire_started_at=at,
        ended_at=at,
    )
