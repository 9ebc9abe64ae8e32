"""Is the chain what it was? Its heads are anchored in a file outside the database, MAILHUB_HOME/audit-heads.jsonl.

A chain alone shows what was altered or taken out of its middle. That its end was cut off, or that all of it was written
anew by somebody who has the key, shows only against a head that was kept elsewhere: copy the file to where the
database's owner cannot reach.
"""

import fcntl
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Literal
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from approvals.audit import hash_of, seal
from approvals.models import AuditChain, AuditEvent

ANCHOR_SECONDS = 600
BEGINNING = "0" * 64

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
        known = {head.chain: head for head, _ in _anchored(path)}
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


def verify() -> list[Finding]:
    """Everything that is wrong with any chain; an empty list when nothing is."""
    findings: list[Finding] = []
    anchored: dict[UUID, list[Head]] = {}
    for head, genuine in _anchored(heads_file()):
        if genuine:
            anchored.setdefault(head.chain, []).append(head)
        else:
            findings.append(_finding(head.chain, head.length, "altered", "a line of the file of heads is not ours"))
    with transaction.atomic():
        chains = {chain.pk: chain for chain in AuditChain.objects.all()}
        events = AuditEvent.objects.order_by("chain_id", "sequence").iterator()
        seen = set()
        for chain_id, links in groupby(events, key=lambda link: link.chain_id):
            seen.add(chain_id)
            findings += _of_chain(chain_id, links, chains.get(chain_id), anchored.get(chain_id, []))
    for chain_id in (chains.keys() | anchored.keys()) - seen:
        findings += _of_chain(chain_id, iter(()), chains.get(chain_id), anchored.get(chain_id, []))
    return findings


def _of_chain(
    chain_id: UUID, links: Iterator[AuditEvent], chain: AuditChain | None, anchored: list[Head]
) -> Iterator[Finding]:
    """1. Each link fits its hash, and the one before it. 2. The end is where the head says. 3. So say the anchors."""
    wanted = {head.length: head for head in anchored}
    sequence, previous = 0, BEGINNING
    for link in links:
        if link.sequence != sequence + 1:
            yield _finding(chain_id, sequence + 1, "removed", f"{link.sequence - sequence - 1} missing")
        if hash_of(link) != link.hash:
            yield _finding(chain_id, link.sequence, "altered", "it does not fit its hash")
        elif link.sequence == sequence + 1 and link.previous != previous:
            yield _finding(chain_id, link.sequence, "rewritten", "it does not follow the one before it")
        head = wanted.pop(link.sequence, None)
        if head is not None and head.hash != link.hash:
            yield _finding(chain_id, link.sequence, "rewritten", "another event was anchored here")
        sequence, previous = link.sequence, link.hash
    length, last = (chain.length, chain.head) if chain else (0, BEGINNING)
    longest = max([length, *wanted])
    if longest > sequence:
        yield _finding(chain_id, sequence + 1, "cut", f"{longest - sequence} missing at the end")
    elif (length, last) != (sequence, previous):
        yield _finding(chain_id, sequence, "rewritten", "the head of the chain names another end")


def _finding(chain: UUID, sequence: int, wrong: Wrong, detail: str) -> Finding:
    return Finding(chain=chain, sequence=sequence, wrong=wrong, detail=detail)


def _anchored(path: Path) -> Iterator[tuple[Head, bool]]:
    """The heads in the file, oldest first, and whether each carries our seal."""
    if not path.exists():
        return
    for line in path.read_text().splitlines():
        said = json.loads(line)
        head = Head(chain=UUID(said["chain"]), length=said["length"], hash=said["head"])
        yield head, head.line(said["at"]) == line
