"""The members of a mailbox at each time, from its audit: pure functions for the checker."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from tests.faults.facts import Action, Decision, Member, Tables

MAY_APPROVE = ("approver", "manager")
# An event is dated before its transaction ends, so a decision in between did not see it.
COMMITTED = timedelta(seconds=2)


def counts(decision: Decision, action: Action, claimed: datetime, tables: Tables) -> bool:
    """Return True if the person was allowed to approve then, and did not lose that before the
    claim.

    A person without any event is a member from the beginning, with the role to approve.
    """
    events = sorted(
        (
            each
            for each in tables.members
            if (each.mailbox, each.person) == (action.mailbox, decision.person)
        ),
        key=lambda each: each.at,
    )
    return not _was_out(events, decision.at) and not any(
        _loses(each) and decision.at < each.at < claimed - COMMITTED for each in events
    )


def _was_out(events: Sequence[Member], at: datetime) -> bool:
    earlier = [each for each in events if each.at <= at]
    return bool(earlier) and _loses(earlier[-1]) and earlier[-1].at < at - COMMITTED


def _loses(event: Member) -> bool:
    return event.event in ("member_removed", "left") or event.role not in MAY_APPROVE
