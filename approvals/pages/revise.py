"""Actions of a reviewer other than a decision: edit the content, or ask the proposer back.

Only a POST changes anything.
"""

from collections import Counter
from datetime import datetime, tzinfo
from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone

from accounts.access.auth import sign_in_method
from accounts.access.signed_in import AuthenticatedRequest, signed_in_action, signed_in_form
from accounts.infra.problems import Problem
from accounts.infra.time_zones import get_zone
from approvals.core.types import Changes, EditField, FilesGiven, GivenFile, get_kind
from approvals.gate import revise
from approvals.gate.rules.policy import may_decide
from approvals.models import PendingAction
from approvals.pages.decide import redirect_onward
from approvals.pages.forms import ApproveForm, RejectForm
from approvals.pages.review import (
    render_refusal,
    render_review,
    render_stale,
    visible_action,
)


@signed_in_form
def edit(request: AuthenticatedRequest, action_id: UUID) -> HttpResponse:
    """Show the form with all editable fields; a POST with one of them makes a new revision."""
    action = visible_action(request, action_id)
    person = request.user
    changes = _changes(request, revise.edit_fields(action)) if request.method == "POST" else {}
    if not changes:
        if not (may_decide(person, action.mailbox) and revise.may_be_edited(action)):
            problem = Problem("conflict", "This cannot be edited now.")
            return render_review(request, action, problem=problem)
        return _form(request, action)
    form = ApproveForm(request.POST)
    if not form.is_valid():
        return render_stale(request, action)
    digest, revision = form.cleaned_data["digest"], form.cleaned_data["revision"]
    try:
        # It was not seen yet: the form shows neither the warnings nor the cleaned text. The page that
        # follows shows both, and reports it.
        revise.edit(
            action_id=action_id, person=person, digest=digest, revision=revision, changes=changes
        )
    except Problem as problem:
        if problem.code in ("invalid_input", "too_large", "rate_limited"):
            return _form(request, action, problem=problem, typed=changes)
        return render_refusal(request, action, problem, shown=(digest, revision))
    return redirect("review", action_id)


@signed_in_action
def ask_back(request: AuthenticatedRequest, action_id: UUID) -> HttpResponse:
    action = visible_action(request, action_id)
    shown, form = ApproveForm(request.POST), RejectForm(request.POST)
    if not shown.is_valid():
        return render_stale(request, action)
    if not form.is_valid():
        too_long = Problem("invalid_input", "The note is too long. Use at most 2,000 characters.")
        return render_review(request, action, problem=too_long)
    digest, revision = shown.cleaned_data["digest"], shown.cleaned_data["revision"]
    try:
        revise.ask_back(
            action_id=action_id,
            person=request.user,
            digest=digest,
            revision=revision,
            note=form.cleaned_data["note"],
            passage=form.cleaned_data["passage"],
            method=sign_in_method(request),
        )
    except Problem as problem:
        return render_refusal(request, action, problem, shown=(digest, revision))
    return redirect_onward(request, action)


def _changes(request: AuthenticatedRequest, fields: tuple[EditField, ...]) -> Changes:
    """Return the typed values. A field that the form did not send stays as it is."""
    found: dict[str, str | FilesGiven] = {}
    zone = get_zone(request.POST.get("zone", ""))
    for field in fields:
        if field.sort == "moment":
            # The input has no part of a second: compare what it shows.
            typed = request.POST.get(field.name)
            if typed is not None and typed != _local_moment(field.value, zone):
                found[field.name] = _moment(typed, zone)
        elif field.sort != "files":
            if field.name in request.POST:
                found[field.name] = request.POST[field.name]
        elif field.name in request.POST or field.name in request.FILES:
            added = tuple(
                GivenFile(name=file.name or "", type=file.content_type or "", content=file.read())
                for file in request.FILES.getlist(field.name)
            )
            ticked = Counter(request.POST.getlist(field.name))
            kept = []
            for each in field.files:
                # A form of an older version has the hash only.
                if ticked[each.sha256] or ticked[each.key]:
                    ticked[each.key] -= 1
                    kept.append(each.key)
            found[field.name] = FilesGiven(kept=tuple(kept), added=added)
    return found


def _shown(value: str, field: EditField, zone: tzinfo) -> str:
    return _local_moment(value, zone) if field.sort == "moment" else value


def _local_moment(value: str, zone: tzinfo) -> str:
    """Return a moment by RFC 3339 as an input of local time shows it; other texts as they are."""
    try:
        return f"{datetime.fromisoformat(value).astimezone(zone):%Y-%m-%dT%H:%M}" if value else ""
    except OverflowError:  # in the first and the last year
        return value[:16]
    except ValueError:
        return value


def _moment(typed: str, zone: tzinfo) -> str:
    """Return the moment by RFC 3339, or the text itself if it is not a time."""
    try:
        return datetime.fromisoformat(typed).replace(tzinfo=zone).isoformat() if typed else ""
    except ValueError:
        return typed


def _form(
    request: AuthenticatedRequest,
    action: PendingAction,
    *,
    problem: Problem | None = None,
    typed: Changes | None = None,
) -> HttpResponse:
    """Render the form, with the typed values and errors after a refusal."""
    errors = {error.field: error.message for error in problem.errors} if problem else {}
    rows: list[dict[str, Any]] = []
    zone = get_zone(request.POST.get("zone", timezone.get_current_timezone_name()))
    for field in revise.edit_fields(action):
        given = (typed or {}).get(field.name)
        rows.append(
            {
                "field": field,
                "value": _shown(given if isinstance(given, str) else field.value, field, zone),
                "error": errors.get(field.name, ""),
                "lines": min(
                    max(field.value.count("\n") + 1, 1 if field.sort == "addresses" else 14), 24
                ),
                "kept": given.kept
                if isinstance(given, FilesGiven)
                else tuple(file.key for file in field.files),
            }
        )
    context = {
        "action": action,
        "rows": rows,
        "has_html": any(row["field"].sort == "html" for row in rows),
        "payload": action.current.payload,
        "aside_template": get_kind(action.kind).aside_template,
        "problem": problem,
        "zone": zone,
        # The digest of the revision that the form shows, so that another person's later edit is not
        # overwritten.
        "digest": request.POST.get("digest") or action.digest,
        "revision": request.POST.get("revision") or action.revision,
    }
    response = render(
        request, "approvals/edit.html", context, status=problem.status if problem else 200
    )
    # The editor fetches the pictures that a mail names, with this person's cookies. So no picture may
    # come from the pages of this server, only from its static files. It is the attribute that the
    # decorators of django-csp set; `request` is needed for the address here.
    static = request.build_absolute_uri(settings.STATIC_URL)
    response._csp_replace = {"img-src": ["data:", static]}  # type: ignore[attr-defined]
    return response
