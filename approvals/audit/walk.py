"""The walk along the links of a chain, in the database or in an exported file, with its findings."""

from collections.abc import Iterator
from uuid import UUID

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from approvals.audit.chain import Head, Link, hash_of
from approvals.audit.findings import Finding, Wrong
from approvals.audit.orders import History
from approvals.audit.verified import End


class Walk:
    """The state of a verification after the links so far.

    `wanted` are the anchored hashes of links that did not come yet.
    """

    def __init__(self, chain: UUID, start: End, anchored: list[Head]) -> None:
        self.chain, self._start = chain, start.length
        self.sequence, self.previous = start.length, start.hash
        self.looked_at = 0
        self.wanted = _hashes_by_length(anchored, after=start.length)
        self.findings = _find_two_anchors(chain, self.wanted)
        self.findings += [other_head(line) for line in anchored if contradicts(line, start)]
        self.history = History(chain, whole=start.hash is not None, approved=start.approved)

    def add(self, link: Link) -> None:
        """Take the next link."""
        self.looked_at += 1
        self.findings += _check_link(link, self.sequence, self.previous)
        self.findings += self.history.add_event(link)
        hashes = self.wanted.pop(link.sequence, {link.hash})
        if link.hash not in hashes:
            detail = _("another event was anchored here")
            self._add_finding(link.sequence, "rewritten", detail)
        self.sequence, self.previous = link.sequence, link.hash

    def finish(self, length: int, last: str | None) -> None:
        """Take note that no link follows; the chain should have this length and last hash."""
        longest = max([length, *self.wanted])
        if longest > self.sequence:
            self._add_finding(self.sequence + 1, "cut", missing_at_the_end(longest - self.sequence))
        elif length < self._start:
            self._add_finding(length + 1, "cut", missing_at_the_end(self._start - length))
        elif (length, last) != (self.sequence, self.previous or last):
            detail = _("the head of the chain names another end")
            self._add_finding(self.sequence, "rewritten", detail)

    def take_findings(self) -> list[Finding]:
        """Return the findings since the last call."""
        found, self.findings = self.findings, []
        return found

    def _add_finding(self, sequence: int, wrong: Wrong, detail: str) -> None:
        self.findings.append(Finding(self.chain, sequence, wrong, detail))


def other_head(head: Head) -> Finding:
    return Finding(head.chain, head.length, "rewritten", _("another event was anchored here"))


def contradicts(anchored: Head, end: End) -> bool:
    return anchored.length == end.length and end.hash not in (None, anchored.hash)


def _hashes_by_length(anchored: list[Head], *, after: int) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for head in anchored:
        if head.length > after:
            found.setdefault(head.length, set()).add(head.hash)
    return found


def _find_two_anchors(chain_id: UUID, wanted: dict[int, set[str]]) -> list[Finding]:
    return [
        Finding(chain_id, at, "rewritten", _("two different events were anchored here"))
        for at, hashes in wanted.items()
        if len(hashes) > 1
    ]


def misplaced(link: Link) -> Finding:
    return Finding(link.chain_id, link.sequence, "altered", _("it is not in its place"))


def missing_at_the_end(count: int) -> str:
    words = ngettext(
        "%(n)s event is missing at the end", "%(n)s events are missing at the end", count
    )
    return words % {"n": count}


def _check_link(link: Link, sequence: int, previous: str | None) -> Iterator[Finding]:
    """Yield the defects of a link after the one with this sequence number and hash."""
    if link.sequence > sequence + 1:
        count = link.sequence - sequence - 1
        missing = ngettext("%(n)s event is missing", "%(n)s events are missing", count)
        yield Finding(link.chain_id, sequence + 1, "removed", missing % {"n": count})
    elif link.sequence <= sequence:  # only in a file: the database sorts them
        yield misplaced(link)
    if hash_of(link) != link.hash:
        detail = _("it does not match its hash")
        yield Finding(link.chain_id, link.sequence, "altered", detail)
    elif link.sequence == sequence + 1 and previous not in (None, link.previous):
        detail = _("it does not follow the event before it")
        yield Finding(link.chain_id, link.sequence, "rewritten", detail)
