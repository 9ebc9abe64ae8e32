"""Bulk approval: mails of one mailbox and proposer, with the same warnings, confirmed again."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import structlog
from django.http import HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext

from accounts.access.auth import sign_in_method
from accounts.access.signed_in import AuthenticatedRequest, signed_in_action
from accounts.infra.problems import Problem
from approvals.core.states import Status
from approvals.decisions import verdicts
from approvals.lifecycle import queries
from approvals.models import PendingAction
from approvals.pages.forms import ApproveForm

log = structlog.get_logger(__name__)

MOST = 50


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """One chosen action, with the digest and revision that the person saw."""

    action: PendingAction
    digest: str
    revision: int

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
    chosen = _read_chosen(request)
    context = {"chosen": chosen, "refusal": _refusal(chosen), "people": _people(chosen)}
    return render(
        request, "approvals/bulk.html", context, status=409 if context["refusal"] else 200
    )


@signed_in_action
def approve(request: AuthenticatedRequest) -> HttpResponse:
    """Approve each with its own digest and revision; changed ones are left out and reported."""
    chosen = _read_chosen(request)
    refusal = _refusal(chosen)
    if refusal:
        context: dict[str, Any] = {"chosen": chosen, "refusal": refusal, "people": _people(chosen)}
        return render(request, "approvals/bulk.html", context, status=409)
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
    return [
        Chosen(action=row, digest=chosen[row.pk][0], revision=chosen[row.pk][1]) for row in rows
    ]


def _people(chosen: list[Chosen]) -> int:
    return len(
        {target["address"].lower() for each in chosen for target in each.preview.get("targets", ())}
    )


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
