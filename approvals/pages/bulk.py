"""Bulk approval: mails of one mailbox and proposer, with the same warnings, confirmed again.

It takes only mails that the person has had open in their present revision, because its page shows
only the beginning of each.
"""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import structlog
from django.http import HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext

from accounts.access.auth import sign_in_method
from accounts.access.signed_in import AuthenticatedRequest, ask_for_factor, signed_in_action
from accounts.infra.problems import Problem
from accounts.people.second_factor import FactorMissing
from approvals.core.states import Status
from approvals.decisions import verdicts
from approvals.lifecycle import queries
from approvals.models import PendingAction, Seen
from approvals.pages.forms import ApproveForm

log = structlog.get_logger(__name__)

MOST = 50


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """One chosen action, with the digest and revision of its row in the list.

    `is_seen` is True if the person has had this revision open.
    """

    action: PendingAction
    digest: str
    revision: int
    is_seen: bool

    @property
    def value(self) -> str:
        return f"{self.action.pk}:{self.digest}:{self.revision}"

    @property
    def preview(self) -> dict[str, Any]:
        shown: dict[str, Any] = self.action.shown or {}  # type: ignore[attr-defined]
        return shown

    @property
    def warnings(self) -> list[dict[str, str]]:
        return list(self.preview.get("warnings", ()))


@signed_in_action
def confirm(request: AuthenticatedRequest) -> HttpResponse:
    """Show the chosen actions, with one button for all of them; nothing is decided here."""
    return _page(request, _read_chosen(request))


@signed_in_action
def approve(request: AuthenticatedRequest) -> HttpResponse:
    """Approve each with its own digest and revision; changed ones are left out and reported.

    The page is shown again if one of them may not be approved here.
    """
    chosen = _read_chosen(request)
    if _refusal(chosen) or not all(each.is_seen for each in chosen):
        return _page(request, chosen, status=409)
    results: list[tuple[Chosen, Problem | None]] = []
    method = sign_in_method(request)
    for each in chosen:
        try:
            verdicts.approve(
                action_id=each.action.pk,
                person=request.user,
                digest=each.digest,
                revision=each.revision,
                method=method,
                seen=each.action,
            )
            results.append((each, None))
        except FactorMissing:
            return ask_for_factor(request)
        except Problem as problem:
            results.append((each, problem))
        except Exception:  # the database is away, for example: say what was done until then
            log.exception("bulk_interrupted", action=str(each.action.pk), count=len(results))
            return _report(request, results, broken=each, untried=chosen[len(results) + 1 :])
    return _report(request, results)


def _report(
    request: AuthenticatedRequest,
    results: list[tuple[Chosen, Problem | None]],
    *,
    broken: Chosen | None = None,
    untried: list[Chosen] | None = None,
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
    }
    status = 500 if broken else 409 if refused else 200
    return render(request, "approvals/bulk_done.html", context, status=status)


def _page(request: AuthenticatedRequest, chosen: list[Chosen], status: int = 200) -> HttpResponse:
    refusal, seen = _refusal(chosen), [each for each in chosen if each.is_seen]
    context = {
        "chosen": chosen,
        "seen": seen,
        "unseen": len(chosen) - len(seen),
        "count": len(seen or chosen),
        "refusal": refusal,
        "people": len(
            {target["address"].lower() for each in seen for target in each.preview["targets"]}
        ),
    }
    return render(request, "approvals/bulk.html", context, status=409 if refusal else status)


def _read_chosen(request: AuthenticatedRequest) -> list[Chosen]:
    chosen: dict[UUID, tuple[str, int]] = {}
    for item in request.POST.getlist("item")[:MOST]:
        action_id, _, content = item.partition(":")
        digest, _, revision = content.partition(":")
        form = ApproveForm({"digest": digest, "revision": revision})
        try:
            key = UUID(action_id)
        except ValueError:
            continue
        if form.is_valid():
            chosen[key] = (form.cleaned_data["digest"], form.cleaned_data["revision"])
    found = queries.with_preview(
        queries.visible_to(request.user).filter(pk__in=chosen, status=Status.PENDING)
    )
    rows = queries.open_shown(
        found.select_related("mailbox", "proposer").order_by("created_at", "id")
    )
    opened = dict(
        Seen.objects.filter(person=request.user, action__in=rows).values_list("action", "revision")
    )
    return [
        Chosen(
            action=row,
            digest=chosen[row.pk][0],
            revision=chosen[row.pk][1],
            is_seen=opened.get(row.pk) == row.revision,
        )
        for row in rows
    ]


def _refusal(chosen: list[Chosen]) -> str:
    """Return why these may not be approved together; empty if they may."""
    if not chosen:
        return gettext("You chose nothing that is still pending.")
    if len({each.action.mailbox_id for each in chosen}) > 1:
        return gettext("These mails leave from different mailboxes. Choose mails from one mailbox.")
    if len({(each.action.proposer_id, each.action.proposer_name) for each in chosen}) > 1:
        return gettext(
            "Different programs or people proposed these mails. Choose the mails of one proposer."
        )
    if any(warning["severity"] == "risk" for each in chosen for warning in each.warnings):
        return gettext("One of these mails has a serious warning. Decide on it on its own page.")
    if len({frozenset(warning["code"] for warning in each.warnings) for each in chosen}) > 1:
        return gettext("These mails have different warnings. Choose mails with the same warnings.")
    if any(
        each.digest != each.action.digest or each.revision != each.action.revision
        for each in chosen
    ):
        return gettext(
            "One of these mails has changed since you chose it. Go back and look at it again."
        )
    return ""
