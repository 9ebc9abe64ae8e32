"""Verification of the audit chains; their heads are anchored outside the database (`anchors`).

The chain itself shows events that were altered, or removed from its middle. If its end was cut off,
or somebody who has the key rewrote it, only a head that was kept elsewhere shows it. Set
MAILHUB_AUDIT_ANCHORS_COPY to a place that the owner of the database cannot reach.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from uuid import UUID

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from approvals.audit import anchors
from approvals.audit.anchors import Head, anchor, heads_file
from approvals.audit.chain import hash_of
from approvals.audit.findings import Finding, Wrong
from approvals.audit.orders import History, unclaimed_attempts, unsigned_decisions
from approvals.models import AuditChain, AuditEvent

__all__ = [
    "Checked",
    "Finding",
    "anchor",
    "check_chains",
    "compare_with_anchors",
    "heads_file",
    "verify",
]

BEGINNING = "0" * 64
BATCH = 2000
LOOKED_UP = 100  # events of so many chains in one statement


@dataclass(frozen=True, kw_only=True)
class Checked:
    """The findings in a chain, and the numbers of checked and of skipped older events."""

    chain: UUID
    looked_at: int
    skipped: int
    findings: list[Finding]


def verify() -> list[Finding]:
    """Return all defects of any chain, decision or attempt."""
    of_chains = [finding for chain in check_chains() for finding in chain.findings]
    return [*of_chains, *unsigned_decisions(), *unclaimed_attempts()]


def compare_with_anchors() -> list[Finding]:
    """Return the chains that do not fit the newest file of anchors: the database was set back.

    It reads only the heads of the chains and at most one event of each, so it is cheap enough for
    the start of a process.
    """
    known = anchors.READER.newest()  # before the chains are read: they only grow
    chains = {
        pk: (length, head)
        for pk, length, head in AuditChain.objects.values_list("pk", "length", "head")
    }
    found, older = [], []
    for head in known.values():
        length, last = chains.get(head.chain, (0, BEGINNING))
        if length < head.length:
            missing = _missing_at_the_end(head.length - length)
            found.append(_finding(head.chain, length + 1, "cut", missing))
        elif length > head.length:
            older.append(head)
        elif last != head.hash:
            found.append(_other_head(head))
    for first in range(0, len(older), LOOKED_UP):
        some = older[first : first + LOOKED_UP]
        links = AuditEvent.objects.filter(
            chain__in={head.chain for head in some}, sequence__in={head.length for head in some}
        )
        hashes = {
            (chain, sequence): said
            for chain, sequence, said in links.values_list("chain", "sequence", "hash")
        }
        found += [
            _other_head(head) for head in some if hashes.get((head.chain, head.length)) != head.hash
        ]
    return found


def _other_head(head: Head) -> Finding:
    return _finding(head.chain, head.length, "rewritten", _("another event was anchored here"))


def check_chains(
    only: Collection[UUID] | None = None, *, newest: int | None = None
) -> list[Checked]:
    """Return each chain, or each of these, with its defects.

    With `newest` it checks only so many events of each. It takes no lock, and events may arrive
    meanwhile.
    """
    ours: dict[UUID, list[Head]] = {}
    strange: dict[UUID, list[Finding]] = {}
    for head, genuine in anchors.read_heads(only):
        if genuine:
            ours.setdefault(head.chain, []).append(head)
        else:
            found = _finding(
                head.chain,
                head.length,
                "altered",
                _("mailhub did not write a line of the anchor file"),
            )
            strange.setdefault(head.chain, []).append(found)
    rows = AuditChain.objects.all() if only is None else AuditChain.objects.filter(pk__in=only)
    chains = {chain.pk: chain for chain in rows}
    wanted = chains.keys() | ours.keys() | strange.keys() if only is None else only
    return [
        _check_chain(each, chains.get(each), ours.get(each, []), strange.get(each, []), newest)
        for each in sorted(wanted, key=str)
    ]


def _check_chain(
    chain_id: UUID,
    chain: AuditChain | None,
    anchored: list[Head],
    found: list[Finding],
    newest: int | None,
) -> Checked:
    """Check one chain.

    1. Each link fits its hash, and the one before it.
    2. The chain ends where its head says.
    3. The anchors agree.
    """
    length, last = (chain.length, chain.head) if chain else (0, BEGINNING)
    sequence = skipped = 0 if newest is None else max(length - newest, 0)
    previous = BEGINNING if not skipped else None  # the event before the first one was not read
    wanted = _hashes_by_length(anchored, after=skipped)
    found += _find_two_anchors(chain_id, wanted)
    looked_at, history = 0, History(chain_id, whole=not skipped)
    for link in _links(chain_id, after=skipped):
        looked_at += 1
        found += _check_link(link, sequence, previous)
        found += history.add_event(link)
        hashes = wanted.pop(link.sequence, {link.hash})
        if link.hash not in hashes:
            found.append(
                _finding(chain_id, link.sequence, "rewritten", _("another event was anchored here"))
            )
        sequence, previous = link.sequence, link.hash
        length, last = link.chain.length, link.chain.head  # as it was when this link was read
    longest = max([length, *wanted])
    if longest > sequence:
        missing = _missing_at_the_end(longest - sequence)
        found.append(_finding(chain_id, sequence + 1, "cut", missing))
    elif (length, last) != (sequence, previous or last):
        found.append(
            _finding(chain_id, sequence, "rewritten", _("the head of the chain names another end"))
        )
    return Checked(chain=chain_id, looked_at=looked_at, skipped=skipped, findings=found)


def _missing_at_the_end(count: int) -> str:
    words = ngettext(
        "%(n)s event is missing at the end", "%(n)s events are missing at the end", count
    )
    return words % {"n": count}


def _hashes_by_length(anchored: list[Head], *, after: int) -> dict[int, set[str]]:
    """Return the anchored hashes for each length of the chain beyond `add_event`."""
    found: dict[int, set[str]] = {}
    for head in anchored:
        if head.length > after:
            found.setdefault(head.length, set()).add(head.hash)
    return found


def _find_two_anchors(chain_id: UUID, wanted: dict[int, set[str]]) -> list[Finding]:
    """Return a finding for each length with two different anchored hashes."""
    return [
        _finding(chain_id, at, "rewritten", _("two different events were anchored here"))
        for at, hashes in wanted.items()
        if len(hashes) > 1
    ]


def _check_link(link: AuditEvent, sequence: int, previous: str | None) -> Iterator[Finding]:
    """Yield the defects of a link after the one with this sequence number and hash."""
    if link.sequence != sequence + 1:
        count = link.sequence - sequence - 1
        missing = ngettext("%(n)s event is missing", "%(n)s events are missing", count)
        missing %= {"n": count}
        yield _finding(link.chain_id, sequence + 1, "removed", missing)
    if hash_of(link) != link.hash:
        detail = _("it does not match its hash")
        yield _finding(link.chain_id, link.sequence, "altered", detail)
    elif link.sequence == sequence + 1 and previous not in (None, link.previous):
        detail = _("it does not follow the event before it")
        yield _finding(link.chain_id, link.sequence, "rewritten", detail)


def _links(chain_id: UUID, *, after: int) -> Iterator[AuditEvent]:
    """Yield the events of a chain in order.

    Each batch is one statement together with the head, so an event that arrives between two batches
    moves both. No lock delays writers meanwhile, as a transaction on SQLite would.
    """
    links = AuditEvent.objects.filter(chain=chain_id).select_related("chain").order_by("sequence")
    full = True
    while full:
        batch = list(links.filter(sequence__gt=after)[:BATCH])
        yield from batch
        full = len(batch) == BATCH  # else the end was reached, even if events are still added
        after = batch[-1].sequence if full else after


def _finding(chain: UUID, sequence: int, wrong: Wrong, detail: str) -> Finding:
    return Finding(chain=chain, sequence=sequence, wrong=wrong, detail=detail)
