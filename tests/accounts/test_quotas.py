"""Quotas: shared by processes, exact under races, and cheap for frequent operations."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.access import quotas
from accounts.access.quotas import Quota, count, count_often, headers_of, take
from accounts.infra.problems import Problem
from accounts.models import QuotaUse
from tests.support.concurrently import all_at_once

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]

THREE = Quota(name="three", amount=3, seconds=60, refusal="Three are enough. Wait a minute.")
MANY = Quota(name="many", amount=1000, seconds=60, refusal="Too many.")


def end_window() -> None:
    QuotaUse.objects.update(ends_at=timezone.now() - timedelta(seconds=1))


def test_fourth_of_three_is_refused_with_a_time() -> None:
    assert [take(THREE, "user:1").remaining for _ in range(3)] == [2, 1, 0]

    with pytest.raises(Problem) as refused:
        take(THREE, "user:1")

    assert (refused.value.code, refused.value.status) == ("rate_limited", 429)
    assert 1 <= (refused.value.retry_after or 0) <= 60
    assert take(THREE, "user:2").remaining == 2


def test_quota_is_full_again_when_its_time_ends() -> None:
    take(THREE, "user:1", 3)
    end_window()

    assert take(THREE, "user:1").remaining == 2


def test_amount_above_the_quota_never_fits() -> None:
    assert not count(THREE, "user:1", 4).granted
    end_window()
    assert not count(THREE, "user:1", 4).granted
    assert count(THREE, "user:1", 3).granted


def test_racing_counts_never_exceed_the_quota() -> None:
    granted = all_at_once([lambda: count(THREE, "user:1").granted] * 8)

    assert sorted(granted) == [False] * 5 + [True] * 3


def test_slices_never_grant_more_than_the_quota() -> None:
    granted = 0
    for _ in range(4):  # like four processes: each forgets its own count
        granted += sum(count_often(MANY, "token:1").granted for _ in range(247))
        quotas._slices.clear()
    granted += sum(count_often(MANY, "token:1").granted for _ in range(200))

    assert 1000 - 4 * 10 <= granted <= 1000


def test_hundred_counts_cost_a_few_statements() -> None:
    count_often(MANY, "token:1")
    with CaptureQueriesContext(connection) as asked:
        for _ in range(100):
            count_often(MANY, "token:1")

    assert len(asked) == 10


def test_amount_that_does_not_fit_leaves_room_for_smaller_ones() -> None:
    bytes_a_day = Quota(name="bytes", amount=1000, seconds=60, refusal="Too many.", slices=10)
    assert count_often(bytes_a_day, "token:1", 40).remaining == 960
    with CaptureQueriesContext(connection) as asked:
        assert count_often(bytes_a_day, "token:1", 60).remaining == 900
    assert not len(asked)  # the rest of the first slice

    assert not count_often(bytes_a_day, "token:1", 901).granted
    assert count_often(bytes_a_day, "token:1", 900).granted
    assert not count_often(bytes_a_day, "token:1", 1).granted


def test_refusal_is_remembered_without_a_query() -> None:
    one = Quota(name="one", amount=1, seconds=60, refusal="One.")
    assert count_often(one, "token:1").granted
    assert not count_often(one, "token:1").granted
    with CaptureQueriesContext(connection) as asked:
        assert not count_often(one, "token:1").granted

    assert not len(asked)


def test_headers_follow_the_draft() -> None:
    stored = Quota(name="stored", amount=9, seconds=60, refusal="", unit="content-bytes")
    fields = headers_of([take(THREE, "user:1"), take(stored, "user:1", 4)])

    assert fields["RateLimit-Policy"] == '"three";q=3;w=60, "stored";q=9;qu="content-bytes";w=60'
    assert fields["RateLimit"] == '"three";r=2;t=60, "stored";r=5;t=60'


def test_old_counts_are_forgotten() -> None:
    take(THREE, "user:1")
    quotas.forget_old()
    assert QuotaUse.objects.count() == 1
    QuotaUse.objects.update(ends_at=timezone.now() - timedelta(days=2))
    quotas.forget_old()
    assert not QuotaUse.objects.exists()
