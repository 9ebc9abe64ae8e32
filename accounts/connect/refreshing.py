"""Access tokens of a mailbox: kept in its encrypted credentials, refreshed by one worker at a time.

The lock is a row that says until when somebody refreshes, so that no transaction is open while the
provider is asked. Whoever outlives that time may find a second refresh beside the first: each has a
number, and what a lower one brought is not written over what a higher one did. Access tokens are
opaque; what they hold is never looked at.
"""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils import timezone

from accounts.connect import mailbox_status
from accounts.infra import credentials
from accounts.infra.credentials import Secrets
from accounts.models import Mailbox, TokenRefresh

EARLY_SECONDS = (
    300.0  # renewed this long before the end: nobody has to wait for it, and clocks may differ
)
LEASE = timedelta(seconds=45)  # longer than one refresh may take
WAIT_SECONDS = 50.0
POLL_SECONDS = 0.1
TRY_AGAIN = timedelta(seconds=60)  # after a refresh that did not succeed

Refreshing = Callable[[Secrets], dict[str, Any]]


class GrantEnded(Exception):
    """The provider takes the refresh token no more (`invalid_grant`): a person has to connect the
    mailbox again.
    """


class NoToken(Exception):
    """No token right now; `retry_after` in seconds, `detail` a sentence where waiting alone will
    not help.
    """

    def __init__(self, retry_after: int | None = None, detail: str = "") -> None:
        super().__init__("no token")
        self.retry_after = retry_after
        self.detail = detail


def access_token(
    mailbox_id: UUID, refresh: Refreshing, *, known: Secrets | None = None, rejected: str = ""
) -> str:
    """A token that can be used now: that of the secrets `known`, read a moment ago, or one that is
    looked for.

    `refresh` gets the mailbox's secrets and returns all of them anew, with `access_token`,
    `expires_at` (Unix time) and, where the provider says them, the permissions as `granted`: they
    are the mailbox's from then on. It bounds its own time and raises GrantEnded or NoToken.
    `rejected` is a token that the provider has just refused. Raises the same. After GrantEnded the
    mailbox needs to be connected again, and after either the provider is not asked before a minute
    is over.
    """
    token, left = _usable(known or Secrets(), rejected)
    if left > EARLY_SECONDS:
        return token
    give_up_at = time.monotonic() + WAIT_SECONDS
    while True:
        mailbox = Mailbox.objects.get(pk=mailbox_id)
        secrets = _secrets(mailbox)
        token, left = _usable(secrets, rejected)
        if left > EARLY_SECONDS:
            return token
        number = _begin(mailbox)
        if number is not None:
            return _refreshed(mailbox, secrets, number, refresh)
        if left > 0:
            # somebody else is at it, or it did not succeed; this one is good a little longer
            return token
        _not_failed_lately(mailbox)
        if time.monotonic() > give_up_at:
            raise NoToken
        time.sleep(POLL_SECONDS)


def _usable(secrets: Secrets, rejected: str) -> tuple[str, float]:
    """The token, and for how many seconds it is good."""
    token = str(secrets.get("access_token", ""))
    return token, float(
        secrets.get("expires_at", 0)
    ) - time.time() if token and token != rejected else 0


def _begin(mailbox: Mailbox) -> int | None:
    """Take the lock: the number of this refresh, or None while another holds it or a failure is
    fresh.
    """
    TokenRefresh.objects.bulk_create([TokenRefresh(mailbox=mailbox)], ignore_conflicts=True)
    free = Q(lease_until=None) | Q(lease_until__lte=Now())
    rested = Q(try_again_at=None) | Q(try_again_at__lte=Now())
    with transaction.atomic():
        taken = TokenRefresh.objects.filter(free, rested, mailbox=mailbox).update(
            lease_until=Now() + LEASE, number=F("number") + 1
        )
        return TokenRefresh.objects.get(mailbox=mailbox).number if taken else None


def _refreshed(mailbox: Mailbox, read_before: Secrets, number: int, refresh: Refreshing) -> str:
    mailbox.refresh_from_db()
    secrets = _secrets(mailbox)
    if secrets.get("access_token") != read_before.get("access_token"):
        _end(mailbox, number)  # somebody was faster, between the look and the lock
        return str(secrets["access_token"])
    try:
        renewed = Secrets(refresh(secrets))
    except GrantEnded:
        if _end(mailbox, number, failed_for=TRY_AGAIN, ended=True):
            mailbox_status.login_refused(mailbox)
        raise
    except NoToken as error:
        wait = timedelta(seconds=error.retry_after) if error.retry_after else TRY_AGAIN
        _end(mailbox, number, failed_for=wait)
        raise NoToken(round(wait.total_seconds()), error.detail) from None
    except BaseException:
        _end(mailbox, number)
        raise
    return _stored(mailbox, renewed, number)


@transaction.atomic
def _stored(mailbox: Mailbox, renewed: Secrets, number: int) -> str:
    """Keep what this refresh brought, unless a later one has or the mailbox was connected anew
    meanwhile.
    """
    row = Mailbox.objects.select_for_update(no_key=True).get(pk=mailbox.pk)
    newest = TokenRefresh.objects.filter(mailbox=mailbox, kept__lt=number)
    if row.credentials_version == mailbox.credentials_version and newest.update(kept=number):
        kept = {"credentials": credentials.encrypt(renewed, mailbox_id=row.pk)}
        granted = {"scopes": renewed["granted"]} if "granted" in renewed else {}
        Mailbox.objects.filter(pk=row.pk).update(**kept, **granted)
    _end(mailbox, number)
    return str(renewed["access_token"])


def _end(
    mailbox: Mailbox, number: int, *, failed_for: timedelta | None = None, ended: bool = False
) -> bool:
    """Give the lock back; False when a later refresh holds it, or the mailbox was connected anew."""
    mine = TokenRefresh.objects.filter(mailbox=mailbox, number=number)
    return bool(
        mine.update(
            lease_until=None,
            try_again_at=Now() + failed_for if failed_for else None,
            grant_ended=ended,
        )
    )


def _not_failed_lately(mailbox: Mailbox) -> None:
    failed = TokenRefresh.objects.filter(
        mailbox=mailbox, lease_until=None, try_again_at__gt=Now()
    ).first()
    if failed is None or failed.try_again_at is None:
        return
    if failed.grant_ended:
        raise GrantEnded
    raise NoToken(max(round((failed.try_again_at - timezone.now()).total_seconds()), 1))


def _secrets(mailbox: Mailbox) -> Secrets:
    return credentials.decrypt(bytes(mailbox.credentials), mailbox_id=mailbox.pk)
