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
from approvals.audit.beginnings import Beginning
from approvals.audit.chain import Link
from approvals.audit.findings import Finding, make_finding
from approvals.audit.orders import unclaimed_attempts, unsigned_decisions
from approvals.audit.verified import End, Verified
from approvals.audit.walk import Walk, contradicts, other_head
from approvals.models import Attempt, AuditChain, AuditEvent, Decision
from approvals.models.audit import NO_MAILBOX

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
    """The findings in a chain, the numbers of checked and of skipped older events, and its end.

    The first `archived` events are not in the database.
    """

    chain: UUID
    looked_at: int
    skipped: int
    archived: int
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


def examine(after: Verified | None = None, *, archive: bool = False) -> Verification:
    """Check every chain, decision and attempt; with `after`, only what was added since then.

    What was changed before that place is then not found, except by the newest anchor of its chain.
    With `archive`, the archived events are checked too.
    """
    newest = {model: _newest_key(model) for model in (Decision, Attempt)}
    checked = (
        check_chains(archive=archive)
        if after is None
        else _check_new_events(after, archive=archive)
    )
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
    known = anchors.READER.all()  # before the chains are read: they only grow
    chains = _read_chains(AuditChain.objects.all())
    found, older = [], []
    of_chain: dict[UUID, list[Head]] = {}
    for head in known:
        of_chain.setdefault(head.chain, []).append(head)
    for chain, heads in of_chain.items():
        found += _check_beginning(chains.get(chain, NO_CHAIN)[1], heads)
    for head in known:
        end, beginning = chains.get(head.chain, NO_CHAIN)
        if end.length < head.length:
            missing = _missing_at_the_end(head.length - end.length)
            found.append(make_finding(head.chain, end.length + 1, "cut", missing))
        elif head.length <= beginning.length:
            continue  # that event is in the archive
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
    only: Collection[UUID] | None = None, *, newest: int | None = None, archive: bool = False
) -> list[Checked]:
    """Return each chain, or each of these, with its defects.

    With `newest` it checks only so many events of each; with `archive` also the archived events. It
    takes no lock, and events may arrive meanwhile.
    """
    ours: dict[UUID, list[Head]] = {}
    strange: dict[UUID, list[Finding]] = {}
    for head, genuine in anchors.read_heads(only):
        if genuine:
            ours.setdefault(head.chain, []).append(head)
        else:
            found = make_finding(
                head.chain,
                head.length,
                "altered",
                _("mailhub did not write a line of the anchor file"),
            )
            strange.setdefault(head.chain, []).append(found)
    rows = AuditChain.objects.all() if only is None else AuditChain.objects.filter(pk__in=only)
    chains = _read_chains(rows)
    wanted = chains.keys() | ours.keys() | strange.keys() if only is None else only
    found_in = []
    for each in sorted(wanted, key=str):
        row = chains.get(each, NO_CHAIN)
        skipped = 0 if newest is None else max(row[0].length - newest, 0)
        start = End(length=skipped, hash=None) if skipped else NOTHING
        checked = _check_chain(each, row, ours.get(each, []), start, archive=archive)
        found_in.append(replace(checked, findings=strange.get(each, []) + checked.findings))
    return found_in


def _check_new_events(after: Verified, *, archive: bool) -> list[Checked]:
    """Return the chains that are not as they were, checked from their verified ends."""
    known = anchors.READER.newest()  # before the chains are read: they only grow
    archived = anchors.READER.archived()
    chains = _read_chains(AuditChain.objects.all())
    found = []
    for each in sorted(chains.keys() | known.keys() | after.ends.keys(), key=str):
        start, row = after.ends.get(each, NOTHING), chains.get(each, NO_CHAIN)
        anchored = [heads[each] for heads in (known, archived) if each in heads]
        is_same = (start.length, start.hash) == (row[0].length, row[0].hash)
        is_same = is_same and not _check_beginning(row[1], anchored)
        if not is_same or any(
            line.length > start.length or contradicts(line, start) for line in anchored
        ):
            found.append(_check_chain(each, row, anchored, start, archive=archive))
    return found


Row = tuple[End, Beginning]
NO_CHAIN: Row = (NOTHING, Beginning(chain=NO_MAILBOX))


def _read_chains(rows: QuerySet[AuditChain]) -> dict[UUID, Row]:
    """Return where each chain ends, and where it begins in the database."""
    columns = ("pk", "length", "head", "archived", "archived_hash", "archived_seal")
    return {
        chain: (
            End(length=length, hash=last),
            Beginning(chain=chain, length=archived, hash=archived_hash, seal=seal),
        )
        for chain, length, last, archived, archived_hash, seal in rows.values_list(*columns)
    }


def _check_beginning(beginning: Beginning, anchored: list[Head]) -> list[Finding]:
    """Return the finding that mailhub did not archive all events before the beginning."""
    said = [head for head in anchored if head.archived]
    is_ours = beginning.is_ours and not any(
        head.length == beginning.length and head.hash != beginning.hash for head in anchored
    )
    # Only the home that archives has such lines.
    if is_ours and (not said or beginning.length <= max(head.length for head in said)):
        return []
    detail = _("mailhub did not archive all events up to here")
    return [make_finding(beginning.chain, beginning.length, "removed", detail)]


def _check_chain(
    chain_id: UUID, row: Row, anchored: list[Head], start: End, *, archive: bool
) -> Checked:
    """Check one chain from `start`, or from its beginning in the database if that is later.

    1. Each link fits its hash, and the one before it.
    2. The chain ends where its head says.
    3. The anchors agree.

    With `archive` the links before the beginning are read from the archive.
    """
    checked = _walk_chain(chain_id, row, anchored, start, archive=archive)
    if not checked.findings:
        return checked
    # Events that were archived meanwhile are no finding.
    now = _read_chains(AuditChain.objects.filter(pk=chain_id)).get(chain_id, NO_CHAIN)
    if now[1] == row[1]:
        return checked
    return _walk_chain(chain_id, now, anchored, start, archive=archive)


def _walk_chain(
    chain_id: UUID, row: Row, anchored: list[Head], start: End, *, archive: bool
) -> Checked:
    (length, last), beginning = (row[0].length, row[0].hash), row[1]
    before = _check_beginning(beginning, anchored) + _check_leftover(beginning)
    whole = archive or start.length >= beginning.length
    if not whole:
        start = End(length=beginning.length, hash=beginning.hash)
    walk = Walk(chain_id, start, anchored, whole=whole)
    if start.length < beginning.length:
        walk.through_archive(beginning)
    # `length` and `last` are used below, as they were read with the last link.
    for link, length, last in _links(chain_id, after=walk.sequence):  # noqa: B007
        walk.add(link)
    found = before + walk.findings
    sequence, previous = walk.sequence, walk.previous
    longest = max([length, *walk.wanted])
    if longest > sequence:
        missing = _missing_at_the_end(longest - sequence)
        found.append(make_finding(chain_id, sequence + 1, "cut", missing))
    elif length < start.length:
        missing = _missing_at_the_end(start.length - length)
        found.append(make_finding(chain_id, length + 1, "cut", missing))
    elif (length, last) != (sequence, previous or last):
        detail = _("the head of the chain names another end")
        found.append(make_finding(chain_id, sequence, "rewritten", detail))
    return Checked(
        chain=chain_id,
        looked_at=walk.looked_at,
        skipped=start.length,
        archived=beginning.length,
        findings=found,
        end=End(length=sequence, hash=previous, approved=frozenset(walk.history.approved)),
    )


def _check_leftover(beginning: Beginning) -> list[Finding]:
    """Return a finding if the database has an event before the beginning: somebody added it."""
    if beginning.length == 0:
        return []
    early = AuditEvent.objects.filter(chain=beginning.chain, sequence__lte=beginning.length)
    first = early.order_by("sequence").values_list("sequence", flat=True).first()
    if first is None:
        return []
    detail = _("this event is in the archive, and again in the database")
    return [make_finding(beginning.chain, first, "altered", detail)]


def _missing_at_the_end(count: int) -> str:
    words = ngettext(
        "%(n)s event is missing at the end", "%(n)s events are missing at the end", count
    )
    return words % {"n": count}


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
