"""The sweeper: repairs the state after a crash or the passing of time. Any number may run at once."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from operator import itemgetter
from typing import Any

import structlog
from django.conf import settings
from django.db import close_old_connections
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils.module_loading import import_string

from accounts.access import request_log
from accounts.infra.database import database_now, is_away
from approvals.audit import anchors
from approvals.core.queue import queue
from approvals.core.states import Status
from approvals.gate import lookup, overdue, preparation, send_back
from approvals.gate.rules.policy import advance_windows, find_closed
from approvals.gate.settle import find_to_settle, settle_one
from approvals.models import PendingAction
from approvals.outbound.notifications import courier as people_courier
from approvals.outbound.notifications import digest, gather, reminders
from approvals.outbound.notifications import outbox as notifications
from approvals.outbound.webhooks import courier, outbox
from approvals.worker import dispatch, watch
from approvals.worker.background import OF_OWNERS, Background
from approvals.worker.steady_clock import SteadyClock

log = structlog.get_logger(__name__)

BATCH = 100
CLOCK = SteadyClock(database_now)
OTHERS_SECONDS = 3600.0


@dataclass(frozen=True, kw_only=True)
class Chore:
    """A task of the sweep: `find` lists its possible work in the order of an index, `act` does it.

    One that `ends` something because of its age waits while the database's clock is not steady.
    """

    name: str
    find: Callable[[], QuerySet[Any, Any]]
    act: Callable[[], object] | Background
    ends: bool = False


def sweep(*, resident: bool = False) -> datetime | None:
    """Run one round of all tasks, and return when the next waiting approved action may leave.

    One failing task does not stop the others. A `resident` process only begins the work that waits
    for providers, and does not wait for its end.
    """
    if resident and CLOCK.is_new:
        CLOCK.is_steady()
    for chore in CHORES:
        _run(chore.name, partial(_do, chore, resident))
    _run("anchor", _anchor)
    if time.monotonic() >= _others.get("at", -OTHERS_SECONDS) + OTHERS_SECONDS:
        _run("others", partial(_purge_others, resident))
    return next_due()


def _do(chore: Chore, resident: bool) -> None:
    # Not `exists()`: it drops the order, and then PostgreSQL may read the whole table.
    if not chore.find().values_list("pk")[:1] or (chore.ends and not _may_end(resident)):
        return
    if isinstance(chore.act, Background):
        (chore.act.start if resident else chore.act.finish)()
    else:
        chore.act()


def _may_end(resident: bool) -> bool:
    """Return True if what is old may be ended or deleted; a person who runs the command decides."""
    return not resident or CLOCK.is_steady()


def _run(name: str, act: Callable[[], object]) -> None:
    try:
        act()
    except Exception as error:  # a failure of one mailbox must not stop the mail of all others
        if is_away(error):
            raise  # the worker waits and begins again on another connection
        log.exception("chore_failed", process=name)
        close_old_connections()


def _purge_others(resident: bool) -> None:
    if _may_end(resident):
        purge_others()


def purge_others() -> None:
    """Let the other packages delete old rows.

    These are kept for days, so once an hour is often enough.
    """
    _others["at"] = time.monotonic()
    for path in settings.MAILHUB_CHORES:
        import_string(path)()


_others: dict[str, float] = {}


def _anchor() -> None:
    anchors.sync()
    anchors.anchor(at_most_every=anchors.ANCHOR_SECONDS)


def _notify() -> None:
    """Notify for one action of each mailbox; once it has left, the worker notifies for the next."""
    for head in dispatch.heads()[:BATCH]:
        queue().notify(head.action)


def measure_overdue() -> dict[str, float]:
    """Return how many seconds ago the oldest lookup, copy and clean-up should have begun.

    Threads and connections can look healthy while the work is not done; this shows the work.
    """
    firsts = {
        "lookup": lookup.find_due().values_list("next_probe_at"),
        "settle": find_to_settle().values_list("settle_at"),
        "tidy": preparation.preparations_to_tidy().values_list("tidy_at"),
    }
    now = database_now()
    return {
        name: max(((now - at).total_seconds() for (at,) in found[:1] if at), default=0.0)
        for name, found in firsts.items()
    }


def next_due() -> datetime | None:
    """Return when the next approved action may leave that may not leave yet."""
    waiting = PendingAction.objects.filter(status=Status.APPROVED, not_before__gt=Now())
    return waiting.order_by("not_before").values_list("not_before", flat=True).first()


LOOKS = Background(
    "looks", lambda: dispatch.find_served(lookup.find_due()), lookup.look_up, **OF_OWNERS
)
SENT_COPIES = Background(
    "sent-copies", lambda: dispatch.find_served(find_to_settle()), settle_one, **OF_OWNERS
)
CLEAN_UP = Background(
    "clean-up",
    lambda: dispatch.find_served(preparation.preparations_to_tidy(), "action__mailbox"),
    preparation.tidy,
    **OF_OWNERS,
)
# Threads of their own: a slow receiver delays neither the sweep nor other receivers.
WEBHOOKS = Background(
    "webhooks",
    courier.find_waiting,
    courier.deliver,
    share_of=itemgetter(0),
    at_once_of_a_share=courier.AT_ONCE_FOR_AN_OWNER,
)
NOTIFICATIONS = Background(
    "notifications", people_courier.find_waiting, people_courier.deliver, **OF_OWNERS
)
reconcile, settle, tidy = LOOKS.finish, SENT_COPIES.finish, CLEAN_UP.finish
# In this order, because a later task may find work that an earlier one made.
CHORES = (
    Chore(name="late", find=overdue.find_late, act=overdue.expire, ends=True),
    Chore(name="dead", find=overdue.find_dead, act=overdue.end_dead_leases),
    Chore(name="closed", find=find_closed, act=advance_windows),
    Chore(
        name="void",
        find=lambda: send_back.find_approved().order_by("not_before"),
        act=send_back.send_back,
    ),
    Chore(name="to_probe", find=lookup.find_due, act=LOOKS),
    Chore(name="to_settle", find=find_to_settle, act=SENT_COPIES),
    Chore(name="to_tidy", find=preparation.preparations_to_tidy, act=CLEAN_UP),
    Chore(
        name="to_watch",
        find=lambda: watch.find_due().order_by("look_at"),
        act=watch.LOOKS,
        ends=True,  # a look says that nobody has answered, and is not repeated
    ),
    Chore(name="old", find=overdue.find_old, act=overdue.purge, ends=True),
    Chore(name="to_forget", find=request_log.find_old, act=request_log.forget_old, ends=True),
    Chore(
        name="due",
        find=lambda: dispatch.find_free(dispatch.find_unpaused()).order_by("not_before"),
        act=_notify,
    ),
    Chore(name="to_tell", find=outbox.find_behind, act=outbox.gather),
    Chore(name="to_deliver", find=courier.due, act=WEBHOOKS),
    Chore(name="unread", find=lambda: gather.find_unread().order_by("pk"), act=gather.gather_all),
    Chore(name="to_remind", find=lambda: reminders.find_due(Now()).order_by("due_at"), act=reminders.remind),
    Chore(name="digests", find=lambda: digest.find_due(Now()).order_by("digest_due_at"), act=digest.add_due),
    Chore(name="lost", find=lambda: notifications.find_lost(Now()).order_by("due_at"), act=people_courier.end_lost),
    Chore(name="to_notify", find=lambda: notifications.find_due(Now()).order_by("due_at"), act=NOTIFICATIONS),
    Chore(
        name="to_withdraw",
        find=lambda: notifications.find_withdrawn(Now()).order_by("withdraw_at"),
        act=NOTIFICATIONS,
    ),
)  # fmt: skip
