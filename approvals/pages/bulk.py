"""Bulk approval: the chosen mails in groups, each of one mailbox and proposer with the same
warnings, and each with its own button.

It takes only mails that the person has had open in their present revision, because its page shows
only the beginning of each. Other chosen mails go along, so that no choice is lost.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import structlog
from django.http import HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext

from accounts.access.auth import sign_in_method
from accounts.access.signed_in import AuthenticatedRequest, ask_for_factor, signed_in_action
from accounts.infra.foreign_text import parse_uuid
from accounts.infra.problems import Problem
from accounts.people.second_factor import FactorMissing
from approvals.core.states import Status
from approvals.core.types import get_kind
from approvals.gate import decide, find, seen
from approvals.gate.rules.conditions import count_given
from approvals.gate.rules.policy import Hold, count_needed, find_hold, policy_of
from approvals.models import PendingAction, Seen
from approvals.pages.forms import ApproveForm

log = structlog.get_logger(__name__)

MOST = 50


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """One chosen action, with the digest and revision of its row in the list.

    `is_seen` is True if the person has had this revision open; `unopened` counts its files that they
    have not opened. `hold` is what holds it back once it is approved, and `missing` the number of
    people who have to approve it.
    """

    action: PendingAction
    digest: str
    revision: int
    is_seen: bool
    unopened: int
    hold: Hold | None
    missing: int

    @property
    def value(self) -> str:
        return f"{self.action.pk}:{self.digest}:{self.revision}"

    @property
    def is_mail(self) -> bool:
        return not get_kind(self.action.kind).words

    @property
    def preview(self) -> dict[str, Any]:
        shown: dict[str, Any] = self.action.shown or {}  # type: ignore[attr-defined]
        return shown

    @property
    def warnings(self) -> list[dict[str, str]]:
        return list(self.preview.get("warnings", ()))

    @property
    def problem(self) -> str:
        """Return why it cannot be approved with others, or an empty text."""
        if any(warning["severity"] == "risk" for warning in self.warnings):
            return gettext("Decide about mail with a serious warning on its own page.")
        if (self.digest, self.revision) != (self.action.digest, self.action.revision):
            return gettext("Open mail again that has changed since you chose it.")
        return ""

    @property
    def likeness(self) -> tuple[object, ...]:
        """Return what mails of one group share."""
        codes = frozenset(warning["code"] for warning in self.warnings)
        action = self.action
        return (
            self.problem,
            action.mailbox_id,
            action.proposer_id,
            action.proposer_name,
            () if self.problem else (codes, self.missing > 1, self.is_mail),
        )


@dataclass(frozen=True, kw_only=True)
class Group:
    """Chosen mails that one button approves. `kept` has the values of all other chosen mails."""

    chosen: list[Chosen]
    kept: list[str]

    @property
    def first(self) -> Chosen:
        return self.chosen[0]

    @property
    def problem(self) -> str:
        return self.first.problem

    @property
    def seen(self) -> list[Chosen]:
        return [each for each in self.chosen if each.is_seen]

    @property
    def unseen(self) -> int:
        return len(self.chosen) - len(self.seen)

    @property
    def people(self) -> int:
        """Return the number of different recipients of what can be approved."""
        return len({to["address"].lower() for each in self.seen for to in each.preview["targets"]})

    @property
    def can_be_approved(self) -> bool:
        return not self.problem and not self.unseen


@signed_in_action
def confirm(request: AuthenticatedRequest) -> HttpResponse:
    """Show the chosen actions in their groups; nothing is decided here."""
    return _page(request, _read_chosen(request, "item"))


@signed_in_action
def approve(request: AuthenticatedRequest) -> HttpResponse:
    """Approve each of one group with its own digest and revision, and report changed ones.

    The page is shown again if one of them may not be approved here.
    """
    chosen, kept = _read_chosen(request, "item"), _read_chosen(request, "kept")
    groups = _divide(chosen)
    if len(groups) != 1 or not groups[0].can_be_approved:
        return _page(request, [*chosen, *kept], status=409)
    results: list[tuple[Chosen, Problem | None]] = []
    method = sign_in_method(request)
    for each in chosen:
        try:
            decide.approve(
                action_id=each.action.pk,
                person=request.user,
                digest=each.digest,
                revision=each.revision,
                method=method,
            )
            results.append((each, None))
        except FactorMissing:
            return ask_for_factor(request)
        except Problem as problem:
            results.append((each, problem))
        except Exception:  # the database is away, for example: say what was done until then
            log.exception("bulk_interrupted", action=str(each.action.pk), count=len(results))
            return _report(request, results, broken=each, untried=chosen[len(results) + 1 :])
    return _report(request, results, groups=_divide(kept))


def _report(
    request: AuthenticatedRequest,
    results: list[tuple[Chosen, Problem | None]],
    *,
    broken: Chosen | None = None,
    untried: list[Chosen] | None = None,
    groups: Sequence[Group] = (),
) -> HttpResponse:
    """Show what became of each; after a failure on a page that asks the database for nothing."""
    refused = sum(1 for _, problem in results if problem)
    context = {
        "layout": "plain.html" if broken else "base.html",
        "results": results,
        "refused": refused,
        "approved": len(results) - refused,
        "broken": broken,
        "untried": untried,
        "groups": groups,
    }
    status = 500 if broken else 409 if refused else 200
    return render(request, "approvals/bulk_done.html", context, status=status)


def _page(request: AuthenticatedRequest, chosen: list[Chosen], status: int = 200) -> HttpResponse:
    context = {"groups": _divide(chosen)}
    return render(request, "approvals/bulk.html", context, status=status if chosen else 409)


def _divide(chosen: list[Chosen]) -> list[Group]:
    found: dict[tuple[object, ...], list[Chosen]] = {}
    for each in sorted(chosen, key=lambda each: bool(each.problem)):
        found.setdefault(each.likeness, []).append(each)
    return [
        Group(
            chosen=group,
            kept=[
                each.value for others in found.values() if others is not group for each in others
            ],
        )
        for group in found.values()
    ]


def _read_chosen(request: AuthenticatedRequest, field: str) -> list[Chosen]:
    chosen: dict[UUID, tuple[str, int]] = {}
    for item in request.POST.getlist(field)[:MOST]:
        action_id, _, content = item.partition(":")
        digest, _, revision = content.partition(":")
        form = ApproveForm({"digest": digest, "revision": revision})
        if (key := parse_uuid(action_id)) and form.is_valid():
            chosen[key] = (form.cleaned_data["digest"], form.cleaned_data["revision"])
    found = find.with_preview(
        find.visible_to(request.user).filter(pk__in=chosen, status=Status.PENDING)
    )
    rows = find.open_shown(found.select_related("mailbox", "proposer").order_by("created_at", "id"))
    opened = dict(
        Seen.objects.filter(person=request.user, action__in=rows).values_list("action", "revision")
    )
    rules = {row.mailbox: policy_of(row.mailbox) for row in rows}
    return [
        Chosen(
            action=row,
            digest=chosen[row.pk][0],
            revision=chosen[row.pk][1],
            is_seen=opened.get(row.pk) == row.revision,
            unopened=len(seen.find_unopened(row, request.user)),
            hold=find_hold(row, rules[row.mailbox]),
            missing=count_needed(row, rules[row.mailbox]) - count_given(row),
        )
        for row in rows
    ]
