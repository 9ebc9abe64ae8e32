"""Decisions of a signed-in person: only by POST with a CSRF token, bound to the shown content."""

from collections.abc import Callable
from typing import Any, cast
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from accounts.access.auth import caller_of_session, sign_in_method
from accounts.infra.problems import Problem
from accounts.models import User
from approvals.decisions import rulings, verdicts
from approvals.models import PendingAction
from approvals.pages import listing
from approvals.pages.forms import ApproveForm, CancelForm, RejectForm, ResolveForm
from approvals.pages.queue import Asked
from approvals.pages.review import render_review, visible_action
from approvals.pages.step_up import asked_again


@login_required
@require_POST
def approve(request: HttpRequest, action_id: UUID) -> HttpResponse:
    action = visible_action(request, action_id)
    form = ApproveForm(request.POST)
    if not form.is_valid():
        return render_review(
            request, action, problem=Problem("conflict", verdicts.STALE), shown=("", 0)
        )
    if _risky(action) and (answer := asked_again(request)):
        return answer
    shown = form.cleaned_data
    return decided(
        request,
        action,
        shown=(shown["digest"], shown["revision"]),
        decide=lambda person: verdicts.approve(
            action_id=action_id,
            person=person,
            digest=shown["digest"],
            revision=shown["revision"],
            method=sign_in_method(request),
        ),
    )


@login_required
@require_POST
def reject(request: HttpRequest, action_id: UUID) -> HttpResponse:
    action = visible_action(request, action_id)
    form = RejectForm(request.POST)
    if not form.is_valid():
        if "note" not in form.errors:
            return render_review(
                request, action, problem=Problem("conflict", verdicts.STALE), shown=("", 0)
            )
        return render_review(
            request, action, problem=Problem("invalid_input", "The reason is too long.")
        )
    said = form.cleaned_data
    return decided(
        request,
        action,
        shown=_shown(said),
        decide=lambda person: verdicts.reject(
            action_id=action_id,
            person=person,
            note=said["note"],
            digest=said["digest"],
            revision=said["revision"],
            method=sign_in_method(request),
        ),
    )


@login_required
@require_POST
def cancel(request: HttpRequest, action_id: UUID) -> HttpResponse:
    action = visible_action(request, action_id)
    form = CancelForm(request.POST)
    if not form.is_valid():
        return render_review(
            request, action, problem=Problem("conflict", verdicts.STALE), shown=("", 0)
        )
    said, caller = form.cleaned_data, caller_of_session(request)
    return decided(
        request,
        action,
        shown=_shown(said),
        decide=lambda _: verdicts.cancel(
            action_id=action_id, caller=caller, digest=said["digest"], revision=said["revision"]
        ),
    )


def _shown(said: dict[str, Any]) -> tuple[str, int] | None:
    """Return the digest and revision that the page had shown, if the form holds them."""
    return (said["digest"], said["revision"]) if said["digest"] and said["revision"] else None


@login_required
@require_POST
def undo(request: HttpRequest, action_id: UUID) -> HttpResponse:
    action = visible_action(request, action_id)
    return decided(
        request, action, decide=lambda person: verdicts.undo(action_id=action_id, person=person)
    )


@login_required
@require_POST
def resolve(request: HttpRequest, action_id: UUID) -> HttpResponse:
    """Rule on an unknown outcome."""
    action = visible_action(request, action_id)
    form = ResolveForm(request.POST)
    if not form.is_valid():
        # A person without the role gets that refusal first, whatever the form holds.
        problem = rulings.refusal_to_rule(action, cast(User, request.user))
        if problem is None and "ruling" in form.errors:
            problem = Problem("invalid_input", "Say whether it was sent or not.")
        return render_review(
            request, action, problem=problem or Problem("conflict", verdicts.STALE)
        )
    said = form.cleaned_data
    return decided(
        request,
        action,
        decide=lambda person: rulings.resolve(
            action_id=action_id,
            person=person,
            ruling=said["ruling"],
            fence=said["fence"],
            method=sign_in_method(request),
        ),
    )


def decided(
    request: HttpRequest,
    action: PendingAction,
    *,
    decide: Callable[[User], PendingAction],
    shown: tuple[str, int] | None = None,
) -> HttpResponse:
    """Decide and go on; a refusal is shown on the current page."""
    try:
        decide(cast(User, request.user))
    except Problem as problem:
        action.refresh_from_db()
        return render_review(request, action, problem=problem, shown=shown)
    return redirect(_onward(request, action))


def _onward(request: HttpRequest, action: PendingAction) -> str:
    """Return the next address: the page itself, the next pending action, or the list of before."""
    match request.POST.get("then"):
        case "next":
            following = listing.next_after(listing.mailboxes_of(cast(User, request.user)), action)
            return reverse("review", args=[following.pk]) if following else reverse("queue")
        case "queue":
            return f"{reverse('queue')}?{Asked.by(QueryDict(request.POST.get('query', '')[:500])).query}"
    return reverse("review", args=[action.pk])


def _risky(action: PendingAction) -> bool:
    return any(
        warning["severity"] == "risk" for warning in action.current.preview.get("warnings", ())
    )
