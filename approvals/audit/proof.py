"""Verification of the audit chains; their heads are anchored outside the database (`anchors`).

The chain itself shows events that were altered, or removed from its middle. If its end was cut off,
or somebody who has the key rewrote it, only a head that was kept elsewhere shows it. Set
MAILHUB_AUDIT_ANCHORS_COPY to a place that the owner of the database cannot reach.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from uuid import UUID

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from approvals.audit import given_up
from approvals.audit.chain import READER, Head, Link, read_heads
from approvals.audit.findings import Finding
from approvals.audit.orders import unclaimed_attempts, unsigned_decisions
from approvals.audit.verified import End, Verified
from approvals.audit.walk import Walk, contradicts, missing_at_the_end, other_head
from approvals.models import Attempt, AuditChain, AuditEvent, Decision

BATCH = 2000
LOOKED_UP = 100  # events of so many chains in one statement
NOTHING = End()
# A row may be committed after one with a higher key.
READ_AGAIN = 1000


@dataclass(frozen=True, kw_only=True)
class Checked:
    """The findings in a chain, the numbers of checked and of skipped older events, and its end."""

    chain: UUID
    looked_at: int
    skipped: int
    findings: list[Finding]
    end: End


@dataclass(frozen=True, kw_only=True)
class Verification:
    """The findings, the number of checked events, and the end up to which it came."""

    findings: list[Finding]
    looked_at: int
    verified: Verified


def verify() -> list[Finding]:
    """Return all defects of any chain, decision or attempt."""
    return examine().findings


def examine(after: Verified | None = None) -> Verification:
    """Check every chain, decision and attempt; with `after`, only what was added since then.

    What was changed before that place is then not found, except by the newest anchor of its chain.
    """
    newest = {model: _newest_key(model) for model in (Decision, Attempt)}
    checked = check_chains() if after is None else _check_new_events(after)
    findings = [
        *(finding for chain in checked for finding in chain.findings),
        *unsigned_decisions(after.decisions if after else 0),
        *unclaimed_attempts(after.attempts if after else 0),
    ]
    ends = {**(after.ends if after else {}), **{each.chain: each.end for each in checked}}
    return Verification(
        findings=findings,
        looked_at=sum(each.looked_at for each in checked),
        verified=Verified(ends=ends, decisions=newest[Decision], attempts=newest[Attempt]),
    )


def _newest_key(model: type[Decision | Attempt]) -> int:
    newest = model._default_manager.order_by("-pk").values_list("pk", flat=True).first()
    return max((newest or 0) - READ_AGAIN, 0)


def compare_with_anchors() -> list[Finding]:
    """Return the chains that do not fit the newest file of anchors: the database was set back.

    It reads only the heads of the chains and the events of the file, so it is cheap enough for the
    start of a process.
    """
    known = READER.all()  # before the chains are read: they only grow
    chains = _read_chains(AuditChain.objects.all())
    found, older = [], []
    for head in known:
        end = chains.get(head.chain, NOTHING)
        if end.length < head.length:
            missing = missing_at_the_end(head.length - end.length)
            found.append(Finding(head.chain, end.length + 1, "cut", missing))
        elif end.length > head.length:
            older.append(head)
        elif end.hash != head.hash:
            found.append(other_head(head))
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
            other_head(head) for head in some if hashes.get((head.chain, head.length)) != head.hash
        ]
    return found


def check_chains(
    only: Collection[UUID] | None = None, *, newest: int | None = None
) -> list[Checked]:
    """Return each chain, or each of these, with its defects.

    With `newest` it checks only so many events of each. It takes no lock, and events may arrive
    meanwhile.
    """
    ours: dict[UUID, list[Head]] = {}
    strange: dict[UUID, list[Finding]] = {}
    for head, genuine in read_heads(only):
        if genuine:
            ours.setdefault(head.chain, []).append(head)
        else:
            found = Finding(
                head.chain,
                head.length,
                "altered",
                _("mailhub did not write a line of the anchor file"),
            )
            strange.setdefault(head.chain, []).append(found)
    ours = given_up.leave_out(ours)
    rows = AuditChain.objects.all() if only is None else AuditChain.objects.filter(pk__in=only)
    chains = _read_chains(rows)
    wanted = chains.keys() | ours.keys() | strange.keys() if only is None else only
    found_in = []
    for each in sorted(wanted, key=str):
        end = chains.get(each, NOTHING)
        skipped = 0 if newest is None else max(end.length - newest, 0)
        start = End(length=skipped, hash=None) if skipped else NOTHING
        checked = _check_chain(each, end, ours.get(each, []), start)
        found_in.append(replace(checked, findings=strange.get(each, []) + checked.findings))
    return found_in


def _check_new_events(after: Verified) -> list[Checked]:
    """Return the chains that are not as they were, checked from their verified ends."""
    known = READER.newest()  # before the chains are read: they only grow
    chains = _read_chains(AuditChain.objects.all())
    found = []
    for each in sorted(chains.keys() | known.keys() | after.ends.keys(), key=str):
        start, end = after.ends.get(each, NOTHING), chains.get(each, NOTHING)
        anchored = [known[each]] if each in known else []
        if (start.length, start.hash) != (end.length, end.hash) or any(
            line.length > start.length or contradicts(line, start) for line in anchored
        ):
            found.append(_check_chain(each, end, anchored, start))
    return found


def _read_chains(rows: QuerySet[AuditChain]) -> dict[UUID, End]:
    columns = rows.values_list("pk", "length", "head")
    return {chain: End(length=length, hash=last) for chain, length, last in columns}


def _check_chain(chain_id: UUID, end: End, anchored: list[Head], start: End) -> Checked:
    """Check one chain from `start`.

    1. Each link fits its hash, and the one before it.
    2. The chain ends where its head says.
    3. The anchors agree.
    """
    walk = Walk(chain_id, start, anchored)
    length, last = end.length, end.hash
    # `length` and `last` are used below, as they were read with the last link.
    for link, length, last in read_links(chain_id, after=start.length):  # noqa: B007
        walk.add(link)
    walk.finish(length, last)
    return Checked(
        chain=chain_id,
        looked_at=walk.looked_at,
        skipped=start.length,
        findings=walk.findings,
        end=End(
            length=walk.sequence,
            hash=walk.previous,
            approved=frozenset(walk.history.approved),
        ),
    )


def read_links(
    chain_id: UUID, *, after: int = 0, until: int | None = None
) -> Iterator[tuple[Link, int, str]]:
    """Yield the events of a chain in order, with the chain's length and head at that moment.

    Each batch is one statement together with the head, so an event that arrives between two batches
    moves both. No lock delays writers meanwhile, as a transaction on SQLite would.
    """
    links = AuditEvent.objects.filter(chain=chain_id).order_by("sequence")
    if until is not None:
        links = links.filter(sequence__lte=until)
    rows = links.values_list(*Link._fields, "chain__length", "chain__head")
    full = True
    while full:
        batch = list(rows.filter(sequence__gt=after)[:BATCH])
        for *columns, length, head in batch:
            yield Link._make(columns), length, head
        full = len(batch) == BATCH  # else the end was reached, even if events are still added
        after = batch[-1][1] if full else after
