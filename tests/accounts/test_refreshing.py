"""Access tokens: one refresh at a time, only the newest kept, a revoked grant reported once."""

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
import time_machine
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from django.utils import timezone

from accounts.connect.connecting import connect_mailbox, disconnect
from accounts.connect.refreshing import GrantEnded, NoToken, access_token
from accounts.infra import credentials
from accounts.infra.credentials import CannotDecrypt, Secrets
from accounts.models import Mailbox, Membership, TokenRefresh, User
from tests.support.concurrently import all_at_once

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]
HOUR = 3600.0
SECONDS = 20.0
KEYS = ["a" * 42 + "w=", "b" * 42 + "w="]


def connected(owner: User, *, left: float = 0.0, token: str = "token 0") -> Mailbox:
    secrets = {
        "refresh_token": "refresh 0",
        "access_token": token,
        "expires_at": time.time() + left,
    }
    return connect_mailbox(
        owner=owner, address="ada@grid.example", provider="microsoft", secrets=secrets, scopes=[]
    )


def stored(mailbox: Mailbox) -> Secrets:
    return credentials.decrypt(
        bytes(Mailbox.objects.get(pk=mailbox.pk).credentials), mailbox_id=mailbox.pk
    )


class Provider:
    """The provider: numbers the tokens that it issues; `meanwhile` runs during a request."""

    def __init__(self, meanwhile: Callable[[int], object] = lambda number: None) -> None:
        self.asked: list[str] = []
        self._meanwhile = meanwhile
        self._lock = threading.Lock()

    def __call__(self, secrets: Secrets) -> dict[str, Any]:
        assert not connection.in_atomic_block
        with self._lock:
            self.asked.append(secrets["refresh_token"])
            number = len(self.asked)
        self._meanwhile(number)
        return {
            **secrets,
            "access_token": f"token {number}",
            "refresh_token": f"refresh {number}",
            "expires_at": time.time() + HOUR,
        }


def test_long_valid_token_is_used_without_asking(alice: User) -> None:
    provider = Provider()
    mailbox = connected(alice, left=HOUR)
    assert access_token(mailbox, provider) == "token 0"
    assert provider.asked == []


def test_address_that_two_connect_at_once_has_one_owner(alice: User, charlie: User) -> None:
    def connect(person: User) -> str:
        try:
            return str(connected(person).address)
        except PermissionError:
            return "taken"

    people = [alice, alice, charlie, charlie]
    answers = all_at_once([partial(connect, person) for person in people])
    owner = Membership.objects.get().user
    assert answers == ["ada@grid.example" if each == owner else "taken" for each in people]
    assert Mailbox.objects.count() == 1


@pytest.mark.fault(59)
def test_eight_refreshes_at_once_become_one(alice: User) -> None:
    mailbox = connected(alice)
    provider = Provider()
    tokens = all_at_once([lambda: access_token(mailbox, provider)] * 8)
    assert tokens == ["token 1"] * 8
    assert provider.asked == ["refresh 0"]
    assert stored(mailbox)["refresh_token"] == "refresh 1"


def test_valid_token_is_used_while_another_refreshes(alice: User) -> None:
    mailbox = connected(alice, left=60)
    beside: list[str] = []
    provider = Provider(lambda number: beside.append(access_token(mailbox, provider)))
    assert access_token(mailbox, provider) == "token 1"
    assert beside == ["token 0"]
    assert len(provider.asked) == 1


@pytest.mark.fault(59)
@pytest.mark.parametrize("first_to_come_back", [1, 2])
def test_later_of_two_refreshes_is_kept(alice: User, first_to_come_back: int) -> None:
    mailbox = connected(alice)
    begun, back = (
        {1: threading.Event(), 2: threading.Event()},
        {1: threading.Event(), 2: threading.Event()},
    )

    def meanwhile(number: int) -> None:
        begun[number].set()
        assert begun[2].wait(SECONDS)
        if number != first_to_come_back:
            assert back[first_to_come_back].wait(SECONDS)

    provider = Provider(meanwhile)

    def outlives_its_lease() -> str:
        token = access_token(mailbox, provider)
        back[1].set()
        return token

    def comes_after() -> str:
        assert begun[1].wait(SECONDS)
        TokenRefresh.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
        token = access_token(mailbox, provider)
        back[2].set()
        return token

    assert all_at_once([outlives_its_lease, comes_after]) == ["token 1", "token 2"]
    assert stored(mailbox)["refresh_token"] == "refresh 2"
    assert TokenRefresh.objects.get().lease_until is None


@pytest.mark.fault(29)
@pytest.mark.parametrize("column", ["lease_until", "try_again_at"])
def test_clock_that_was_ahead_delays_no_refresh(alice: User, column: str) -> None:
    mailbox, provider = connected(alice), Provider()
    TokenRefresh.objects.create(mailbox=mailbox, **{column: timezone.now() + timedelta(hours=6)})
    assert access_token(mailbox, provider) == "token 1"


@pytest.mark.fault(36)
def test_ended_grant_is_asked_for_once(alice: User) -> None:
    mailbox = connected(alice)
    asked = []

    def ended(secrets: Secrets) -> dict[str, Any]:
        asked.append(1)
        raise GrantEnded

    for _ in range(3):
        with pytest.raises(GrantEnded):
            access_token(mailbox, ended)
    assert len(asked) == 1
    assert Mailbox.objects.get().status == "needs_reauth"

    TokenRefresh.objects.update(try_again_at=timezone.now() - timedelta(seconds=1))
    with pytest.raises(GrantEnded):
        access_token(mailbox, ended)
    assert len(asked) == 2


def test_failed_refresh_is_not_retried_at_once(alice: User) -> None:
    mailbox = connected(alice)
    asked = []

    def not_now(secrets: Secrets) -> dict[str, Any]:
        asked.append(1)
        raise NoToken(120)

    waits = []
    for ahead in (0, 0, 6):  # hours by which the worker's clock is wrong
        wrong = timezone.now() + timedelta(hours=ahead)
        with time_machine.travel(wrong), pytest.raises(NoToken) as caught:
            access_token(mailbox, not_now)
        waits.append(caught.value.retry_after or 0)
    assert len(asked) == 1
    assert waits[0] == 120
    assert all(100 < wait <= 120 for wait in waits)
    assert Mailbox.objects.get().status == "active"


def test_token_refused_by_the_provider_is_renewed_once(alice: User) -> None:
    mailbox = connected(alice, left=HOUR)
    provider = Provider()
    assert access_token(mailbox, provider, rejected="token 0") == "token 1"
    assert access_token(mailbox, provider, rejected="token 0") == "token 1"
    assert len(provider.asked) == 1


def test_reconnected_mailbox_keeps_its_new_access(alice: User) -> None:
    mailbox = connected(alice)
    provider = Provider(lambda number: connected(alice, left=HOUR, token="of the new sign-in"))
    access_token(mailbox, provider)
    assert stored(mailbox)["access_token"] == "of the new sign-in"
    assert access_token(mailbox, provider) == "of the new sign-in"


@pytest.mark.parametrize("connects", [True, False])
@pytest.mark.parametrize("meanwhile", ["before", "after the lease"])
def test_no_token_after_the_account_is_disconnected(
    alice: User, meanwhile: str, connects: bool
) -> None:
    mailbox = connected(alice)
    provider = Provider()

    def change() -> None:
        disconnect(mailbox, person=alice)
        if connects:
            connected(alice, left=HOUR, token="of another account")

    def after_the_lease(execute: Any, sql: str, *more: Any) -> Any:
        found = execute(sql, *more)
        if armed and sql.startswith("SELECT") and 'FROM "accounts_tokenrefresh"' in sql:
            armed.clear()
            change()
        return found

    armed = [meanwhile]
    if meanwhile == "before":
        change()
    with connection.execute_wrapper(after_the_lease), pytest.raises(NoToken):
        access_token(mailbox, provider)
    assert provider.asked == []
    if connects:
        assert access_token(Mailbox.objects.get(), provider) == "of another account"


def test_reconnecting_ends_the_wait_after_a_dead_grant(alice: User) -> None:
    mailbox = connected(alice)

    def ended(secrets: Secrets) -> dict[str, Any]:
        raise GrantEnded

    with pytest.raises(GrantEnded):
        access_token(mailbox, ended)
    connected(alice)
    assert access_token(mailbox, Provider()) == "token 1"
    assert Mailbox.objects.get().status == "active"


@pytest.mark.fault(59)
def test_keys_are_rotated_while_tokens_are_refreshed(alice: User, settings: Any) -> None:
    settings.MAILHUB_ENCRYPTION_KEYS = [KEYS[0]]
    mailbox = connected(alice)
    settings.MAILHUB_ENCRYPTION_KEYS = [KEYS[1], KEYS[0]]
    provider = Provider(lambda number: call_command("rotate_keys", verbosity=0))
    access_token(mailbox, provider)
    settings.MAILHUB_ENCRYPTION_KEYS = [KEYS[1]]
    assert stored(mailbox)["refresh_token"] == "refresh 1"


@pytest.mark.fault(59)
def test_old_key_is_not_needed_after_a_rotation(alice: User, settings: Any) -> None:
    settings.MAILHUB_ENCRYPTION_KEYS = [KEYS[0]]
    mailbox = connected(alice)
    settings.MAILHUB_ENCRYPTION_KEYS = [KEYS[1]]
    with pytest.raises(CommandError, match=str(mailbox.pk)):
        call_command("rotate_keys")
    settings.MAILHUB_ENCRYPTION_KEYS = [KEYS[1], KEYS[0]]
    call_command("rotate_keys", verbosity=0)
    settings.MAILHUB_ENCRYPTION_KEYS = [KEYS[1]]
    assert stored(mailbox)["refresh_token"] == "refresh 0"


@pytest.mark.fault(58)
def test_stored_token_is_unreadable_and_bound_to_its_row(alice: User) -> None:
    mailbox = connected(alice)
    access_token(mailbox, Provider())
    record = bytes(Mailbox.objects.get().credentials)
    for secret in (b"token 1", b"refresh 1"):
        assert secret not in record
    with pytest.raises(CannotDecrypt):
        credentials.decrypt(
            record,
            mailbox_id=Membership.objects.create(
                user=alice,
                mailbox=Mailbox.objects.create(
                    address="b@grid.example", provider="imap", credentials=record
                ),
                role="viewer",
            ).mailbox_id,
        )
    assert "token 1" not in repr(stored(mailbox))
