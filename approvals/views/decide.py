"""What a signed-in person decides. POST alone, with a CSRF token, bound to what was shown."""

from collections.abc import Callable
from typing import cast
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from accounts.auth import caller_of_session
from accounts.models import User
from accounts.problems import Problem
from approvals import services
from approvals.forms import ApproveForm, RejectForm
from approvals.models import PendingAction
from approvals.views.review import render_review, visible_action


@login_required
@require_POST
def approve(request: HttpRequest, action_id: UUID) -> HttpResponse:
    action = visible_action(request, action_id)
    form = ApproveForm(request.POST)
    if not form.is_valid():
        return render_review(request, action, problem=Problem("conflict", services.STALE), shown_digest="none")
    shown = form.cleaned_data
    return _decided(
        request, action, shown_digest=shown["digest"],
        decide=lambda person: services.approve(
            action_id=action_id, person=person, digest=shown["digest"], revision=shown["revision"]
        ),
    )  # fmt: skip


@login_required
@require_POST
def reject(request: HttpRequest, action_id: UUID) -> HttpResponse:
    action = visible_action(request, action_id)
    form = RejectForm(request.POST)
    if not form.is_valid():
        return render_review(request, action, problem=Problem("invalid_input", "The reason is too long."))
    note = form.cleaned_data["note"]
    return _decided(
        request, action, decide=lambda person: services.reject(action_id=action_id, person=person, note=note)
    )


@login_required
@require_POST
def cancel(request: HttpRequest, action_id: UUID) -> HttpResponse:
    action = visible_action(request, action_id)
    caller = caller_of_session(request)
    return _decided(request, action, decide=lambda _: services.cancel(action_id=action_id, caller=caller))


@login_required
@require_POST
def undo(request: HttpRequest, action_id: UUID) -> HttpResponse:
    action = visible_action(request, action_id)
    return _decided(request, action, decide=lambda person: services.undo(action_id=action_id, person=person))


def _decided(
    request: HttpRequest, action: PendingAction, *, decide: Callable[[User], PendingAction], shown_digest: str = ""
) -> HttpResponse:
    """Decide and go back to the page; a refusal is shown on the page as it is now."""
    try:
        decide(cast(User, request.user))
    except Problem as problem:
        action.refresh_from_db()
        return render_review(request, action, problem=problem, shown_digest=shown_digest)
    return redirect("review", action.pk)
