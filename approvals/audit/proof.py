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
from django.utils.translation import ngettext

from approvals.audit import anchors
from approvals.audit.anchors import Head, anchor, heads_file
from approvals.audit.chain import Link, hash_of
from approvals.audit.findings import Finding, Wrong
from approvals.audit.orders import History, unclaimed_attempts, unsigned_decisions
from approvals.audit.verified import BEGINNING, End, Verified
from approvals.models import Attempt, AuditChain, AuditEvent, Decision

__all__ = [
    "Checked",
    "Finding",
    "anchor",
    "check_chains",
    "compare_with_anchors",
    "examine",
    "heads_file",
    "verify",
]

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
    chains = _ends_of(rows)
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
    known = anchors.READER.newest()  # before the chains are read: they only grow
    chains = _ends_of(AuditChain.objects.all())
    found = []
    for each in sorted(chains.keys() | known.keys() | after.ends.keys(), key=str):
        start, head = after.ends.get(each, NOTHING), chains.get(each, NOTHING)
        anchored = [known[each]] if each in known else []
        is_same = (start.length, start.hash) == (head.length, head.hash)
        if not is_same or any(
            line.length > start.length or _contradicts(line, start) for line in anchored
        ):
            found.append(_check_chain(each, head, anchored, start))
    return found


def _ends_of(rows: QuerySet[AuditChain]) -> dict[UUID, End]:
    heads = rows.values_list("pk", "length", "head")
    return {chain: End(length=length, hash=last) for chain, length, last in heads}


def _contradicts(anchored: Head, end: End) -> bool:
    return anchored.length == end.length and end.hash not in (None, anchored.hash)


def _check_chain(chain_id: UUID, head: End, anchored: list[Head], start: End) -> Checked:
    """Check one chain from `start`; `head` is its end as the chain's row names it.

    1. Each link fits its hash, and the one before it.
    2. The chain ends where its head says.
    3. The anchors agree.
    """
    length, last = head.length, head.hash
    sequence, previous = start.length, start.hash
    wanted = _hashes_by_length(anchored, after=start.length)
    found = _find_two_anchors(chain_id, wanted)
    found += [_other_head(line) for line in anchored if _contradicts(line, start)]
    looked_at = 0
    history = History(chain_id, whole=start.hash is not None, approved=start.approved)
    for link, length, last in _links(chain_id, after=start.length):  # noqa: B007
        looked_at += 1
        found += _check_link(link, sequence, previous)
        found += history.add_event(link)
        hashes = wanted.pop(link.sequence, {link.hash})
        if link.hash not in hashes:
            found.append(
                _finding(chain_id, link.sequence, "rewritten", _("another event was anchored here"))
            )
        sequence, previous = link.sequence, link.hash
    longest = max([length, *wanted])
    if longest > sequence:
        missing = _missing_at_the_end(longest - sequence)
        found.append(_finding(chain_id, sequence + 1, "cut", missing))
    elif length < start.length:
        missing = _missing_at_the_end(start.length - length)
        found.append(_finding(chain_id, length + 1, "cut", missing))
    elif (length, last) != (sequence, previous or last):
        found.append(
            _finding(chain_id, sequence, "rewritten", _("the head of the chain names another end"))
        )
    end = End(length=sequence, hash=previous, approved=frozenset(history.approved))
    return Checked(
        chain=chain_id, looked_at=looked_at, skipped=start.length, findings=found, end=end
    )


def _missing_at_the_end(count: int) -> str:
    words = ngettext(
        "%(n)s event is missing at the end", "%(n)s events are missing at the end", count
    )
    return words % {"n": count}


def _hashes_by_length(anchored: list[Head], *, after: int) -> dict[int, set[str]]:
    """Return the anchored hashes for each length of the chain beyond `after`."""
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


def _check_link(link: Link, sequence: int, previous: str | None) -> Iterator[Finding]:
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


def _links(chain_id: UUID, *, after: int) -> Iterator[tuple[Link, int, str]]:
    """Yield the events of a chain in order, with the chain's length and head at that moment.

    Each batch is one statement together with the head, so an event that arrives between two batches
    moves both. No lock delays writers meanwhile, as a transaction on SQLite would.
    """
    links = AuditEvent.objects.filter(chain=chain_id).order_by("sequence")
    rows = links.values_list(*Link._fields, "chain__length", "chain__head")
    full = True
    while full:
        batch = list(rows.filter(sequence__gt=after)[:BATCH])
        for *columns, length, head in batch:
            yield Link._make(columns), length, head
        full = len(batch) == BATCH  # else the end was reached, even if events are still added
        after = batch[-1][1] if full else after


def _finding(chain: UUID, sequence: int, wrong: Wrong, detail: str) -> Finding:
    return Finding(chain=chain, sequence=sequence, wrong=wrong, detail=detail)
