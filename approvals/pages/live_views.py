"""Requests of an open page. They change nothing but the record of present people."""

from typing import cast
from uuid import UUID

from asgiref.sync import sync_to_async
from django.contrib.auth.decorators import login_required
from django.core.handlers.asgi import ASGIRequest
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    JsonResponse,
    StreamingHttpResponse,
)
from django.template.loader import render_to_string
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST, require_safe

from accounts.models import Mailbox, User
from approvals.decisions import edits
from approvals.pages import listing, live
from approvals.pages.frame import leaving_now
from approvals.pages.queue import PAGE, Asked, tab_counts
from approvals.pages.review import visible_action


@never_cache
@login_required
@require_GET
async def stream(request: HttpRequest) -> HttpResponseBase:
    """Return the event stream of an open page, over ASGI.

    Under WSGI it returns 204: the browser does not ask again, and the page polls from time to time.
    """
    if not isinstance(request, ASGIRequest):
        return HttpResponse(status=204)
    person = cast(User, await request.auser())
    mailboxes: list[Mailbox] = await sync_to_async(listing.mailboxes_of)(person)
    said = request.headers.get("Last-Event-ID") or request.GET.get("since", "")
    response = StreamingHttpResponse(
        live.stream(
            person,
            frozenset(mailbox.pk for mailbox in mailboxes),
            since=int(said) if said.isdecimal() and len(said) < 19 else 0,
            now=await sync_to_async(live.last_event)(),
        ),
        content_type="text/event-stream",
    )
    response["X-Accel-Buffering"] = "no"
    response["Content-Encoding"] = "identity"
    return response


@login_required
@never_cache
@require_safe
def changes(request: HttpRequest) -> JsonResponse:
    """Return the changes since an event for a list: its rows, the counts, and the viewers."""
    person = cast(User, request.user)
    asked = Asked.by(request.GET)
    since = request.GET.get("since", "")
    mailboxes = listing.mailboxes_of(person)
    changed, last = live.changed_since(
        mailboxes, int(since) if since.isdecimal() and len(since) < 19 else 0
    )
    rows = listing.these(
        asked.among(mailboxes), changed, what=listing.wanted(asked.text, warned=asked.warned)
    )
    counts = tab_counts(mailboxes)
    shown = [UUID(each) for each in request.GET.getlist("shown")[: 2 * PAGE] if _is_uuid(each)]
    looking = live.present(shown, mailboxes=mailboxes, but=person)
    frame = {
        "asked": asked,
        "tab": asked.tab,
        "several": len(mailboxes) > 1,
        "user": person,
        "may_decide": True,
    }
    return JsonResponse(
        {
            "last": last,
            "counts": counts,
            "rows": [
                {
                    "id": str(row.pk),
                    "here": row.status in asked.tab.statuses,
                    "html": render_to_string("approvals/row.html", {**frame, "row": row}, request),
                }
                for row in rows
            ],
            "gone": [str(pk) for pk in changed if pk not in {row.pk for row in rows}],
            "looking": {str(pk): names for pk, names in looking.items()},
            "toast": render_to_string(
                "approvals/toast.html", {"toast": leaving_now(mailboxes)}, request
            ),
        }
    )


@login_required
@require_POST
def presence(request: HttpRequest, action_id: UUID) -> JsonResponse:
    """Record that this person has a revision open, or leaves.

    Return the other people there, and a mark by which the page sees if its content is still
    current.
    """
    action = visible_action(request, action_id)
    person = cast(User, request.user)
    if request.POST.get("going"):
        live.go(person, action.pk)
        return JsonResponse({})
    live.come(person, action.pk)
    shown = request.POST.get("revision", "")
    if shown.isdecimal() and len(shown) < 10:
        edits.saw(action=action, person=person, revision=int(shown))
    others = live.present([action.pk], mailboxes=[action.mailbox], but=person).get(action.pk, [])
    mark = f"{action.status} {action.revision} {action.approval_round} {action.approvals_given}"
    return JsonResponse({"others": others, "mark": mark, "waiting": listing.waiting_for(person)})


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True
