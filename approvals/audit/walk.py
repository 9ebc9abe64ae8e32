"""The walk along the links of a chain, in the archive and in the database, with its findings."""

from collections.abc import Iterator
from uuid import UUID

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from approvals.audit import archive
from approvals.audit.anchors import Head
from approvals.audit.beginnings import Beginning
from approvals.audit.chain import Link, hash_of
from approvals.audit.findings import Finding, Wrong, make_finding
from approvals.audit.orders import History
from approvals.audit.verified import End


class Walk:
    """The state of a verification after the links so far.

    `wanted` are the anchored hashes of links that did not come yet. With `whole` every approval
    before `start` is known.
    """

    def __init__(self, chain: UUID, start: End, anchored: list[Head], *, whole: bool) -> None:
        self._chain = chain
        self.sequence, self.previous = start.length, start.hash
        self.looked_at = 0
        self.wanted = _hashes_by_length(anchored, after=start.length)
        self.findings = _find_two_anchors(chain, self.wanted)
        self.findings += [other_head(line) for line in anchored if contradicts(line, start)]
        known = whole and start.hash is not None
        self.history = History(chain, whole=known, approved=start.approved)

    def add(self, link: Link, *, file: str = "") -> None:
        """Take the next link; `file` is its file in the archive."""
        self.looked_at += 1
        self.findings += check_link(link, self.sequence, self.previous, file=file)
        self.findings += self.history.add_event(link)
        hashes = self.wanted.pop(link.sequence, {link.hash})
        if link.hash not in hashes:
            detail = _("another event was anchored here")
            self._add_finding(link.sequence, "rewritten", detail)
        self.sequence, self.previous = link.sequence, link.hash

    def through_archive(self, until: Beginning) -> None:
        """Take the links up to the beginning in the database from the archive."""
        for part in archive.parts_of(self._chain):
            if part.last <= self.sequence or part.first > until.length:
                continue
            try:
                for link in part.read(self._chain):
                    if self.sequence < link.sequence <= until.length:
                        self.add(link, file=part.name)
            except archive.Unreadable:
                detail = _("the archive file %(file)s is damaged") % {"file": part.name}
                self._add_finding(self.sequence + 1, "altered", detail)
        if self.sequence < until.length:
            detail = _("the archive has no events %(first)s to %(last)s") % {
                "first": self.sequence + 1,
                "last": until.length,
            }
            self._add_finding(self.sequence + 1, "removed", detail)
            self.history.forget_earlier()
        elif self.previous != until.hash:
            detail = _("the archive ends with another event than the database begins after")
            self._add_finding(until.length, "rewritten", detail)
        self.sequence, self.previous = until.length, until.hash

    def _add_finding(self, sequence: int, wrong: Wrong, detail: str) -> None:
        self.findings.append(make_finding(self._chain, sequence, wrong, detail))


def other_head(head: Head) -> Finding:
    return make_finding(head.chain, head.length, "rewritten", _("another event was anchored here"))


def contradicts(anchored: Head, end: End) -> bool:
    return anchored.length == end.length and end.hash not in (None, anchored.hash)


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
        make_finding(chain_id, at, "rewritten", _("two different events were anchored here"))
        for at, hashes in wanted.items()
        if len(hashes) > 1
    ]


def check_link(
    link: Link, sequence: int, previous: str | None, *, file: str = ""
) -> Iterator[Finding]:
    """Yield the defects of a link after the one with this sequence number and hash."""
    where = f" ({file})" if file else ""
    if link.sequence != sequence + 1:
        count = link.sequence - sequence - 1
        missing = ngettext("%(n)s event is missing", "%(n)s events are missing", count)
        missing %= {"n": count}
        yield make_finding(link.chain_id, sequence + 1, "removed", missing + where)
    if hash_of(link) != link.hash:
        detail = _("it does not match its hash")
        yield make_finding(link.chain_id, link.sequence, "altered", detail + where)
    elif link.sequence == sequence + 1 and previous not in (None, link.previous):
        detail = _("it does not follow the event before it")
        yield make_finding(link.chain_id, link.sequence, "rewritten", detail + where)
