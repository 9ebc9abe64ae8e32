"""The deputies to whom a mail can be assigned are those who may decide about it."""

from datetime import timedelta
from random import Random

import pytest
from django.db import connection
from django.utils import timezone

from accounts.models import Mailbox, Membership, Role, User
from approvals import guards
from approvals.models import Deputyship
from approvals.rules.deputies import deputies_on, find_lent, lent_to

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("seed", range(4))
def test_deputies_of_a_mailbox_are_those_with_a_lent_right(seed: int) -> None:
    chosen, now = Random(seed), timezone.now()  # reproducible
    people = [
        User.objects.create_user(f"p{n}@lovelace.example", is_active=n % 5 != 0) for n in range(10)
    ]
    boxes = [
        Mailbox.objects.create(address=f"b{n}@lovelace.example", provider="memory")
        for n in range(3)
    ]
    Membership.objects.bulk_create(
        Membership(mailbox=box, user=person, role=chosen.choice(list(Role)))
        for box in boxes
        for person in chosen.sample(people, 6)
    )
    with guards.lift_guards(connection):
        Deputyship.objects.bulk_create(
            Deputyship(
                person=person,
                deputy=deputy,
                starts_at=now + timedelta(hours=starts),
                ends_at=now + timedelta(hours=ends),
                ended_at=chosen.choice([None, None, now]),
            )
            for person, deputy in (chosen.sample(people, 2) for _ in range(30))
            for starts, ends in [chosen.choice([(-9, -1), (-9, 9), (-9, 9), (1, 9)])]
        )

    for box in boxes:
        found = set(deputies_on(box.pk).values_list("deputy", flat=True))
        assert found == {each.deputy_id for each in find_lent([box.pk])}
        active = [each for each in people if each.is_active]
        assert found == {each.pk for each in active if lent_to(each).filter(mailbox=box).exists()}
