"""Is the chain what it was? Its heads are anchored in a file outside the database, MAILHUB_HOME/audit-heads.jsonl.

A chain alone shows what was altered or taken out of its middle. That its end was cut off, or that all of it was written
anew by somebody who has the key, shows only against a head that was kept elsewhere: copy the file to where the
database's owner cannot reach.
"""

import fcntl
import json
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from uuid import UUID

from django.conf import settings
from django.utils import timezone
from django.utils.translation import gettext as _

from approvals.audit import hash_of, seal
from approvals.models import AuditChain, AuditEvent
from approvals.models.audit import NO_MAILBOX

ANCHOR_SECONDS = 600
BEGINNING = "0" * 64
BATCH = 2000

Wrong = Literal["altered", "removed", "cut", "rewritten"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What is wrong with a chain, and at which of its events."""

    chain: UUID
    sequence: int
    wrong: Wrong
    detail: str


@dataclass(frozen=True, kw_only=True)
class Head:
    """How long a chain was at some time, and the hash of its last event then."""

    chain: UUID
    length: int
    hash: str

    def line(self, at: str) -> str:
        said = {"at": at, "chain": str(self.chain), "length": self.length, "head": self.hash}
        return json.dumps({**said, "seal": seal(json.dumps(said, sort_keys=True))})


def heads_file() -> Path:
    return Path(settings.MAILHUB_HOME) / "audit-heads.jsonl"


def anchor(*, at_most_every: float = 0) -> int:
    """Write the heads that have moved to the end of the file; returns how many.

    `at_most_every`: do nothing when the file was written less than so many seconds ago. Any number may call at once.
    """
    path = heads_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    if at_most_every and path.exists() and time.time() - path.stat().st_mtime < at_most_every:
        return 0
    with path.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        known = {head.chain: head for head, _genuine in _anchored(path)}
        moved = [
            head
            for chain in AuditChain.objects.filter(length__gt=0)
            if known.get(chain.pk) != (head := Head(chain=chain.pk, length=chain.length, hash=chain.head))
        ]
        now = timezone.now().isoformat()
        file.writelines(head.line(now) + "\n" for head in moved)
        if not moved:
            path.touch()
    return len(moved)


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What was found in a chain: at how many of its events was looked, and how many older ones were left out."""

    chain: UUID
    looked_at: int
    skipped: int
    findings: list[Finding]


def verify() -> list[Finding]:
    """Everything that is wrong with any chain; an empty list when nothing is."""
    return [finding for chain in checked() for finding in chain.findings]


def checked(only: Collection[UUID] | None = None, *, newest: int | None = None) -> list[Checked]:
    """Each chain, or each of these, with what is wrong with it; of a long one only so many of the newest events.

    It takes no lock, and events may arrive meanwhile.
    """
    ours: dict[UUID, list[Head]] = {}
    strange: dict[UUID, list[Finding]] = {}
    for head, genuine in _anchored(heads_file(), only):
        if genuine:
            ours.setdefault(head.chain, []).append(head)
        else:
            found = _finding(head.chain, head.length, "altered", _("a line of the file of heads is not ours"))
            strange.setdefault(head.chain, []).append(found)
    rows = AuditChain.objects.all() if only is None else AuditChain.objects.filter(pk__in=only)
    chains = {chain.pk: chain for chain in rows}
    wanted = chains.keys() | ours.keys() | strange.keys() if only is None else only
    return [
        _look(each, chains.get(each), ours.get(each, []), strange.get(each, []), newest)
        for each in sorted(wanted, key=str)
    ]


def _look(
    chain_id: UUID, chain: AuditChain | None, anchored: list[Head], found: list[Finding], newest: int | None
) -> Checked:
    """1. Each link fits its hash, and the one before it. 2. The end is where the head says. 3. So say the anchors."""
    length, last = (chain.length, chain.head) if chain else (0, BEGINNING)
    sequence = skipped = 0 if newest is None else max(length - newest, 0)
    previous = BEGINNING if not skipped else None  # what the first one follows was not looked at
    wanted = {head.length: head for head in anchored if head.length > skipped}
    looked_at = 0
    for link in _links(chain_id, after=skipped):
        looked_at += 1
        if link.sequence != sequence + 1:
            missing = _("%(n)s missing") % {"n": link.sequence - sequence - 1}
            found.append(_finding(chain_id, sequence + 1, "removed", missing))
        if hash_of(link) != link.hash:
            found.append(_finding(chain_id, link.sequence, "altered", _("it does not fit its hash")))
        elif link.sequence == sequence + 1 and previous not in (None, link.previous):
            found.append(_finding(chain_id, link.sequence, "rewritten", _("it does not follow the one before it")))
        head = wanted.pop(link.sequence, None)
        if head is not None and head.hash != link.hash:
            found.append(_finding(chain_id, link.sequence, "rewritten", _("another event was anchored here")))
        sequence, previous = link.sequence, link.hash
        length, last = link.chain.length, link.chain.head  # as it was when this link was read
    longest = max([length, *wanted])
    if longest > sequence:
        missing = _("%(n)s missing at the end") % {"n": longest - sequence}
        found.append(_finding(chain_id, sequence + 1, "cut", missing))
    elif (length, last) != (sequence, previous or last):
        found.append(_finding(chain_id, sequence, "rewritten", _("the head of the chain names another end")))
    return Checked(chain=chain_id, looked_at=looked_at, skipped=skipped, findings=found)


def _links(chain_id: UUID, *, after: int) -> Iterator[AuditEvent]:
    """The events of a chain in order. Each batch is one statement together with the head, so that an event that arrives
    between two of them moves both; nothing holds writers up meanwhile, as a transaction would on SQLite."""
    links = AuditEvent.objects.filter(chain=chain_id).select_related("chain").order_by("sequence")
    full = True
    while full:
        batch = list(links.filter(sequence__gt=after)[:BATCH])
        yield from batch
        full = len(batch) == BATCH  # else that was the end, whoever writes on
        after = batch[-1].sequence if full else after


def _finding(chain: UUID, sequence: int, wrong: Wrong, detail: str) -> Finding:
    return Finding(chain=chain, sequence=sequence, wrong=wrong, detail=detail)


def _anchored(path: Path, only: Collection[UUID] | None = None) -> Iterator[tuple[Head, bool]]:
    """The heads in the file, of these chains or all, oldest first, and whether each carries our seal."""
    if not path.exists():
        return
    for line in path.read_text().splitlines():
        try:
            said = json.loads(line)
            head, at = Head(chain=UUID(said["chain"]), length=int(said["length"]), hash=said["head"]), said["at"]
        except (ValueError, KeyError, TypeError, AttributeError):  # of which chain it was, nobody can say any more
            head, at = Head(chain=NO_MAILBOX, length=0, hash=""), ""
        if only is None or head.chain in only:
            yield head, head.line(at) == line
