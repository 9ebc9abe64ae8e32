"""The review page: exactly what will leave, and what may be done about it."""

from typing import Any, cast
from uuid import UUID

from csp.decorators import csp_replace
from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.clickjacking import xframe_options_sameorigin
from django.views.decorators.http import require_safe

from accounts.models import User
from accounts.problems import Problem
from approvals import queries, services
from approvals.kinds import kind_named
from approvals.models import PendingAction
from approvals.states import Status
from approvals.types import Rendered

# The message may bring its own inline styles and pictures it carries along; nothing is fetched, nothing runs.
BODY_POLICY = {
    "default-src": ["'none'"],
    "script-src": ["'none'"],
    "style-src": ["'unsafe-inline'"],
    "img-src": ["data:"],
    "connect-src": ["'none'"],
    "frame-src": ["'none'"],
    "form-action": ["'none'"],
    "base-uri": ["'none'"],
    "frame-ancestors": ["'self'"],
    "sandbox": True,
}
VIEWS = ("preview", "text", "source", "history")


@login_required
@never_cache
@require_safe
def page(request: HttpRequest, action_id: UUID) -> HttpResponse:
    return render_review(request, visible_action(request, action_id))


@login_required
@never_cache
@require_safe
@xframe_options_sameorigin
@csp_replace(BODY_POLICY)  # type: ignore[arg-type]  # its types know views without arguments only
def body(request: HttpRequest, action_id: UUID) -> HttpResponse:
    """The HTML of the message alone, for the sandboxed frame of the review page."""
    content = _rendered(visible_action(request, action_id))
    if content is None or content.html is None:
        raise Http404
    return render(request, "approvals/body.html", {"html": content.html})


def visible_action(request: HttpRequest, action_id: UUID) -> PendingAction:
    """404 for a stranger's action exactly as for one that does not exist."""
    action = queries.find(queries.visible_to(cast(User, request.user)), action_id)
    if action is None:
        raise Http404
    return action


def render_review(
    request: HttpRequest, action: PendingAction, *, problem: Problem | None = None, shown_digest: str = ""
) -> HttpResponse:
    """The page, with what went wrong on top when a decision was refused; the status is that of the problem."""
    person = cast(User, request.user)
    view = request.GET.get("view")
    now = timezone.now()
    context: dict[str, Any] = {
        "action": action,
        "preview": action.current.preview,
        "payload": action.current.payload,
        "content": _rendered(action),
        "kind_template": f"approvals/previews/{action.kind}.html",
        "view": view if view in VIEWS else "preview",
        "views": VIEWS,
        "may_decide": services.may_decide(person, action),
        "may_approve": services.may_approve(person, action),
        "decisions": action.decisions.select_related("person"),
        "attempts": action.attempts.all(),
        "waiting": queries.counts_for(person, (Status.PENDING,))[Status.PENDING],
        "problem": problem,
        "changed_meanwhile": bool(shown_digest) and shown_digest != action.digest,
        "undo_seconds": _seconds_left(action, now),
        "undo_window": settings.MAILHUB_UNDO_SECONDS,
    }
    response = render(request, "approvals/review.html", context, status=problem.status if problem else 200)
    wait = _refresh_after(action, context["undo_seconds"])
    if wait and not problem:
        response["Refresh"] = str(wait)  # without JavaScript too: the page follows the mail until it is out
    return response


def _rendered(action: PendingAction) -> Rendered | None:
    """None when the content has been purged."""
    payload = action.current.payload
    if not payload:
        return None
    return kind_named(action.kind).rendered(payload, lambda sha256: queries.blob_of(action, sha256))


def _seconds_left(action: PendingAction, now: Any) -> int:
    if action.status != Status.APPROVED or action.undo_until is None or action.undo_until <= now:
        return 0
    return int((action.undo_until - now).total_seconds()) + 1


def _refresh_after(action: PendingAction, undo_seconds: int) -> int:
    match action.status:
        case Status.APPROVED:
            return undo_seconds + 1 if undo_seconds else 5
        case Status.EXECUTING:
            return 2
    return 0
