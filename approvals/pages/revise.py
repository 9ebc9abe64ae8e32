"""Actions of a reviewer other than a decision: edit the content, or ask the proposer back.

Only a POST changes anything.
"""

from typing import Any, cast
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from accounts.access.auth import sign_in_method
from accounts.infra.problems import Problem
from accounts.models import User
from approvals.core.types import Changes, EditField, FilesGiven, GivenFile
from approvals.decisions import edits, verdicts
from approvals.models import PendingAction
from approvals.pages import listing
from approvals.pages.decide import decided
from approvals.pages.forms import ApproveForm, RejectForm
from approvals.pages.review import render_review, visible_action


@login_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def edit(request: HttpRequest, action_id: UUID) -> HttpResponse:
    """Show the form with all editable fields; a POST with one of them makes a new revision."""
    action = visible_action(request, action_id)
    person = cast(User, request.user)
    changes = _changes(request, edits.edit_fields(action)) if request.method == "POST" else {}
    if not changes:
        if not edits.may_edit(person, action):
            problem = Problem("conflict", "This cannot be edited now.")
            return render_review(request, action, problem=problem)
        return _form(request, action)
    form = ApproveForm(request.POST)
    if not form.is_valid():
        return render_review(
            request, action, problem=Problem("conflict", verdicts.STALE), shown=("", 0)
        )
    shown = form.cleaned_data
    try:
        edited = edits.edit(
            action_id=action_id,
            person=person,
            digest=shown["digest"],
            revision=shown["revision"],
            changes=changes,
        )
        # Their own edit is not news.
        edits.saw(action=edited, person=person, revision=edited.revision)
    except Problem as problem:
        if problem.code in ("invalid_input", "too_large"):
            return _form(request, action, problem=problem, typed=changes)
        action.refresh_from_db()
        return render_review(
            request, action, problem=problem, shown=(shown["digest"], shown["revision"])
        )
    return redirect(f"{reverse('review', args=[action_id])}?view=changes")


@login_required
@require_POST
def ask_back(request: HttpRequest, action_id: UUID) -> HttpResponse:
    action = visible_action(request, action_id)
    seal, form = ApproveForm(request.POST), RejectForm(request.POST)
    if not seal.is_valid():
        return render_review(
            request, action, problem=Problem("conflict", verdicts.STALE), shown=("", 0)
        )
    if not form.is_valid():
        return render_review(
            request, action, problem=Problem("invalid_input", "The note is too long.")
        )
    shown, note = seal.cleaned_data, form.cleaned_data["note"]
    return decided(
        request,
        action,
        shown=(shown["digest"], shown["revision"]),
        decide=lambda person: edits.ask_back(
            action_id=action_id,
            person=person,
            digest=shown["digest"],
            revision=shown["revision"],
            note=note,
            method=sign_in_method(request),
        ),
    )


def _changes(request: HttpRequest, fields: tuple[EditField, ...]) -> Changes:
    """Return the typed values. A field that the form did not send stays as it is."""
    found: dict[str, str | FilesGiven] = {}
    for field in fields:
        if field.sort != "files":
            if field.name in request.POST:
                found[field.name] = request.POST[field.name]
        elif field.name in request.POST or field.name in request.FILES:
            added = tuple(
                GivenFile(name=file.name or "", type=file.content_type or "", content=file.read())
                for file in request.FILES.getlist(field.name)
            )
            kept = tuple(sha256 for sha256 in request.POST.getlist(field.name) if sha256)
            found[field.name] = FilesGiven(kept=kept, added=added)
    return found


def _form(
    request: HttpRequest,
    action: PendingAction,
    *,
    problem: Problem | None = None,
    typed: Changes | None = None,
) -> HttpResponse:
    """Render the form, with the typed values and errors after a refusal."""
    errors = {error.field: error.message for error in problem.errors} if problem else {}
    rows: list[dict[str, Any]] = []
    for field in edits.edit_fields(action):
        given = (typed or {}).get(field.name)
        rows.append(
            {
                "field": field,
                "value": given if isinstance(given, str) else field.value,
                "error": errors.get(field.name, ""),
                "lines": min(
                    max(field.value.count("\n") + 2, 2 if field.sort == "addresses" else 14), 24
                ),
                "kept": given.kept
                if isinstance(given, FilesGiven)
                else tuple(file.sha256 for file in field.files),
            }
        )
    context = {
        "action": action,
        "rows": rows,
        "problem": problem,
        "waiting": listing.waiting_for(cast(User, request.user)),
        # The digest of the revision that the form shows, so that another person's later edit is not
        # overwritten.
        "digest": request.POST.get("digest") or action.digest,
        "revision": request.POST.get("revision") or action.revision,
    }
    return render(
        request, "approvals/edit.html", context, status=problem.status if problem else 200
    )
