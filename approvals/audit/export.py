"""The audit as a file of JSON lines: written from the database, and verified without it.

The first line names the end of each chain, with a signature, so that missing events show. Each
other line is one event with all that its hash covers, one chain after the other.
"""

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Protocol
from uuid import UUID

from django.utils.translation import gettext as _

from accounts.infra.foreign_text import load_json
from approvals.audit import given_up
from approvals.audit.chain import Head, Link, keyed_hash, read_heads
from approvals.audit.findings import Finding
from approvals.audit.proof import NOTHING, read_links
from approvals.audit.walk import Walk, misplaced
from approvals.models import AuditChain
from approvals.models.audit import NO_MAILBOX

UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


class Writer(Protocol):
    """A place for text, such as a file or the output of a command."""

    def write(self, text: str, /) -> object: ...


def write_audit(file: Writer) -> int:
    """Write all events and return their number. Events that arrive meanwhile are left out."""
    ends = _find_ends()
    file.write(_first_line(ends))
    count = 0
    for end in ends:
        for link, _length, _last in read_links(end.chain, until=end.length):
            file.write(_line_of(link))
            count += 1
    return count


class ExportedAudit:
    """The check of such a file, line by line; `chains` and `events` count what it has read.

    The anchors are compared too, without those that a restore of this database gave up. They show a
    chain that was rewritten with the key.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)
        self._ends: dict[UUID, Head] = {}
        self.chains = self.events = 0

    def check(self) -> Iterator[Finding]:
        """Yield what is altered, missing, or not in its place."""
        ends = _ends_of(next(self._lines, ""))
        if ends is None:
            detail = _("mailhub did not write the first line, or SECRET_KEY is another one")
            yield Finding(NO_MAILBOX, 0, "altered", detail)
            return
        self.chains = len(ends)
        self._ends = {end.chain: end for end in ends}
        walk, waiting = None, self._walks()
        for number, line in enumerate(self._lines, start=2):
            link = _link_of(line)
            while link is not None and link.chain_id in waiting:
                yield from self._finish(walk)
                walk = waiting.popitem()[1]
            if link is None:
                detail = _("line %(n)s is not as mailhub writes it") % {"n": number}
                chain = walk.chain if walk else NO_MAILBOX
                yield Finding(chain, 0, "altered", detail)
            elif walk is None or walk.chain != link.chain_id:
                yield misplaced(link)
            else:
                self.events += 1
                walk.add(link)
                yield from walk.take_findings()
        yield from self._finish(walk)
        while waiting:
            yield from self._finish(waiting.popitem()[1])

    def _walks(self) -> dict[UUID, Walk]:
        """Return a walk for each chain, the last one first."""
        anchored: dict[UUID, list[Head]] = {chain: [] for chain in self._ends}
        for head, genuine in read_heads(anchored):
            if genuine and head.length <= self._ends[head.chain].length:
                anchored[head.chain].append(head)
        anchored = given_up.leave_out(anchored)
        return {
            chain: Walk(chain, NOTHING, [end, *anchored[chain]])
            for chain, end in reversed(self._ends.items())
        }

    def _finish(self, walk: Walk | None) -> Iterator[Finding]:
        if walk is not None:
            end = self._ends[walk.chain]
            walk.finish(end.length, end.hash)
            yield from walk.take_findings()


def _find_ends() -> list[Head]:
    """Return the end of each chain: that of the database, or an anchored head beyond it."""
    anchored: dict[UUID, list[Head]] = {}
    for head, genuine in read_heads():  # before the chains are read: they only grow
        if genuine:
            anchored.setdefault(head.chain, []).append(head)
    anchored = given_up.leave_out(anchored)
    rows = AuditChain.objects.filter(length__gt=0).values_list("pk", "length", "head")
    ends = {chain: [Head(chain=chain, length=length, hash=last)] for chain, length, last in rows}
    for chain, heads in anchored.items():
        ends.setdefault(chain, []).extend(heads)
    longest = [max(heads, key=lambda head: head.length) for heads in ends.values() if heads]
    return sorted(longest, key=lambda head: head.chain)


def _first_line(ends: Iterable[Head]) -> str:
    said = {"ends": [[str(end.chain), end.length, end.hash] for end in ends]}
    return json.dumps({**said, "seal": keyed_hash(json.dumps(said))}) + "\n"


def _ends_of(line: str) -> list[Head] | None:
    """Return the ends that the first line names, or None if mailhub did not write it."""
    try:
        ends = [
            Head(chain=UUID(chain), length=length, hash=last)
            for chain, length, last in load_json(line)["ends"]
        ]
        return ends if _first_line(ends) == line else None
    except UNREADABLE:
        return None


def _line_of(link: Link) -> str:
    said = {
        "chain": str(link.chain_id),
        "sequence": link.sequence,
        "at": link.at.isoformat(),
        "event": link.event,
        "action_id": str(link.action_id or ""),
        "actor": link.actor,
        "data": link.data,
        "previous": link.previous,
        "hash": link.hash,
    }
    return json.dumps(said) + "\n"


def _link_of(line: str) -> Link | None:
    """Return the event of a line, or None if `_line_of` did not make exactly this line."""
    try:
        said = load_json(line)
        link = Link(
            chain_id=UUID(said["chain"]),
            sequence=int(said["sequence"]),
            at=datetime.fromisoformat(said["at"]),
            event=str(said["event"]),
            action_id=UUID(said["action_id"]) if said["action_id"] else None,
            actor=str(said["actor"]),
            data=said["data"],
            previous=str(said["previous"]),
            hash=str(said["hash"]),
        )
        return link if _line_of(link) == line else None
    except UNREADABLE:
        return None
