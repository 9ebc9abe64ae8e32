"""Throttling of password guesses and of mailed ways in: it delays attempts, and never locks an account.

Each attempt is counted before its password is checked, so simultaneous attempts are counted too.
Three counts can make the next attempt wait, each for at most a minute:

- the account from this place (a known browser, otherwise the network), after 5 failures;
- the account from all places where its person never signed in, after 20;
- the network, for all accounts, after 30; known browsers are not counted.

So only its own failures delay a known browser or network. Failures reach the audit as one event for
each account and network in an hour, with a count, and at most `EVENTS_AN_HOUR` such events.

Mailed codes and links have a limit. A stranger who asks again and again must neither flood the
mailbox, nor guess at many codes, nor keep the person from getting one.
"""

import hashlib
import hmac
import math
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F, QuerySet
from django.http import HttpRequest
from django.utils import timezone

from accounts.access.quotas import Quota, count
from accounts.audit_hook import record_event
from accounts.infra.networks import network_of
from accounts.models import FailedSignIns, SignInPlace, User
from accounts.people.devices import device_of

FREE_HERE, FREE_ELSEWHERE, FREE_FOR_A_NETWORK = 5, 20, 30
LONGEST_WAIT = 60.0
FORGIVEN = timedelta(minutes=15)  # after the last failure, then the count restarts
WINDOW = timedelta(hours=1)
EVENTS_AN_HOUR = 100
KEPT = timedelta(days=1)
EVERYWHERE = "*"
MAILED = Quota(name="mailed-ways-in", amount=10, seconds=3600, refusal="")


class TooSoon(Exception):
    """Refusal because the next attempt must wait; nothing was checked or counted."""

    def __init__(self, seconds: int) -> None:
        super().__init__(seconds)
        self.seconds = seconds


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One counted attempt: the account, the network, and the keys of its counts."""

    user: User | None
    network: str
    counted: tuple[tuple[str, str], ...]


def may_be_mailed(request: HttpRequest, email: str) -> bool:
    """Count a request for a mailed code or link; return False if this known browser, or all unknown
    ones together, have asked too often for this address.
    """
    email = email.strip().lower()
    device, person = device_of(request), User.objects.filter(email=email).first()
    known = device is not None and person is not None and person.pk in device.people
    place = device.id if known and device else ""
    return count(MAILED, f"{_hash_address(email)}:{place}").granted


def begin_attempt(request: HttpRequest, email: str) -> Attempt:
    """Count an attempt to sign in; raise TooSoon if the account or the network has to wait."""
    email = email.strip().lower()
    user = User.objects.filter(email=email).first()
    account, network, device = _hash_address(email), network_of(request), device_of(request)
    known = device is not None and user is not None and user.pk in device.people
    limits = {(account, f"browser:{device.id}" if known and device else network): FREE_HERE}
    if not known:
        limits["", network] = FREE_FOR_A_NETWORK
        if user is None or not SignInPlace.objects.filter(user=user, network=network).exists():
            limits[account, ""] = FREE_ELSEWHERE
    with transaction.atomic():
        now = timezone.now()
        rows = [
            (_lock_row(*key, network=network, user=user), free)
            for key, free in sorted(limits.items())
        ]
        wait = max(_wait(row, free, now) for row, free in rows)
        if wait > 0:
            raise TooSoon(math.ceil(wait))
        for row, _free in rows:
            row.failures = row.failures + 1 if row.last_at > now - FORGIVEN else 1
            row.last_at = now
            row.save(update_fields=["failures", "last_at"])
    return Attempt(user=user, network=network, counted=tuple(sorted(limits)))


def end_attempt(attempt: Attempt) -> None:
    """Undo the count of a right password: reset that of this place, lower the others by one."""
    for account, place in attempt.counted:
        mine = FailedSignIns.objects.filter(account=account, place=place, failures__gt=0)
        mine.update(failures=0 if account and place else F("failures") - 1)


@transaction.atomic
def record_failure(*, user: User | None, network: str, method: str) -> None:
    """Record a failure in the audit: the first of an account and network at once, the others within
    an hour as a count.
    """
    now = timezone.now()
    row = _lock_row(_hash_address(user.email) if user else "", network, network=network, user=user)
    row.unrecorded += 1
    recent = FailedSignIns.objects.filter(recorded_at__gt=now - WINDOW)
    if (
        row.recorded_at is None or row.recorded_at <= now - WINDOW
    ) and recent.count() < EVENTS_AN_HOUR:
        _record(row, now, method=method)
    row.save(update_fields=["unrecorded", "recorded_at"])


def record_counted() -> None:
    """Record counted failures in the audit once their hour is over, and delete old counts."""
    now = timezone.now()
    due = (
        FailedSignIns.objects.filter(unrecorded__gt=0)
        .exclude(recorded_at__gt=now - WINDOW)
        .order_by("last_at")
    )
    room = EVENTS_AN_HOUR - FailedSignIns.objects.filter(recorded_at__gt=now - WINDOW).count()
    for key in list(due.values_list("pk", flat=True)[: max(room, 0)]):
        with transaction.atomic():
            row = FailedSignIns.objects.select_for_update(no_key=True).get(pk=key)
            if row.unrecorded:
                _record(row, now)
                row.save(update_fields=["unrecorded", "recorded_at"])
    if due.exists():
        _record_together(due, now)
    FailedSignIns.objects.filter(last_at__lt=now - KEPT, unrecorded=0).delete()


@transaction.atomic
def _record_together(due: QuerySet[FailedSignIns], now: datetime) -> None:
    """Record one event an hour for failures beyond the limit, so that no flood fills the chain."""
    mark = _lock_row("", EVERYWHERE, network="", user=None)
    if mark.recorded_at is not None and mark.recorded_at > now - WINDOW:
        return
    rows = list(due.select_for_update(no_key=True, of=("self",)))
    count = sum(row.unrecorded for row in rows)
    record_event(
        "sign_in_failed", person=None, actor="stranger", network="", count=count, networks=len(rows)
    )
    FailedSignIns.objects.filter(pk__in=[row.pk for row in rows]).update(unrecorded=0)
    mark.recorded_at = mark.last_at = now
    mark.save(update_fields=["recorded_at", "last_at"])


def _record(row: FailedSignIns, now: datetime, *, method: str = "") -> None:
    record_event(
        "sign_in_failed",
        person=None,
        actor="stranger",
        subject=row.user,
        network=row.network,
        method=method,
        count=row.unrecorded,
    )
    row.unrecorded, row.recorded_at = 0, now


def _lock_row(account: str, place: str, *, network: str, user: User | None) -> FailedSignIns:
    made = {"last_at": timezone.now(), "network": network, "user": user if account else None}
    FailedSignIns.objects.get_or_create(account=account, place=place, defaults=made)
    return FailedSignIns.objects.select_for_update(no_key=True, of=("self",)).get(
        account=account, place=place
    )


def _wait(row: FailedSignIns, free: int, now: datetime) -> float:
    if row.failures < free or row.last_at <= now - FORGIVEN:
        return 0.0
    pause = min(2.0 ** min(row.failures - free + 1, 10), LONGEST_WAIT)
    return pause - (now - row.last_at).total_seconds()


def _hash_address(email: str) -> str:
    """Return a keyed hash: addresses without an account must not be stored."""
    return hmac.new(
        settings.SECRET_KEY.encode(), b"failed sign-ins " + email.encode(), hashlib.sha256
    ).hexdigest()
