"""The first rows of each key, against the same answer made in Python."""

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.test.utils import CaptureQueriesContext

from accounts.infra.first_rows import Keys, Rows, count_first, first_rows
from accounts.models import Mailbox, Membership, Role, User

pytestmark = [pytest.mark.django_db, pytest.mark.both]

ROLES = [Role.MANAGER, Role.APPROVER]
BEGAN = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def people() -> list[User]:
    """Return five people with 120 memberships, several of which began in the same second."""
    chosen = random.Random(7)  # the same rows in each run
    people = [User.objects.create(email=f"person{number}@example.com") for number in range(5)]
    mailboxes = Mailbox.objects.bulk_create(
        Mailbox(address=f"box{number}@example.com", provider="imap", credentials=b"")
        for number in range(40)
    )
    Membership.objects.bulk_create(
        Membership(
            mailbox=mailbox,
            user=person,
            role=chosen.choice(ROLES),
            created_at=BEGAN + timedelta(seconds=chosen.randrange(20)),
        )
        for mailbox in mailboxes
        for person in chosen.sample(people, 3)
    )
    return people


def _with_person(person: Any) -> QuerySet[Membership]:
    others = Membership.objects.filter(mailbox=OuterRef("mailbox"), user=person)
    return Membership.objects.filter(Exists(others)).exclude(user=person)


@pytest.mark.parametrize("also", [Q(), Q(role=Role.APPROVER)])
def test_compiled_rows_are_those_of_the_query(people: list[User], also: Q) -> None:
    found = set()
    for person in people:
        rows = Rows(build=_with_person, value=person.pk, also=also)
        keys = {"user": [each.pk for each in people]}
        order = ("-created_at", "-id")
        compiled = first_rows(rows, keys=keys, order=order, take=30)
        assert compiled == first_rows(rows.query(), keys=keys, order=order, take=30)
        assert count_first(rows, keys=keys, order=order, take=30, by="user") == count_first(
            rows.query(), keys=keys, order=order, take=30, by="user"
        )
        found.add(tuple(compiled))
    assert len(found) == len(people)


@pytest.mark.parametrize("order", [("created_at", "id"), ("-created_at", "-id")])
@pytest.mark.parametrize("take", [1, 7, 1000])
def test_first_rows_of_all_keys_are_merged(
    people: list[User], order: tuple[str, str], take: int
) -> None:
    wanted = people[1:4]
    rows = Membership.objects.filter(created_at__gt=BEGAN + timedelta(seconds=3))

    found = first_rows(
        rows,
        keys={"user": [each.pk for each in wanted], "role": [Role.MANAGER]},
        order=order,
        take=take,
    )

    all_of_them = rows.filter(user__in=wanted, role=Role.MANAGER).order_by(*order)
    assert found == list(all_of_them.values_list("created_at", "id")[:take])
    assert found


def test_each_key_is_counted_up_to_a_limit(people: list[User]) -> None:
    keys: Keys = {"user": [each.pk for each in people], "role": ROLES}

    found = count_first(Membership.objects.all(), keys=keys, order=("id",), take=9, by="role")

    each_key = Counter(Membership.objects.values_list("user", "role"))
    assert max(each_key.values()) > 9
    assert found == {
        role: sum(min(number, 9) for (_, its), number in each_key.items() if its == role)
        for role in ROLES
    }


def test_keys_of_uuids_are_read_back() -> None:
    mailbox = Mailbox.objects.create(address="a@example.com", provider="imap", credentials=b"")
    rows = Mailbox.objects.all()
    keys = {"id": [mailbox.pk, uuid4()]}

    assert count_first(rows, keys=keys, order=("id",), take=1, by="id") == {mailbox.pk: 1}
    assert first_rows(rows, keys=keys, order=("id",), take=1) == [(mailbox.pk,)]


def test_ten_thousand_keys_are_one_statement(people: list[User]) -> None:
    keys = {"user": [*(each.pk for each in people), *range(10**6, 10**6 + 10_000)]}
    rows = Membership.objects.all()

    with CaptureQueriesContext(connection) as queries:
        found = first_rows(rows, keys=keys, order=("id",), take=200)

    assert len(queries) == 1
    assert len(found) == 120


def test_no_key_or_no_possible_row_asks_nothing(people: list[User]) -> None:
    keys = {"user": [each.pk for each in people]}
    with CaptureQueriesContext(connection) as queries:
        assert first_rows(Membership.objects.all(), keys={"user": []}, order=("id",), take=5) == []
        assert first_rows(Membership.objects.none(), keys=keys, order=("id",), take=5) == []
        assert not count_first(
            Membership.objects.none(), keys=keys, order=("id",), take=5, by="user"
        )
    assert not queries.captured_queries
