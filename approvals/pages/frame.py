"""Parts around every page of the gate: the mail that is leaving, and the switch for single keys."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from accounts.access.roles import held_mailboxes
from accounts.infra.compiled_sql import Asked, Select, columns_of, instance, read_all, slot
from accounts.models import Mailbox, Membership, Role, User
from approvals.audit import feed
from approvals.core.states import Status
from approvals.gate.find import with_preview
from approvals.gate.pauses import restored
from approvals.models import PendingAction, SavedView
from approvals.pages import listing
from approvals.pages.orders import Order, chosen_order, named_order

KEYS_COOKIE = "keys"
MOST_HELD = 10


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
    everything itself, or "". `held` has the rows for `leaving_from`.
    """

    event: int
    mailboxes: list[Mailbox]
    order: Order
    roles: frozenset[str]
    saved_views: list[SavedView]
    own_pause: str
    held: Sequence[tuple[Any, ...]]


_roles = Select(
    lambda: Membership.objects.filter(user=slot(Membership, "user")).values_list("role").distinct()
)
_views = Select(
    lambda: SavedView.objects.filter(person=slot(SavedView, "person")).values_list(
        *columns_of(SavedView)
    )
)


def read_frame(person: User) -> Frame:
    """Read the frame."""
    return load_frame(person, read_all(*reads_of_frame(person)))


def reads_of_frame(person: User) -> tuple[Asked, ...]:
    """Return what the frame reads; the last event comes first."""
    return (
        (feed.newest_event, {}),
        (listing.seen, {"person": person.pk}),
        (chosen_order, {"person": person.pk}),
        (_roles, {"user": person.pk}),
        (_views, {"person": person.pk}),
        (restored.own_pause, {}),
        (_held, _values_of_held(person)),
    )


def load_frame(person: User, found: Iterable[Sequence[tuple[Any, ...]]]) -> Frame:
    """Return the frame from these rows; templates then know if there is an audit to see."""
    event, mailboxes, order, own, views, pause, held = found
    roles = frozenset(role for (role,) in own)
    person.sees_audit = person.is_staff or Role.MANAGER in roles
    return Frame(
        event=event[0][0] if event else 0,
        mailboxes=listing.load_mailboxes(mailboxes),
        order=named_order(order),
        roles=roles,
        saved_views=[instance(SavedView, row) for row in views],
        own_pause=restored.say_reason(pause),
        held=held,
    )


def keys_are_on(request: HttpRequest) -> bool:
    """Return True unless this browser has turned single keys off (WCAG 2.1.4)."""
    return request.COOKIES.get(KEYS_COOKIE) != "off"


def find_leaving(person: User) -> Leaving | None:
    """Return the approval in the person's mailboxes that leaves last and can be undone, by any
    person.
    """
    return leaving_from(_held(**_values_of_held(person)))


def leaving_from(
    held: Sequence[tuple[Any, ...]], *, but: PendingAction | None = None
) -> Leaving | None:
    """Return the same for the rows in `Frame.held`, without one action."""
    found = [row for row in held if but is None or row[0] != but.pk][:MOST_HELD]
    if not found:
        return None
    newest = instance(PendingAction, found[0])
    return Leaving(
        action=newest,
        seconds=seconds_left(newest),
        title=(found[0][-1] or {}).get("title", ""),
        others=len(found) - 1,
    )


def _values_of_held(person: User) -> dict[str, Any]:
    return {"person": person.pk, "now": timezone.now()}


def _select_held() -> QuerySet[PendingAction, Any]:
    """Return what can be undone, with the readable part of its preview as the last column."""
    held = PendingAction.objects.filter(
        status=Status.APPROVED,
        # Through the partial index over `not_before`, which is never before `undo_until`.
        not_before__gt=slot(PendingAction, "not_before", "now"),
        undo_until__gt=slot(PendingAction, "undo_until", "now"),
        # A list of their ids makes a statement of any length.
        mailbox__in=held_mailboxes(slot(Membership, "user", "person")).values("pk"),
    )
    columns = (*columns_of(PendingAction), "shown")
    return with_preview(held).order_by("-undo_until").values_list(*columns)[: MOST_HELD + 1]


_held = Select(_select_held)


def seconds_left(action: PendingAction) -> int:
    """Return for how many seconds an approval can still be undone; 0 if it cannot."""
    if action.status != Status.APPROVED or action.undo_until is None:
        return 0
    return max(math.ceil((action.undo_until - timezone.now()).total_seconds()), 0)
