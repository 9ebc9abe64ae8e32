"""The queue mail by mail: after each decision, the next mail is in view."""

from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import redirect, render

from accounts.access.signed_in import AuthenticatedRequest, signed_in_page
from accounts.infra.foreign_text import parse_uuid
from accounts.models import User
from approvals.core.states import Status
from approvals.gate.rules.policy import may_approve
from approvals.models import PendingAction
from approvals.pages import listing
from approvals.pages.frame import find_leaving
from approvals.pages.orders import order_of, value_of
from approvals.pages.review import render_review, visible_action

# Mails that the person cannot approve are passed over, at most this many pages of them.
PAGES, PAGE = 10, 20


@signed_in_page
def advance(request: AuthenticatedRequest) -> HttpResponse:
    """Redirect to the next mail in the person's order, or show the end of the line.

    `?after=` names the mail after which to look. Without it, the line begins at its first mail.
    """
    after = _read_after(request)
    following = _find_next(request.user, after)
    if following:
        return redirect("line_at", following.pk)
    mailboxes = listing.mailboxes_of(request.user)
    context = {
        "waiting": listing.count_pending(mailboxes, listing.mine(request.user)),
        "some_left": after is not None and _find_next(request.user, None) is not None,
        "toast": find_leaving(request.user),
        "in_line": True,
    }
    return render(request, "approvals/line_done.html", context)


@signed_in_page
def page(request: AuthenticatedRequest, action_id: UUID) -> HttpResponse:
    """Show one mail of the line: the review page, whose forms lead to the next mail."""
    action = visible_action(request, action_id)
    return render_review(request, action, opened=True, in_line=True)


def _read_after(request: AuthenticatedRequest) -> PendingAction | None:
    given = parse_uuid(request.GET.get("after", ""))
    return visible_action(request, given) if given else None


def _find_next(person: User, after: PendingAction | None) -> PendingAction | None:
    """Return the first mail after this one that still needs the approval of this person."""
    mailboxes, order = listing.mailboxes_of(person), order_of(person)
    cursor = order.write_cursor(value_of(after, order)) if after else None
    for _ in range(PAGES):
        listed = listing.page(
            mailboxes,
            (Status.PENDING,),
            cursor=cursor,
            limit=PAGE,
            order=order,
            where=listing.mine(person),
        )
        for row in listed.rows:
            if (after is None or row.pk != after.pk) and may_approve(person, row):
                return row
        cursor = listed.next_cursor
        if cursor is None:
            break
    return None
