"""The looks into mailboxes for answers to sent mail and reports about it: one task of the sweep.

A look costs one request, whatever number of mails is watched, and one more for each new mail and
each follow-up that is due.
"""

from datetime import datetime, timedelta
from uuid import UUID

import structlog
from django.db.models import OuterRef, Q, QuerySet
from django.db.models.functions import Now

from accounts.infra.database import database_now
from accounts.models import Mailbox
from approvals.core.types import Arrivals, Followed, NotLookedAt, Response, get_kind
from approvals.gate import watches
from approvals.gate.rules import conditions
from approvals.models import Rest, Watch, WatchedMailbox
from approvals.worker.background import OF_OWNERS, Background
from approvals.worker.dispatch import find_served

log = structlog.get_logger(__name__)

LEASE = timedelta(minutes=10)  # of a look; after a failed one the next look follows then
LONGEST_WAIT = timedelta(minutes=30)
# A look follows after this part of the age of the newest mail: reports come soon or not at all.
PART_OF_AGE = 60
RETURNS_AFTER = timedelta(days=5)  # servers give up by then (RFC 5321 4.5.4.1)
# A mail is looked up in Sent at first, and once more when a late copy must be there.
FIRST_COPY, LATE_COPY = timedelta(minutes=3), timedelta(minutes=10)
MOST_IDS = 20  # of new mails that are looked up in Sent by one look
MOST_FOLLOW_UPS = 10  # of one look


def find_due() -> QuerySet[WatchedMailbox]:
    """Return the mailboxes to look into now, of those that work and have no cool-down."""
    here = OuterRef("mailbox")
    usable = Mailbox.objects.filter(pk=here, status__in=conditions.MAY_LOOK)
    rests = Rest.objects.filter(mailbox=here, until__gt=Now())
    return WatchedMailbox.objects.filter(
        _is_due(), conditions.has_any(usable), ~conditions.has_any(rests)
    )


def _is_due() -> Q:
    """Return the condition of a look: its time has come, or it was planned by a clock ahead."""
    return Q(look_at__lte=Now()) | Q(look_at__gt=Now() + LONGEST_WAIT + watches.SHORTEST_WAIT)


def look(mailbox_id: UUID) -> None:
    """Look for answers and reports of all watched mails of a mailbox, and plan the next look.

    Each response is stored in its own transaction, and stored once: after a crash the next look
    reads the same mail again.
    """
    mine = WatchedMailbox.objects.filter(pk=mailbox_id)
    now = database_now()
    if not mine.filter(_is_due()).update(look_at=now + LEASE):
        return
    mine = mine.filter(look_at=now + LEASE)  # a watch that begins meanwhile has another time
    mailbox = Mailbox.objects.get(pk=mailbox_id)
    _end_old(mailbox, now)
    watched = _find_watched(mailbox_id)
    newest = watched.order_by("-began_at").select_related("action").first()
    if newest is None:
        mine.update(look_at=None)
        return
    kind = get_kind(newest.action.kind)
    assert isinstance(kind, Followed), "only such kinds are watched"
    waiting = Q(began_at__gt=now - LATE_COPY, began_at__lt=now - FIRST_COPY)
    unnamed = watched.filter(~waiting, message_id="").select_related("action")
    for watch in unnamed[:MOST_IDS]:
        shown = kind.shown_id(mailbox, watch.action.message_id)
        if not shown and watch.began_at <= now - LATE_COPY:
            shown = watches.UNSHOWN
        watches.name(watch, shown)
    place = WatchedMailbox.objects.filter(pk=mailbox_id)
    since = place.values_list("seen_until", flat=True).get()
    seen_from = min(since, now - watches.OVERLAP)  # a clock may have been ahead
    try:
        found = kind.find_arrivals(mailbox, seen_from)
    except NotLookedAt:  # after a long time away; a follow-up searches by itself
        log.warning("arrivals_skipped", mailbox=str(mailbox_id), since=seen_from.isoformat())
        found = Arrivals(responses=())
    for response in found.responses:
        for action_id in watches.find_named(mailbox, response):
            watches.record(action_id, response, now=now)
    seen_until = now - watches.OVERLAP
    if found.seen_until is not None:  # so many that one moment must not hold the next look up
        seen_until = max(found.seen_until, seen_from + timedelta(seconds=1))
    # A watch that began meanwhile may ask for earlier mail.
    place.filter(seen_until=since).update(seen_until=max(seen_from, seen_until))
    _follow_up(kind, mailbox, now)
    is_whole = found.seen_until is None
    mine.update(look_at=_plan(mailbox_id, newest, now) if is_whole else now + watches.SHORTEST_WAIT)


def _find_watched(mailbox_id: UUID) -> QuerySet[Watch]:
    return Watch.objects.filter(mailbox=mailbox_id, ends_at__isnull=False)


def _end_old(mailbox: Mailbox, now: datetime) -> None:
    """End watches whose time is over, and those of answered mails that nobody returns any more."""
    over = Q(ends_at__lte=now) | Q(answered_at__isnull=False, began_at__lte=now - RETURNS_AFTER)
    over |= ~watches.is_of_account(mailbox)
    _find_watched(mailbox.pk).filter(over, follow_up_at=None).update(ends_at=None)


def _follow_up(kind: Followed, mailbox: Mailbox, now: datetime) -> None:
    """Say that nobody has answered, if that is so in the whole mailbox.

    A conversation that cannot be read holds up no other: it is put off, and at last told as that.
    """
    due = Watch.objects.filter(mailbox=mailbox, follow_up_at__lte=now).select_related("action")
    for watch in due.order_by("follow_up_at")[:MOST_FOLLOW_UPS]:
        try:
            answer = _find_answer(kind, mailbox, watch)
        except NotLookedAt:
            watches.record_silence(watch.pk, now=now, code="incomplete")
        except Exception:  # a provider's library may raise anything
            log.exception("look_failed", action=str(watch.pk))
            if not watches.put_off(watch, now=now):
                watches.record_silence(watch.pk, now=now, code="incomplete")
        else:
            if answer is None:
                watches.record_silence(watch.pk, now=now)
            else:
                watches.record(watch.pk, answer, now=now)


def _find_answer(kind: Followed, mailbox: Mailbox, watch: Watch) -> Response | None:
    if not Watch.objects.filter(watches.is_of_account(mailbox), pk=watch.pk).exists():
        raise NotLookedAt
    ours, name = watch.action.message_id, watch.message_id
    if name in ("", ours, watches.UNSHOWN):  # a copy under another id may have come late
        name = kind.shown_id(mailbox, ours) or name
    if name not in ("", watches.UNSHOWN):
        return kind.find_answer(mailbox, name)
    answer = kind.find_answer(mailbox, ours)
    if answer is None:  # one may name the id of another server
        raise NotLookedAt
    return answer


def _plan(mailbox_id: UUID, newest: Watch, now: datetime) -> datetime:
    """Return the time of the next look: soon after a mail was sent, or when a follow-up is due."""
    wait = min(max((now - newest.began_at) / PART_OF_AGE, watches.SHORTEST_WAIT), LONGEST_WAIT)
    following = Watch.objects.filter(mailbox=mailbox_id, follow_up_at__isnull=False)
    first = following.order_by("follow_up_at").values_list("follow_up_at", flat=True).first()
    return max(min(now + wait, first or now + wait), now + watches.SHORTEST_WAIT)


LOOKS = Background(
    "watches", lambda: find_served(find_due().order_by("look_at")), look, **OF_OWNERS
)
