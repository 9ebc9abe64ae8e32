"""Parts around every page of the gate: the mail that is leaving, and the switch for single keys."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.utils import timezone

from accounts.infra.compiled_sql import Asked, Select, columns_of, instance, read_together, slot
from accounts.models import Mailbox, Membership, Role, User
from approvals.audit import feed
from approvals.core.states import Status
from approvals.lifecycle.queries import with_preview
from approvals.models import PendingAction, SavedView
from approvals.pages import listing
from approvals.pages.orders import Order, chosen_order, named_order
from approvals.pauses import restored

KEYS_COOKIE = "keys"


@dataclass(frozen=True, kw_only=True)
class Leaving:
    """An approval that can still be undone, and for how many seconds by the server's clock."""

    action: PendingAction
    seconds: int
    title: str
    others: int


@dataclass(frozen=True, kw_only=True)
class Frame:
    """The part of a page that depends on the person only.

    `event` is the last event before everything else was read. `own_pause` is why mailhub has paused
    everything itself, or "".
    """

    event: int
    mailboxes: list[Mailbox]
    order: Order
    roles: frozenset[str]
    saved_views: list[SavedView]
    own_pause: str


_roles = Select(
    lambda: Membership.objects.filter(user=slot(Membership, "user")).values_list("role").distinct()
)
_views = Select(
    lambda: SavedView.objects.filter(person=slot(SavedView, "person")).values_list(
        *columns_of(SavedView)
    )
)


def read_frame(person: User) -> Frame:
    """Read the frame in one wait for PostgreSQL."""
    return load_frame(person, read_together(*reads_of_frame(person)))


def reads_of_frame(person: User) -> tuple[Asked, ...]:
    """Return what the frame reads; the last event comes first."""
    return (
        (feed.newest_event, {}),
        (listing.seen, {"person": person.pk}),
        (chosen_order, {"person": person.pk}),
        (_roles, {"user": person.pk}),
        (_views, {"person": person.pk}),
        (restored.own_pause, {}),
    )


def load_frame(person: User, found: Iterable[Sequence[tuple[Any, ...]]]) -> Frame:
    """Return the frame from these rows; templates then know if there is an audit to see."""
    event, mailboxes, order, held, views, pause = found
    roles = frozenset(role for (role,) in held)
    person.sees_audit = person.is_staff or Role.MANAGER in roles
    return Frame(
        event=event[0][0] if event else 0,
        mailboxes=listing.load_mailboxes(mailboxes),
        order=named_order(order),
        roles=roles,
        saved_views=[instance(SavedView, row) for row in views],
        own_pause=restored.say_reason(pause),
    )


def keys_are_on(request: HttpRequest) -> bool:
    """Return True unless this browser has turned single keys off (WCAG 2.1.4)."""
    return request.COOKIES.get(KEYS_COOKIE) != "off"


def find_leaving(
    mailboxes: Sequence[Mailbox], *, but: PendingAction | None = None
) -> Leaving | None:
    """Return the approval of these mailboxes that leaves last and can be undone, by any person."""
    now = timezone.now()
    # Through the partial index over `not_before`, which is never before `undo_until`.
    held = PendingAction.objects.filter(
        status=Status.APPROVED,
        not_before__gt=now,
        undo_until__gt=now,
        mailbox__in=[each.pk for each in mailboxes],
    )
    held = held.exclude(pk=but.pk) if but else held
    found = list(with_preview(held).order_by("-undo_until")[:10])
    if not found:
        return None
    newest = found[0]
    return Leaving(
        action=newest,
        seconds=seconds_left(newest),
        title=(newest.shown or {}).get("title", ""),  # type: ignore[attr-defined]
        others=len(found) - 1,
    )


def seconds_left(action: PendingAction) -> int:
    """Return for how many seconds an approval can still be undone; 0 if it cannot."""
    if action.status != Status.APPROVED or action.undo_until is None:
        return 0
    return max(math.ceil((action.undo_until - timezone.now()).total_seconds()), 0)
