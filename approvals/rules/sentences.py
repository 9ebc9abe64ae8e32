"""The rules of a mailbox as sentences: the rules, the problems, and the effect of a change."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.utils.dates import WEEKDAYS
from django.utils.timezone import now
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from accounts.models import Membership, Role
from approvals.models import ApprovalPolicy
from approvals.rules.policy import DAYS, approvers_of, blocked_by, window_of


def sentences(policy: ApprovalPolicy) -> list[str]:
    """Return the rules as sentences, one for each rule that applies."""
    said = [
        _approvers(policy.approver_role),
        _people(policy.approvals_needed),
        _self_approval(policy.lets_proposer_approve()),
        _hours(policy.action_hours),
        _minutes(policy.approval_minutes),
        _undo(policy.undo_seconds),
        _recipients(policy),
        _cap(policy.daily_cap),
        _window(policy),
    ]
    return [*said, _("Nothing ever leaves without a person.")]


def _approvers(role: Any) -> str:
    if role == Role.MANAGER:
        return _("Only managers may approve.")
    return _("Everybody who is an approver or a manager may approve.")


def _people(needed: Any) -> str:
    return ngettext("%(n)s approval is enough.", "%(n)s different people must approve.", needed) % {
        "n": needed
    }


def _self_approval(allowed: Any) -> str:
    if allowed:
        return _("The person who proposed it, or owns the token that did, may approve it.")
    return _("The person who proposed it, or owns the token that did, may not approve it.")


def _hours(hours: Any) -> str:
    n = hours or settings.MAILHUB_ACTION_TTL_HOURS
    return ngettext("A proposal waits %(n)s hour.", "A proposal waits %(n)s hours.", n) % {"n": n}


def _minutes(minutes: Any) -> str:
    if minutes is None:
        return _("An approval is good as long as the proposal.")
    return ngettext(
        "An approval is good for %(n)s minute.", "An approval is good for %(n)s minutes.", minutes
    ) % {"n": minutes}


def _undo(seconds: Any) -> str:
    n = settings.MAILHUB_UNDO_SECONDS if seconds is None else seconds
    if not n:
        return _("It leaves at once: there is no time to undo an approval.")
    return ngettext(
        "An approval can be undone for %(n)s second.",
        "An approval can be undone for %(n)s seconds.",
        n,
    ) % {"n": n}


def _recipients(policy: ApprovalPolicy) -> str:
    allowed = _("Mail may go to anybody")
    if policy.allowed:
        allowed = _("Mail may only go to %(list)s") % {"list": ", ".join(policy.allowed)}
    if not policy.refused:
        return f"{allowed}."
    return _("%(allowed)s, and never to %(list)s.") % {
        "allowed": allowed,
        "list": ", ".join(policy.refused),
    }


def _cap(cap: Any) -> str:
    if cap is None:
        return _("There is no limit to how many leave in a day.")
    return ngettext(
        "At most %(n)s mail leaves within 24 hours; the others wait.",
        "At most %(n)s mails leave within 24 hours; the others wait.",
        cap,
    ) % {"n": cap}


def _window(policy: ApprovalPolicy) -> str:
    if not policy.open_days and policy.open_from is None:
        return _("Mail may leave at any hour.")
    when = _days(policy.open_days) if policy.open_days else _("every day")
    if policy.open_from is None:
        return _("Mail leaves on %(days)s, %(zone)s time; at other times it waits.") % {
            "days": when,
            "zone": policy.time_zone,
        }
    until = policy.open_until.strftime("%H:%M") if policy.open_until else "24:00"
    return _(
        "Mail leaves on %(days)s from %(from)s to %(until)s, %(zone)s time; at other times it waits."
    ) % {
        "days": when,
        "from": policy.open_from.strftime("%H:%M"),
        "until": until,
        "zone": policy.time_zone,
    }


def _days(days: str) -> str:
    return ", ".join(str(WEEKDAYS[DAYS.index(day)]) for day in days)


# --- Rules that nobody can meet ---


def hindrances(policy: ApprovalPolicy) -> list[str]:
    """Return why the present people cannot approve some or all mail under these rules."""
    approvers = list(approvers_of(policy).select_related("user"))
    proposers = Membership.objects.filter(
        mailbox=policy.mailbox_id, role__in=Role.at_least(Role.PROPOSER), user__is_active=True
    ).select_related("user")
    found = []
    if len(approvers) < policy.approvals_needed:
        found.append(
            _(
                "%(asked)s different people must approve, and only %(there)s may: nothing can be approved."
            )
            % {"asked": policy.approvals_needed, "there": len(approvers)}
        )
    elif not policy.lets_proposer_approve():
        stuck = [
            str(each.user)
            for each in proposers
            if sum(approver.user_id != each.user_id for approver in approvers)
            < policy.approvals_needed
        ]
        if stuck:
            found.append(
                _(
                    "Mail that %(who)s proposes, in person or through a token, cannot be approved: too few others can."
                )
                % {"who": ", ".join(stuck)}
            )
    if policy.allowed and all(
        entry in blocked_by(policy, policy.allowed) for entry in policy.allowed
    ):
        found.append(_("Everybody to whom mail may go is refused as well: nothing can be sent."))
    window = window_of(policy, now())
    if (
        window
        and policy.approval_minutes is not None
        and _longest_wait(policy) > policy.approval_minutes
    ):
        found.append(
            _(
                "An approval may run out before the hours in which mail leaves begin: it would come back unsent."
            )
        )
    return found


def _longest_wait(policy: ApprovalPolicy) -> float:
    """Return the longest wait between two windows, in minutes, without undo windows."""
    at, longest = now(), timedelta()
    for _each in range(8):
        window = window_of(policy, at)
        if window is None:
            return 0
        later = window_of(policy, window[1])
        longest = max(longest, later[0] - window[1]) if later else longest
        at = window[1]
    return longest.total_seconds() / 60


# --- Effect of a change ---

TOLD: Mapping[str, Callable[[Any], str]] = {
    "approver_role": _approvers,
    "approvals_needed": _people,
    "self_approval": _self_approval,
    "action_hours": _hours,
    "approval_minutes": _minutes,
    "undo_seconds": _undo,
    "daily_cap": _cap,
}


def changes(changed: Mapping[str, Sequence[Any]]) -> list[str]:
    """Return the data of a `policy_changed` event as sentences about the new rules."""
    said = [tell(changed[name][1]) for name, tell in TOLD.items() if name in changed]
    if "allowed" in changed or "refused" in changed:
        said.append(_("The lists of recipients to whom mail may or may not go are other ones."))
    if {"open_days", "open_from", "open_until", "time_zone"} & changed.keys():
        said.append(_("The hours in which mail leaves are other ones."))
    return said
