"""The waits of mails and their results, from the newest mails of a period.

The work is bounded, however many actions there are: one index gives the newest of each mailbox and
state, in one statement for all mailboxes. The figures are computed here, because the databases
have no common function for a percentile.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Count
from django.utils import timezone

from accounts.infra.first_rows import first_rows
from accounts.models import Mailbox, Membership, Role, User
from approvals.core.states import Status
from approvals.models import Decision, PendingAction, Revision

PERIODS = (7, 30, 90)  # days
MOST = 5_000  # mails that one page counts
APPROVED = frozenset(
    {Status.APPROVED, Status.EXECUTING, Status.SUCCEEDED, Status.FAILED, Status.UNKNOWN}
)
# The results in a chart, each with the states of a mail that it stands for.
RESULTS: dict[str, frozenset[Status]] = {
    "approved": APPROVED,
    "rejected": frozenset({Status.REJECTED}),
    "expired": frozenset({Status.EXPIRED}),
    "waiting": frozenset({Status.PENDING}),
    "withdrawn": frozenset({Status.CANCELLED, Status.SUPERSEDED}),
}


@dataclass(kw_only=True)
class Line:
    """The figures of one mailbox, agent or approver; `waits` are seconds until a decision."""

    name: str
    mails: int = 0
    approved: int = 0
    rejected: int = 0
    edited: int = 0
    failed: int = 0
    unknown: int = 0
    expired: int = 0
    asked_back: int = 0
    waits: list[float] = field(default_factory=list)

    @property
    def median(self) -> float | None:
        return percentile(self.waits, 50)

    @property
    def p95(self) -> float | None:
        return percentile(self.waits, 95)

    @property
    def approval_rate(self) -> float | None:
        """Return the approved part of what was approved or rejected, from 0 to 1."""
        return _part(self.approved, self.approved + self.rejected)

    @property
    def edit_rate(self) -> float | None:
        """Return the part that a reviewer edited, from 0 to 1."""
        return _part(self.edited, self.mails)


@dataclass(frozen=True, kw_only=True)
class Figures:
    """All figures of a period; `cut` is True if it has more mails than were counted."""

    days: int
    total: Line
    mailboxes: list[Line]
    agents: list[Line]
    approvers: list[Line]
    by_day: list[tuple[date, Counter[str]]]
    cut: bool


@dataclass(frozen=True, kw_only=True)
class _Mail:
    mailbox_id: UUID
    agent: tuple[int, str]
    status: Status
    created_at: datetime


def percentile(values: Iterable[float], percent: int) -> float | None:
    """Return the nearest-rank percentile; None for no values."""
    ranked = sorted(values)
    return ranked[max(math.ceil(len(ranked) * percent / 100) - 1, 0)] if ranked else None


def _part(count: int, of: int) -> float | None:
    return count / of if of else None


def read_figures(person: User, days: int) -> Figures:
    """Return the figures of the person's mailboxes for the mails that were proposed in a period.

    The number of statements is the same for every number of mailboxes. Only managers of a mailbox
    see who decided there.
    """
    roles = dict(Membership.objects.filter(user=person).values_list("mailbox_id", "role"))
    keys, cut = _newest(roles.keys(), timezone.now() - timedelta(days=days))
    mails = _read_mails(keys)
    decisions = list(
        Decision.objects.filter(action__in=keys)
        .order_by("created_at", "pk")
        .values_list("action_id", "person_id", "verdict", "created_at")
    )
    managed = {mailbox for mailbox, role in roles.items() if role == Role.MANAGER}
    people = User.objects.in_bulk(
        {mail.agent[0] for mail in mails.values()} | {row[1] for row in decisions}
    )
    addresses = dict(Mailbox.objects.filter(pk__in=roles).values_list("pk", "address"))
    first = dict[UUID, datetime]()
    for action, _person, _verdict, at in decisions:
        first.setdefault(action, at)
    tally = _Tally(mails=mails, edited=_find_edited(keys), first=first)
    agents = {mail.agent for mail in mails.values()}
    return Figures(
        days=days,
        total=tally.count(mails),
        mailboxes=tally.group(lambda mail: mail.mailbox_id, addresses),
        agents=tally.group(
            lambda mail: mail.agent,
            {agent: agent[1] or str(people[agent[0]]) for agent in agents},
        ),
        approvers=_by_approver(
            [row for row in decisions if mails[row[0]].mailbox_id in managed], mails, people
        ),
        by_day=_by_day(mails.values(), days),
        cut=cut,
    )


@dataclass(frozen=True, kw_only=True)
class _Tally:
    """Mails with what is known about each; `first` is the time of the first decision."""

    mails: Mapping[UUID, _Mail]
    edited: Collection[UUID]
    first: Mapping[UUID, datetime]

    def count(self, keys: Iterable[UUID], name: str = "") -> Line:
        line = Line(name=name)
        for key in keys:
            mail = self.mails[key]
            line.mails += 1
            line.approved += mail.status in APPROVED
            line.rejected += mail.status == Status.REJECTED
            line.failed += mail.status == Status.FAILED
            line.unknown += mail.status == Status.UNKNOWN
            line.expired += mail.status == Status.EXPIRED
            line.edited += key in self.edited
            if key in self.first:
                line.waits.append(_wait(mail, self.first[key]))
        return line

    def group(self, by: Callable[[_Mail], Any], names: Mapping[Any, str]) -> list[Line]:
        """Return a line for each value of `by`, the most mails first."""
        groups = dict[Any, list[UUID]]()
        for key, mail in self.mails.items():
            groups.setdefault(by(mail), []).append(key)
        return _sort(self.count(keys, names[value]) for value, keys in groups.items())


def _wait(mail: _Mail, at: datetime) -> float:
    return max((at - mail.created_at).total_seconds(), 0)


def _sort(lines: Iterable[Line]) -> list[Line]:
    return sorted(lines, key=lambda line: (-line.mails, line.name))


def _by_approver(
    decisions: Iterable[tuple[UUID, int, str, datetime]],
    mails: Mapping[UUID, _Mail],
    people: Mapping[int, User],
) -> list[Line]:
    """Return a line for each person who decided; its mails are their decisions."""
    lines = dict[int, Line]()
    for action, person, verdict, at in decisions:
        line = lines.setdefault(person, Line(name=str(people[person])))
        line.mails += 1
        line.approved += verdict == Decision.Verdict.APPROVED
        line.rejected += verdict == Decision.Verdict.REJECTED
        line.asked_back += verdict == Decision.Verdict.CHANGES_REQUESTED
        line.waits.append(_wait(mails[action], at))
    return _sort(lines.values())


def _by_day(mails: Iterable[_Mail], days: int) -> list[tuple[date, Counter[str]]]:
    result_of = {status: name for name, some in RESULTS.items() for status in some}
    found = dict[date, Counter[str]]()
    for mail in mails:
        day = timezone.localtime(mail.created_at).date()
        found.setdefault(day, Counter())[result_of[mail.status]] += 1
    today = timezone.localdate()
    shown = [today - timedelta(days=ago) for ago in range(days, -1, -1)]
    return [(day, found.get(day, Counter())) for day in shown]


def _newest(mailboxes: Collection[UUID], since: datetime) -> tuple[list[UUID], bool]:
    found = first_rows(
        PendingAction.objects.filter(created_at__gte=since),
        keys={"mailbox": list(mailboxes), "status": Status.values},
        order=("-created_at", "-id"),
        take=MOST + 1,
    )
    return [key for _, key in found[:MOST]], len(found) > MOST


def _read_mails(keys: Collection[UUID]) -> dict[UUID, _Mail]:
    columns = ("pk", "mailbox_id", "proposer_id", "proposer_name", "status", "created_at")
    return {
        key: _Mail(
            mailbox_id=mailbox, agent=(proposer, name), status=Status(status), created_at=created_at
        )
        for key, mailbox, proposer, name, status, created_at in PendingAction.objects.filter(
            pk__in=keys
        )
        .order_by()
        .values_list(*columns)
    }


def _find_edited(keys: Collection[UUID]) -> set[UUID]:
    """Return the actions with revisions of different content; a new finding has the same one."""
    revisions = Revision.objects.filter(action__in=keys, action__revision__gt=1).order_by()
    contents = revisions.values("action").annotate(n=Count("digest", distinct=True))
    return set(contents.filter(n__gt=1).values_list("action", flat=True))
