"""The queue: what waits for a person, and what became of the rest."""

from dataclasses import dataclass
from typing import cast

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from accounts.models import Mailbox, User
from accounts.problems import Problem
from approvals import queries
from approvals.states import Status

PAGE = 50


@dataclass(frozen=True, kw_only=True)
class Tab:
    """A tab of the queue; `oldest_first` where somebody works through it."""

    key: str
    label: Promise
    statuses: tuple[Status, ...]
    oldest_first: bool = False


TABS = (
    Tab(key="pending", label=_("Pending"), statuses=(Status.PENDING,), oldest_first=True),
    Tab(key="leaving", label=_("Leaving"), statuses=(Status.APPROVED, Status.EXECUTING), oldest_first=True),
    Tab(key="unknown", label=_("Unknown"), statuses=(Status.UNKNOWN,), oldest_first=True),
    Tab(key="sent", label=_("Sent"), statuses=(Status.SUCCEEDED,)),
    Tab(key="failed", label=_("Failed"), statuses=(Status.FAILED,)),
    Tab(key="rejected", label=_("Rejected"), statuses=(Status.REJECTED, Status.CANCELLED, Status.SUPERSEDED)),
    Tab(key="expired", label=_("Expired"), statuses=(Status.EXPIRED,)),
)
TROUBLED = (Mailbox.Status.ERROR, Mailbox.Status.NEEDS_REAUTH, Mailbox.Status.PAUSED)
COUNTED = (Status.PENDING, Status.APPROVED, Status.EXECUTING, Status.UNKNOWN)


@login_required
@require_safe
def index(request: HttpRequest) -> HttpResponse:
    person = cast(User, request.user)
    tab = next((tab for tab in TABS if tab.key == request.GET.get("tab")), TABS[0])
    actions = queries.with_preview(queries.visible_to(person).filter(status__in=tab.statuses))
    try:
        rows, next_cursor = queries.page(
            actions, cursor=request.GET.get("cursor"), limit=PAGE, newest_first=not tab.oldest_first
        )
    except Problem:  # an address somebody typed or shortened: the first page is what they want
        return redirect(f"{request.path}?tab={tab.key}")
    counts = queries.counts_for(person, COUNTED)
    context = {
        "rows": rows,
        "next_cursor": next_cursor,
        "tab": tab,
        "tabs": [(each, sum(counts.get(status, 0) for status in each.statuses)) for each in TABS],
        "waiting": counts[Status.PENDING],
        "unreachable": Mailbox.objects.filter(members=person, status__in=TROUBLED),
    }
    return render(request, "approvals/queue.html", context)
