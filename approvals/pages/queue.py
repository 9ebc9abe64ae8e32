"""The queue: pending actions, and the results of the others."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from accounts.access.signed_in import AuthenticatedRequest, signed_in_page
from accounts.infra.first_rows import Rows
from accounts.infra.problems import Problem
from accounts.models import Mailbox, Role, User
from approvals.core.states import Status
from approvals.gate.pauses import switch
from approvals.live import events as live
from approvals.models import SavedView
from approvals.pages import listing
from approvals.pages.frame import find_leaving, read_frame
from approvals.pages.orders import LABELS, NEWEST, OLDEST, Order

PAGE = 30


@dataclass(frozen=True, kw_only=True)
class Tab:
    """A tab of the queue.

    `is_open`: people work through it, so it is counted, and the oldest comes first. `of_others` is for
    what waits for others than the person.
    """

    key: str
    label: Promise
    statuses: tuple[Status, ...]
    is_open: bool = False
    of_others: bool = False

    def where(self, person: User) -> Rows:
        """Return its actions, among those in other states."""
        if self.statuses != (Status.PENDING,):
            return listing.ALL
        return listing.others(person) if self.of_others else listing.mine(person)


TABS = (
    Tab(key="pending", label=_("Pending"), statuses=(Status.PENDING,), is_open=True),
    Tab(
        key="others",
        label=_("Waiting for others"),
        statuses=(Status.PENDING,),
        is_open=True,
        of_others=True,
    ),
    Tab(
        key="leaving",
        label=_("Outgoing"),
        statuses=(Status.APPROVED, Status.EXECUTING),
        is_open=True,
    ),
    Tab(key="unknown", label=_("Unknown"), statuses=(Status.UNKNOWN,), is_open=True),
    Tab(key="sent", label=_("Sent"), statuses=(Status.SUCCEEDED,)),
    Tab(key="failed", label=_("Failed"), statuses=(Status.FAILED,)),
    Tab(
        key="rejected",
        label=_("Rejected"),
        statuses=(Status.REJECTED, Status.CANCELLED, Status.SUPERSEDED),
    ),
    Tab(key="expired", label=_("Expired"), statuses=(Status.EXPIRED,)),
)
TROUBLED = (Mailbox.Status.ERROR, Mailbox.Status.NEEDS_REAUTH)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The query of the address: a tab, a search, one mailbox, only actions with a warning."""

    tab: Tab
    text: str = ""
    mailbox: str = ""
    warned: bool = False

    @classmethod
    def parse(cls, query: QueryDict) -> "Asked":
        return cls(
            tab=next((tab for tab in TABS if tab.key == query.get("tab")), TABS[0]),
            text=query.get("q", "").strip()[:200],
            mailbox=query.get("mailbox", "")[:64],
            warned=query.get("warned") == "1",
        )

    @property
    def filtered(self) -> bool:
        return bool(self.text or self.mailbox or self.warned)

    @property
    def filters(self) -> str:
        """Return only the filters, for the address of another tab."""
        given = {"q": self.text, "mailbox": self.mailbox, "warned": "1" if self.warned else ""}
        return urlencode({name: value for name, value in given.items() if value})

    @property
    def query(self) -> str:
        return "&".join(part for part in (f"tab={self.tab.key}", self.filters) if part)

    def filter_mailboxes(self, mailboxes: list[Mailbox]) -> list[Mailbox]:
        return [
            mailbox for mailbox in mailboxes if not self.mailbox or str(mailbox.pk) == self.mailbox
        ]


@signed_in_page
def index(request: AuthenticatedRequest) -> HttpResponse:
    person = request.user
    asked = Asked.parse(request.GET)
    frame = read_frame(person)  # before the list: later events are sent again, not lost
    mailboxes = frame.mailboxes
    order = order_of_tab(asked.tab, frame.order)
    try:
        listed = listing.page(
            asked.filter_mailboxes(mailboxes),
            asked.tab.statuses,
            cursor=request.GET.get("cursor"),
            limit=PAGE,
            order=order,
            what=listing.parse_search(asked.text, warned=asked.warned),
            where=asked.tab.where(person),
        )
    except Problem:  # an address that somebody typed or cut: show the first page
        return redirect(f"{request.path}?{asked.query}")
    counts = tab_counts(mailboxes, person)
    # Every page says already that mailhub paused everything itself.
    connected = [each for each in mailboxes if each.status != Mailbox.Status.DISCONNECTED]
    paused = set() if frame.own_pause else switch.find_paused(connected)
    all_paused = len(paused) == len(connected) > 1
    looking = live.find_present((row.pk for row in listed.rows), mailboxes=mailboxes, but=person)
    for row in listed.rows:
        row.looking = looking.get(row.pk, [])  # type: ignore[attr-defined]
    context = {
        "listed": listed,
        "order": order,
        "orders": LABELS,
        "rows": listed.rows,
        "asked": asked,
        "tab": asked.tab,
        "tabs": tabs_with(counts, asked.tab),
        "waiting": counts["pending"],
        "waits_for_others": counts["others"],
        "mailboxes": mailboxes,
        "several": len(mailboxes) > 1,
        "may_decide": any(role.covers(Role.APPROVER) for role in frame.roles.values()),
        "paused": paused,
        "all_paused": all_paused,
        "unreachable": [
            each
            for each in mailboxes
            if each.status in TROUBLED or (each.pk in paused and not all_paused)
        ],
        "saved_views": SavedView.objects.filter(person=person),
        "own_pause": frame.own_pause,
        "event": live.write_mark(frame.event),
        "toast": find_leaving(person),
    }
    return render(request, "approvals/queue.html", context)


def order_of_tab(tab: Tab, chosen: Order) -> Order:
    """Return the order of a tab; only the pending actions have one that the person chooses."""
    if tab.key == "pending":
        return chosen
    return OLDEST if tab.is_open else NEWEST


def tab_counts(mailboxes: list[Mailbox], person: User) -> dict[str, int]:
    """Return the numbers of the counted tabs."""
    counted = [tab for tab in TABS if tab.is_open and not tab.of_others]
    found = listing.count_by_status(
        mailboxes,
        [each for tab in counted for each in tab.statuses],
        listing.mine(person),
    )
    others = listing.count_pending(mailboxes, listing.others(person))
    return {"others": others} | {
        tab.key: sum(found[each] for each in tab.statuses) for tab in counted
    }


def tabs_with(counts: dict[str, int], shown: Tab) -> list[tuple[Tab, int]]:
    """Return the tabs with their numbers; unknown comes first if it is not empty.

    What waits for others has a tab only where there is any.
    """
    found: list[tuple[Any, int]] = [
        (tab, counts.get(tab.key, 0))
        for tab in TABS
        if counts.get(tab.key) or not tab.of_others or tab == shown
    ]
    return sorted(found, key=lambda each: not (each[0].key == "unknown" and each[1]))
