"""Parts around every page of the gate: the mail that is leaving, and the switch for single keys."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from django.http import HttpRequest
from django.utils import timezone

from accounts.models import Mailbox
from approvals.core.states import Status
from approvals.lifecycle.queries import with_preview
from approvals.models import PendingAction

KEYS_COOKIE = "keys"


@dataclass(frozen=True, kw_only=True)
class Leaving:
    """An approval that can still be undone, and for how many seconds by the server's clock."""

    action: PendingAction
    seconds: int
    title: str
    others: int


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
