"""The page of security events: only for staff, filtered, with names in place of ids."""

from html import unescape
from typing import Any

import pytest

from accounts.audit_hook import record_event
from accounts.models import Mailbox, User
from approvals.audit import chain
from tests.support.people.browser import browser

pytestmark = pytest.mark.django_db(transaction=True)


def page(person: User, query: str = "") -> str:
    answer: Any = browser(person).get(f"/audit/security/{query}")
    assert answer.status_code == 200
    text = unescape(answer.content.decode())
    return text[text.find("<tbody>") :] if "<tbody>" in text else ""


def test_page_is_only_for_staff(staff: User, bob: User) -> None:
    assert browser(bob).get("/audit/security/").status_code == 404
    assert browser(staff).get("/audit/security/").status_code == 200
    assert b'href="/audit/security/"' in browser(staff).get("/audit/").content


def test_row_names_actor_subject_method_and_network(staff: User, bob: User) -> None:
    record_event(
        "sign_in_failed",
        person=None,
        actor="stranger",
        subject=bob,
        method="password",
        network="203.0.113.0/24",
        count=7,
    )
    record_event("factor_added", person=bob, method="totp", network="198.51.100.0/24")
    rows = page(staff)
    for text in (
        "Sign-in failed",
        "a person who is not signed in",
        bob.email,
        "password",
        "203.0.113.0/24",
        "Second factor added",
    ):
        assert text in rows
    assert str(bob.pk) not in [line.strip() for line in rows.split(">")]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("?event=factor_added", 1),
        ("?person=BOB@lovelace.example", 2),
        ("?network=203.0.113.0/24", 1),
        ("?person=nobody@x.example", 0),
        ("?since=2199-01-01", 0),
        ("?event=never", 0),
        ("?cursor=nonsense", None),
    ],
)
def test_filters_work(staff: User, bob: User, query: str, found: int | None) -> None:
    record_event(
        "sign_in_failed",
        person=None,
        actor="stranger",
        subject=bob,
        network="203.0.113.0/24",
        count=1,
    )
    record_event("factor_added", person=bob, method="totp", network="198.51.100.0/24")
    record_event("password_set", person=staff)
    if found is None:
        assert browser(staff).get(f"/audit/security/{query}").status_code == 302
    else:
        assert page(staff, query).count("<tr>") == found


def test_mailboxes_are_named_by_their_address(staff: User, mailbox: Mailbox) -> None:
    record_event("invited", person=staff, mailbox=mailbox)
    chain.record(
        mailbox=None, of_people=True, event="invited", actor="command", mailboxes=["no id", 7]
    )
    rows = page(staff)
    assert f"<bdi>{mailbox.address}</bdi>" in rows
    assert '["no id", 7]' in rows
    assert str(mailbox.pk) not in rows
