"""The rules of a mailbox as sentences: the rules, the problems, and the effect of a change."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.utils.dates import WEEKDAYS
from django.utils.timezone import now
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from accounts.infra.texts import join_listed
from accounts.models import Membership, Role
from approvals.gate.rules.policy import DAYS, approvers_of, find_blocked, window_of
from approvals.models import ApprovalPolicy, Content


def sentences(policy: ApprovalPolicy) -> list[str]:
    """Return the rules as sentences, one for each rule that applies."""
    said = [
        _approvers(policy.approver_role),
        _people(policy.approvals_needed),
        _self_approval(policy.lets_proposer_approve()),
        *([_files_opened(True)] if policy.files_opened else []),
        _hours(policy.action_hours),
        _minutes(policy.approval_minutes),
        _undo(policy.undo_seconds),
        _recipients(policy),
        _confirmed(policy.confirmed_domains),
        _cap(policy.daily_cap),
        _window(policy),
        _notify_content(policy.notify_content),
        _notify_urgent(policy.notify_urgent),
        _escalation(policy.escalation_minutes),
    ]
    return [*said, _("Nothing ever leaves without a person.")]


def _approvers(role: Any) -> str:
    if role == Role.MANAGER:
        return _("Only managers may approve.")
    return _("Approvers and managers may approve.")


def _people(needed: Any) -> str:
    return ngettext("%(n)s approval is enough.", "%(n)s different people must approve.", needed) % {
        "n": needed
    }


def _self_approval(allowed: Any) -> str:
    if allowed:
        return _("Proposers may approve their own proposals and those of their tokens.")
    return _("Proposers may approve neither their own proposals nor those of their tokens.")


def _files_opened(needed: Any) -> str:
    if needed:
        return _("Approvers must open each file first.")
    return _("Files need not be opened.")


def _hours(hours: Any) -> str:
    n = hours or settings.MAILHUB_ACTION_TTL_HOURS
    return ngettext("A proposal waits %(n)s hour.", "A proposal waits %(n)s hours.", n) % {"n": n}


def _minutes(minutes: Any) -> str:
    if minutes is None:
        return _("An approval is valid as long as the proposal.")
    return ngettext(
        "An approval is valid for %(n)s minute.", "An approval is valid for %(n)s minutes.", minutes
    ) % {"n": minutes}


def _undo(seconds: Any) -> str:
    n = settings.MAILHUB_UNDO_SECONDS if seconds is None else seconds
    if not n:
        return _("Approved mail leaves immediately. An approval cannot be undone.")
    return ngettext(
        "An approval can be undone for %(n)s second.",
        "An approval can be undone for %(n)s seconds.",
        n,
    ) % {"n": n}


def _recipients(policy: ApprovalPolicy) -> str:
    lists = {"allowed": join_listed(policy.allowed), "refused": join_listed(policy.refused)}
    if policy.allowed and policy.refused:
        return _("Mail may only go to %(allowed)s, and never to %(refused)s.") % lists
    if policy.allowed:
        return _("Mail may only go to %(allowed)s.") % lists
    if policy.refused:
        return _("Mail may go to anybody, but never to %(refused)s.") % lists
    return _("Mail may go to anybody.")


def _confirmed(domains: Any) -> str:
    if not domains:
        return _("Mail to a domain that looks like another one is always flagged.")
    return _(
        "Mail to a domain that looks like another one is flagged, except mail to %(domains)s."
    ) % {"domains": join_listed(domains)}


def _cap(cap: Any) -> str:
    if cap is None:
        return _("There is no daily limit for mail.")
    return ngettext(
        "At most %(n)s mail leaves within 24 hours. The others wait.",
        "At most %(n)s mails leave within 24 hours. The others wait.",
        cap,
    ) % {"n": cap}


def _window(policy: ApprovalPolicy) -> str:
    if not policy.open_days and policy.open_from is None:
        return _("Mail may leave at any hour.")
    values = {"days": _days(policy.open_days), "zone": policy.time_zone}
    if policy.open_from is None:
        return _("Mail leaves on %(days)s, %(zone)s time. At other times it waits.") % values
    values["from"] = policy.open_from.strftime("%H:%M")
    values["until"] = policy.open_until.strftime("%H:%M") if policy.open_until else "24:00"
    if policy.open_days:
        return (
            _(
                "Mail leaves on %(days)s from %(from)s to %(until)s, %(zone)s time. "
                "At other times it waits."
            )
            % values
        )
    return (
        _(
            "Mail leaves every day from %(from)s to %(until)s, %(zone)s time. At other times it waits."
        )
        % values
    )


def _notify_content(level: Any) -> str:
    return _("Notifications may show at most %(content)s.") % {"content": Content(level).label}


def _notify_urgent(loud: Any) -> str:
    if loud:
        return _("Urgent notifications arrive in quiet hours too.")
    return _("No notification arrives in quiet hours.")


def _days(days: str) -> str:
    return join_listed(WEEKDAYS[DAYS.index(day)] for day in days)


def _escalation(minutes: Any) -> str:
    if minutes is None:
        return _("All approvers are notified of a proposal at once.")
    if not minutes:
        return _("Managers are notified at half time, if no other approver has decided.")
    return ngettext(
        "Managers are notified after %(n)s minute, if no other approver has decided.",
        "Managers are notified after %(n)s minutes, if no other approver has decided.",
        minutes,
    ) % {"n": minutes}


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
                "%(asked)s different people must approve, but only %(there)s may. Nothing can be approved. "
                "Invite more approvers, or ask for fewer approvals."
            )
            % {"asked": policy.approvals_needed, "there": len(approvers)}
        )
    elif not policy.lets_proposer_approve():

        def others(proposer: Membership) -> int:
            return sum(approver.user_id != proposer.user_id for approver in approvers)

        stuck = [each for each in proposers if others(each) < policy.approvals_needed]
        if stuck:
            found.append(
                ngettext(
                    "Each proposal of %(who)s needs the approval of %(asked)s other person, and %(there)s may "
                    "approve it. Invite one more approver.",
                    "Each proposal of %(who)s needs the approval of %(asked)s other people, and %(there)s may "
                    "approve it. Invite more approvers, or ask for fewer approvals.",
                    policy.approvals_needed,
                )
                % {
                    "who": join_listed(each.user for each in stuck),
                    "asked": policy.approvals_needed,
                    "there": min(map(others, stuck)),
                }
            )
    if policy.allowed and all(
        entry in find_blocked(policy, policy.allowed) for entry in policy.allowed
    ):
        found.append(_("All allowed recipients are also refused. Nothing can be sent."))
    window = window_of(policy, now())
    if (
        window
        and policy.approval_minutes is not None
        and _longest_wait(policy) > policy.approval_minutes
    ):
        found.append(
            _(
                "An approval may expire before the hours in which mail leaves. "
                "The mail is then not sent and needs a new decision."
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
    "files_opened": _files_opened,
    "action_hours": _hours,
    "approval_minutes": _minutes,
    "undo_seconds": _undo,
    "daily_cap": _cap,
    "notify_content": _notify_content,
    "notify_urgent": _notify_urgent,
    "escalation_minutes": _escalation,
}


def changes(changed: Mapping[str, Sequence[Any]]) -> list[str]:
    """Return the data of a `policy_changed` event as sentences about the new rules."""
    said = [tell(changed[name][1]) for name, tell in TOLD.items() if name in changed]
    if "allowed" in changed or "refused" in changed:
        said.append(_("The lists of allowed and refused recipients changed."))
    if {"open_days", "open_from", "open_until", "time_zone"} & changed.keys():
        said.append(_("The hours in which mail leaves changed."))
    return said
