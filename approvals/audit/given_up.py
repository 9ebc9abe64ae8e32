"""Anchored events that a restore gave up: an operator said so, and the chain of the server says it.

The restored database does not have them, and never will. Without this they would be findings for
ever, and nobody heeds an alarm that is always red. Only somebody with the key can write such an event,
and `verify_audit` tells each.
"""

from collections.abc import Iterator
from datetime import datetime
from uuid import UUID

from approvals.audit.chain import Head, read_heads
from approvals.models import AuditEvent
from approvals.models.audit import NO_MAILBOX

EVENT = "restore_reconciled"
Ranges = dict[UUID, list[tuple[int, int]]]


def find_lost() -> dict[str, list[int]]:
    """Return the first and the last anchored number of each chain that the database does not have,
    or has with another content.
    """
    of_chain: dict[UUID, dict[int, set[str]]] = {}
    for head, genuine in read_heads():
        if genuine:
            of_chain.setdefault(head.chain, {}).setdefault(head.length, set()).add(head.hash)
    found = {}
    for chain, heads in of_chain.items():
        there = AuditEvent.objects.filter(chain=chain).order_by("sequence")
        first: int = there.values_list("sequence", flat=True).first() or 1
        lost = {length: hashes for length, hashes in heads.items() if length >= first}
        for sequence, said in there.values_list("sequence", "hash").iterator():
            if lost.get(sequence) == {said}:
                del lost[sequence]
        if lost:
            found[str(chain)] = [min(lost), max(lost)]
    return found


def read() -> Iterator[tuple[datetime, dict[str, list[int]]]]:
    """Yield when each restore was acknowledged, and what it gave up."""
    events = AuditEvent.objects.filter(chain=NO_MAILBOX, event=EVENT).order_by("sequence")
    for at, data in events.values_list("at", "data"):
        if isinstance(data, dict) and data.get("given_up"):
            yield at, data["given_up"]


def leave_out(heads: dict[UUID, list[Head]]) -> dict[UUID, list[Head]]:
    """Return the heads without those that a restore gave up and the database does not have."""
    ranges: Ranges = {}
    for _, lost in read():
        for chain, (first, last) in lost.items():
            ranges.setdefault(UUID(chain), []).append((first, last))
    return {
        chain: _leave_out(chain, of_chain, ranges[chain]) if chain in ranges else of_chain
        for chain, of_chain in heads.items()
    }


def _leave_out(chain: UUID, heads: list[Head], ranges: list[tuple[int, int]]) -> list[Head]:
    first, last = min(first for first, _ in ranges), max(last for _, last in ranges)
    there = AuditEvent.objects.filter(chain=chain, sequence__range=(first, last))
    hashes = dict(there.values_list("sequence", "hash"))
    return [
        head
        for head in heads
        if hashes.get(head.length) == head.hash
        or not any(first <= head.length <= last for first, last in ranges)
    ]
