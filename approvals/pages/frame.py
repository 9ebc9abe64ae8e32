"""Parts around every page of the gate: the mail that is leaving, and the switch for single keys."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone

from accounts.access.roles import held_ids
from accounts.models import Mailbox, Role, User
from approvals.audit import feed
from approvals.core.states import Status
from approvals.gate.find import with_preview
from approvals.gate.pauses import restored
from approvals.models import PendingAction
from approvals.pages import listing
from approvals.pages.orders import Order, order_of

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
    everything itself, or "".
    """

    event: int
    mailboxes: list[Mailbox]
    order: Order
    roles: Mapping[UUID, Role]  # by mailbox
    own_pause: str


def read_frame(person: User) -> Frame:
    """Return the frame, the last event first; templates then know if there is an audit to see."""
    event = feed.last_event()
    held = listing.memberships_of(person)
    roles = {each.mailbox_id: Role(each.role) for each in held}
    person.sees_audit = person.is_staff or Role.MANAGER in roles.values()
    return Frame(
        event=event,
        mailboxes=[each.mailbox for each in held],
        order=order_of(person),
        roles=roles,
        own_pause=restored.reason(),
    )


def keys_are_on(request: HttpRequest) -> bool:
    """Return True unless this browser has turned single keys off (WCAG 2.1.4)."""
    return request.COOKIES.get(KEYS_COOKIE) != "off"


def find_leaving(person: User, *, but: PendingAction | None = None) -> Leaving | None:
    """Return the approval in the person's mailboxes that leaves last and can be undone, by any
    person. `but` is left out.
    """
    now = timezone.now()
    held = PendingAction.objects.filter(
        status=Status.APPROVED,
        # Through the partial index over `not_before`, which is never before `undo_until`.
        not_before__gt=now,
        undo_until__gt=now,
        # A list of their ids makes a statement of any length.
        mailbox__in=held_ids(person),
    )
    if but is not None:
        held = held.exclude(pk=but.pk)
    ids = held.order_by("-undo_until").values_list("pk", flat=True)[:MOST_HELD]
    newest = with_preview(PendingAction.objects.filter(pk__in=ids[:1])).first() if ids else None
    if newest is None:
        return None
    return Leaving(
        action=newest,
        seconds=seconds_left(newest),
        title=(newest.shown or {}).get("title", ""),  # type: ignore[attr-defined]
        others=len(ids) - 1,
    )


def seconds_left(action: PendingAction) -> int:
    """Return for how many seconds an approval can still be undone; 0 if it cannot."""
    if action.status != Status.APPROVED or action.undo_until is None:
        return 0
    return max(math.ceil((action.undo_until - timezone.now()).total_seconds()), 0)
