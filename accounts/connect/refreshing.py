"""Access tokens of a mailbox: kept in its encrypted credentials, refreshed by one worker at a time.

The lock is a lease in a row, so no transaction is open while the provider is asked. If a refresh
takes longer than its lease, a second one may run beside it. Each refresh has a number, and the
tokens of a lower number never overwrite those of a higher one. Access tokens are opaque; mailhub
never parses them.
"""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from accounts.connect import mailbox_status
from accounts.infra import credentials
from accounts.infra.credentials import Secrets
from accounts.infra.database import database_now, give_back_connection
from accounts.infra.texts import as_translatable
from accounts.models import Mailbox, TokenRefresh

EARLY_SECONDS = (
    300.0  # before the end, because nobody should wait for a refresh, and clocks may differ
)
LEASE = timedelta(seconds=45)  # longer than one refresh may take
WAIT_SECONDS = 50.0
POLL_SECONDS = 0.1
TRY_AGAIN = timedelta(seconds=60)  # after a refresh that failed
LONGEST_WAIT = timedelta(hours=1)  # a longer one was set by a clock that was ahead

Refreshing = Callable[[Secrets], dict[str, Any]]


class CannotConnect(Exception):
    """Failure without access. The sentence may be shown and holds no text from the provider; `code`
    is the provider's OAuth error, if it gave one.
    """

    def __init__(self, sentence: str, code: str = "") -> None:
        super().__init__(as_translatable(sentence))
        self.code = code


class GrantEnded(Exception):
    """Refusal of the refresh token by the provider (`invalid_grant`): a person must reconnect."""


class NoToken(Exception):
    """No token now; `retry_after` in seconds, `detail` a sentence if waiting does not help."""

    def __init__(self, retry_after: int | None = None, detail: str = "") -> None:
        super().__init__("no token")
        self.retry_after = retry_after
        self.detail = detail


def access_token(
    mailbox: Mailbox, refresh: Refreshing, *, known: Secrets | None = None, rejected: str = ""
) -> str:
    """Return a token that can be used now: from the secrets `known`, read a moment ago, or from the
    database or the provider.

    Raises NoToken if the mailbox was disconnected or opens another account since `mailbox` was
    read: an approved mail leaves only through the account of its claim.

    `refresh` gets the mailbox's secrets and returns all of them with a new `access_token` and
    `expires_at` (Unix time). If the provider names the permissions, it returns them as `granted`,
    and they become the mailbox's. It bounds its own time and raises GrantEnded or NoToken.
    `rejected` is a token that the provider has just refused. Raises the same errors. After
    GrantEnded the mailbox must be connected again. After either error the provider is not asked for
    a minute.
    """
    token, left = _read_token(known or Secrets(), rejected)
    if left > EARLY_SECONDS:
        return token
    give_up_at = time.monotonic() + WAIT_SECONDS
    while True:
        mailbox = _read_again(mailbox)
        secrets = _secrets(mailbox)
        token, left = _read_token(secrets, rejected)
        if left > EARLY_SECONDS:
            return token
        number = _begin(mailbox)
        if number is not None:
            return _refresh(mailbox, secrets, number, refresh)
        if left > 0:
            # Another worker refreshes, or a refresh failed; this token is valid a while longer.
            return token
        _check_last_failure(mailbox)
        if time.monotonic() > give_up_at:
            raise NoToken
        give_back_connection()
        time.sleep(POLL_SECONDS)


def _read_again(mailbox: Mailbox) -> Mailbox:
    row = Mailbox.objects.get(pk=mailbox.pk)
    if row.generation != mailbox.generation:
        raise NoToken
    return row


def _read_token(secrets: Secrets, rejected: str) -> tuple[str, float]:
    """Return the token, and for how many seconds it is valid."""
    token = str(secrets.get("access_token", ""))
    return token, float(
        secrets.get("expires_at", 0)
    ) - time.time() if token and token != rejected else 0


def _begin(mailbox: Mailbox) -> int | None:
    """Take the lease and return the number of this refresh; None if another worker holds it, or if
    a refresh failed a short time ago.
    """
    TokenRefresh.objects.bulk_create([TokenRefresh(mailbox=mailbox)], ignore_conflicts=True)
    with transaction.atomic():
        over = (_is_over(name) for name in ("lease_until", "try_again_at"))
        taken = TokenRefresh.objects.filter(*over, mailbox=mailbox).update(
            lease_until=Now() + LEASE, number=F("number") + 1
        )
        return TokenRefresh.objects.get(mailbox=mailbox).number if taken else None


def _is_over(name: str) -> Q:
    over = Q(**{f"{name}__lte": Now()}) | Q(**{f"{name}__gt": Now() + LONGEST_WAIT})
    return over | Q(**{name: None})


def _refresh(mailbox: Mailbox, read_before: Secrets, number: int, refresh: Refreshing) -> str:
    try:
        mailbox = _read_again(mailbox)
    except NoToken:
        _end(mailbox, number)
        raise
    secrets = _secrets(mailbox)
    if secrets.get("access_token") != read_before.get("access_token"):
        _end(mailbox, number)  # another worker refreshed between the read and the lease
        return str(secrets["access_token"])
    give_back_connection()
    try:
        renewed = Secrets(refresh(secrets))
    except GrantEnded:
        if _end(mailbox, number, failed_for=TRY_AGAIN, ended=True):
            mailbox_status.mark_login_refused(mailbox)
        raise
    except NoToken as error:
        wait = timedelta(seconds=error.retry_after) if error.retry_after else TRY_AGAIN
        _end(mailbox, number, failed_for=wait)
        raise NoToken(round(wait.total_seconds()), error.detail) from None
    except BaseException:
        _end(mailbox, number)
        raise
    return _store_tokens(mailbox, renewed, number)


@transaction.atomic
def _store_tokens(mailbox: Mailbox, renewed: Secrets, number: int) -> str:
    """Store the tokens of this refresh, unless a later one has stored its own or the mailbox was
    connected again meanwhile; return the access token.
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
    """Release the lease; return False if a later refresh or a new connection has replaced it."""
    mine = TokenRefresh.objects.filter(mailbox=mailbox, number=number)
    return bool(
        mine.update(
            lease_until=None,
            try_again_at=Now() + failed_for if failed_for else None,
            grant_ended=ended,
        )
    )


def _check_last_failure(mailbox: Mailbox) -> None:
    failed = TokenRefresh.objects.filter(
        mailbox=mailbox, lease_until=None, try_again_at__gt=Now()
    ).first()
    if failed is None or failed.try_again_at is None:
        return
    if failed.grant_ended:
        raise GrantEnded
    raise NoToken(max(round((failed.try_again_at - database_now()).total_seconds()), 1))


def _secrets(mailbox: Mailbox) -> Secrets:
    return credentials.decrypt(bytes(mailbox.credentials), mailbox_id=mailbox.pk)
