"""Decisions of a signed-in person: only by POST with a CSRF token, bound to the shown content."""

from typing import Any
from uuid import UUID

from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse

from accounts.access.auth import caller_of_session, sign_in_method
from accounts.access.signed_in import AuthenticatedRequest, signed_in_action
from accounts.infra.problems import Problem
from accounts.people.step_up import ask_again, confirm_by_passkey, is_fresh
from approvals.gate import decide, rulings
from approvals.gate.rules.policy import refusal_to_decide
from approvals.models import PendingAction
from approvals.pages import listing
from approvals.pages.forms import ApproveForm, CancelForm, RejectForm, ResolveForm
from approvals.pages.orders import order_of
from approvals.pages.queue import Asked
from approvals.pages.review import (
    is_risky,
    render_refusal,
    render_review,
    render_stale,
    visible_action,
)


@signed_in_action
def approve(request: AuthenticatedRequest, action_id: UUID) -> HttpResponse:
    action = visible_action(request, action_id)
    form = ApproveForm(request.POST)
    if not form.is_valid():
        return render_stale(request, action)
    if is_risky(action) and not (
        is_fresh(request) or confirm_by_passkey(request, form.cleaned_data["credential"])
    ):
        # Back on the review page, the person decides again with the content in view.
        page = "line_at" if request.POST.get("then") == "line" else "review"
        return ask_again(request, back=reverse(page, args=[action_id]))
    digest, revision = form.cleaned_data["digest"], form.cleaned_data["revision"]
    try:
        decide.approve(
            action_id=action_id,
            person=request.user,
            digest=digest,
            revision=revision,
            restored=form.cleaned_data["restored"],
            method=sign_in_method(request),
        )
    except Problem as problem:
        return render_refusal(request, action, problem, shown=(digest, revision))
    return redirect_onward(request, action)


@signed_in_action
def reject(request: AuthenticatedRequest, action_id: UUID) -> HttpResponse:
    action = visible_action(request, action_id)
    form = RejectForm(request.POST)
    if "note" in form.errors:
        too_long = Problem("invalid_input", "The reason is too long. Use at most 2,000 characters.")
        return render_review(request, action, problem=too_long)
    if not form.is_valid():
        return render_stale(request, action)
    said = form.cleaned_data
    try:
        decide.reject(
            action_id=action_id,
            person=request.user,
            note=said["note"],
            digest=said["digest"],
            revision=said["revision"],
            method=sign_in_method(request),
        )
    except Problem as problem:
        return render_refusal(request, action, problem, shown=_read_shown(said))
    return redirect_onward(request, action)


@signed_in_action
def cancel(request: AuthenticatedRequest, action_id: UUID) -> HttpResponse:
    action = visible_action(request, action_id)
    form = CancelForm(request.POST)
    if not form.is_valid():
        return render_stale(request, action)
    said = form.cleaned_data
    try:
        decide.cancel(
            action_id=action_id,
            caller=caller_of_session(request),
            digest=said["digest"],
            revision=said["revision"],
        )
    except Problem as problem:
        return render_refusal(request, action, problem, shown=_read_shown(said))
    return redirect_onward(request, action)


@signed_in_action
def undo(request: AuthenticatedRequest, action_id: UUID) -> HttpResponse:
    action = visible_action(request, action_id)
    try:
        decide.undo(action_id=action_id, person=request.user)
    except Problem as problem:
        return render_refusal(request, action, problem)
    if request.POST.get("then") == "line":
        return redirect("line_at", action_id)
    return redirect_onward(request, action)


@signed_in_action
def resolve(request: AuthenticatedRequest, action_id: UUID) -> HttpResponse:
    """Rule on an unknown outcome."""
    action = visible_action(request, action_id)
    form = ResolveForm(request.POST)
    if not form.is_valid():
        # A person without the role gets that refusal first, whatever the form holds.
        refusal = refusal_to_decide(request.user, action.mailbox)
        if refusal is None and "ruling" in form.errors:
            refusal = Problem("invalid_input", "Say whether it was sent or not.")
        return render_review(request, action, problem=refusal or Problem("conflict", decide.STALE))
    said = form.cleaned_data
    try:
        rulings.resolve(
            action_id=action_id,
            person=request.user,
            ruling=said["ruling"],
            fence=said["fence"],
            restored=said["restored"],
            method=sign_in_method(request),
        )
    except Problem as problem:
        return render_refusal(request, action, problem)
    return redirect_onward(request, action)


def redirect_onward(request: AuthenticatedRequest, action: PendingAction) -> HttpResponse:
    """Redirect to the page itself, the next pending action, the line, or the list of before."""
    match request.POST.get("then"):
        case "next":
            following = listing.next_after(
                listing.mailboxes_of(request.user),
                action,
                order=order_of(request.user),
                where=listing.mine(request.user),
            )
            return redirect("review", following.pk) if following else redirect("queue")
        case "line":
            return redirect(f"{reverse('line')}?after={action.pk}")
        case "queue":
            asked = Asked.parse(QueryDict(request.POST.get("query", "")[:500]))
            return redirect(f"{reverse('queue')}?{asked.query}")
    return redirect("review", action.pk)


def _read_shown(said: dict[str, Any]) -> tuple[str, int] | None:
    """Return the digest and revision that the page had shown, if the form holds them."""
    return (said["digest"], said["revision"]) if said["digest"] and said["revision"] else None
