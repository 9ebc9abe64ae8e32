"""A recovery, and the end of an account, wait for what others record, and do not fail because of it."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction

from accounts.audit_hook import record_event
from accounts.models import ApiToken, Mailbox, User
from accounts.people import recovery
from approvals.audit import chain
from tests.conftest import make_mailbox
from tests.support.concurrently import until_a_lock_is_waited_for
from tests.support.people.browser import browser
from tests.support.servers.memory import MemoryServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres_only]


def recover(person: User) -> None:
    recovery.recover(person, revoke_tokens=True)


def close(person: User) -> None:
    operator = User.objects.create_user("eve@admin.example", is_staff=True, is_superuser=True)
    form = {"first_name": "", "last_name": "", "initial-is_active": "on"}
    address = f"/admin/accounts/user/{person.pk}/change/"
    assert browser(operator).post(address, form).status_code == 302


def leave_staff(person: User) -> None:
    operator = User.objects.create_user("eve@admin.example", is_staff=True, is_superuser=True)
    form = {"first_name": "", "last_name": "", "is_active": "on"}
    form |= {"initial-is_active": "on", "initial-is_staff": "on"}
    address = f"/admin/accounts/user/{person.pk}/change/"
    assert browser(operator).post(address, form).status_code == 302


@pytest.mark.parametrize("end", [recover, close, leave_staff])
def test_what_others_record_makes_no_recovery_fail(
    end: Callable[[User], None], server: MemoryServer, charlie: User
) -> None:
    """The others hold the audit of a mailbox and then record an event of people, as each rotation of a
    token does.
    """
    person = User.objects.create_user("dora@lovelace.example", is_staff=True)
    for name in ("b", "a"):
        held = make_mailbox(f"{name}@lovelace.example", server, charlie)
        ApiToken.issue(user=person, name=name, scopes=["m365:run"], mailboxes=[held])
    errors: list[Any] = []

    def run() -> None:
        try:
            end(User.objects.get(pk=person.pk))
        except Exception as error:
            errors.append(error)
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    for mailbox in Mailbox.objects.all():
        record_event("mailbox_connected", person=charlie, mailbox=mailbox)
    last = ApiToken.objects.filter(user=person).order_by("pk").last()
    assert last is not None
    with transaction.atomic():
        chain.lock_end(last.mailboxes.get().pk)
        thread.start()
        until_a_lock_is_waited_for()
        record_event("token_rotated", person=charlie)
    thread.join()

    assert errors == []
    assert not ApiToken.objects.filter(user=person, scopes=["m365:run"], revoked_at=None).exists()
