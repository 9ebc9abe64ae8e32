"""Requests of an open page. They change nothing but the record of present people."""

from uuid import UUID

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpResponse, HttpResponseBase, JsonResponse
from django.template.loader import render_to_string
from django.views.decorators.http import require_GET

from accounts.access.roles import held_mailboxes
from accounts.access.signed_in import AuthenticatedRequest, signed_in_action, signed_in_page
from accounts.infra.foreign_text import parse_number, parse_uuid
from accounts.infra.streams import stream as open_stream
from accounts.infra.streams import take_place
from accounts.models import Mailbox, Role
from approvals.audit import feed
from approvals.gate import seen
from approvals.live import events
from approvals.models import PendingAction
from approvals.pages import discussion, listing
from approvals.pages.frame import find_leaving
from approvals.pages.queue import PAGE, Asked, tab_counts
from approvals.pages.review import visible_action


@signed_in_page
@require_GET
async def stream(request: AuthenticatedRequest) -> HttpResponseBase:
    """Return the event stream of an open page, over ASGI.

    Beyond the number of streams that a person or a process may have, it returns 204: the browser
    does not ask again, and the page polls from time to time.
    """
    person = await request.auser()
    place = take_place(person.pk) if isinstance(request, ASGIRequest) else None
    if place is None:
        return HttpResponse(status=204)
    mailboxes: list[Mailbox] = await sync_to_async(listing.mailboxes_of)(person)
    pieces = events.stream(
        person,
        frozenset(mailbox.pk for mailbox in mailboxes),
        since=events.read_mark(
            request.headers.get("Last-Event-ID") or request.GET.get("since", "")
        ),
        now=await sync_to_async(feed.last_event)(),
    )
    return open_stream(place, pieces, content_type="text/event-stream")


@signed_in_page
def changes(request: AuthenticatedRequest) -> JsonResponse:
    """Return the changes since an event for a list: its rows, the counts, and the viewers."""
    person = request.user
    asked = Asked.parse(request.GET)
    since = [events.read_mark(mark) for mark in request.GET.getlist("since")]
    mailboxes = listing.mailboxes_of(person)
    found = events.find_changes(mailboxes, min(since, default=0))
    rows = listing.find_by_ids(
        asked.filter_mailboxes(mailboxes),
        found.actions,
        what=listing.parse_search(asked.text, warned=asked.warned),
    )
    belonging = set(
        asked.tab.where(person)
        .query()
        .filter(pk__in=found.actions, status__in=asked.tab.statuses)
        .values_list("pk", flat=True)
    )
    for row in rows:
        row.left = row.pk not in belonging  # type: ignore[attr-defined]
    counts = tab_counts(mailboxes, person)
    shown = filter(None, map(parse_uuid, request.GET.getlist("shown")[: 2 * PAGE]))
    looking = events.find_present(shown, mailboxes=mailboxes, but=person)
    frame = {
        "asked": asked,
        "tab": asked.tab,
        "several": len(mailboxes) > 1,
        "may_decide": held_mailboxes(person, need=Role.APPROVER).exists(),
    }
    return JsonResponse(
        {
            "last": events.write_mark(found.last),
            "more": found.more,
            "counts": counts,
            "rows": [
                {
                    "id": str(row.pk),
                    "here": row.pk in belonging,
                    "later": row.pk in found.later,
                    "html": render_to_string("approvals/row.html", {**frame, "row": row}, request),
                }
                for row in rows
            ],
            "gone": [str(pk) for pk in found.actions if pk not in {row.pk for row in rows}],
            "looking": {str(pk): names for pk, names in looking.items()},
            "toast": render_to_string(
                "approvals/toast.html", {"toast": find_leaving(person)}, request
            ),
        }
    )


@signed_in_action
def presence(request: AuthenticatedRequest, action_id: UUID) -> JsonResponse:
    """Record that this person has a revision open, or leaves.

    Return the other people there, a mark by which the page sees if its content is still current,
    and new comments.
    """
    action = visible_action(request, action_id)
    person = request.user
    if request.POST.get("going"):
        events.delete_presence(person, action.pk)
        return JsonResponse({})
    events.record_presence(person, action.pk)
    shown = parse_number(request.POST.get("revision", ""), digits=9)
    if shown is not None:
        seen.record_seen(action=action, person=person, revision=shown)
    others = events.find_present([action.pk], mailboxes=[action.mailbox], but=person).get(
        action.pk, []
    )
    mark = f"{action.status} {action.revision} {action.approval_round} {action.approvals_given}"
    return JsonResponse({"others": others, "mark": mark, **_new_comments(request, action)})


def _new_comments(request: AuthenticatedRequest, action: PendingAction) -> dict[str, str]:
    shown = parse_number(request.POST.get("comments", ""), digits=9)
    if shown is None:
        return {}
    found = discussion.list_comments(action)
    if len(found) <= shown:
        return {}
    return {"comments": render_to_string("approvals/comments.html", {"comments": found}, request)}
