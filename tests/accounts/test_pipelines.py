"""Statements of a pipeline run in their order, and fail as they do one by one."""

import pytest
from django.db import IntegrityError, connection, transaction

from accounts.infra.transactions import pipeline
from accounts.models import QuotaUse, User

pytestmark = pytest.mark.django_db(transaction=True)


def insert(key: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO accounts_quotause (key, used, ends_at) VALUES (%s, 0, CURRENT_TIMESTAMP)",
            [key],
        )


def test_statements_of_a_pipeline_see_those_before_them() -> None:
    with transaction.atomic():
        with pipeline():
            insert("one")
            assert QuotaUse.objects.count() == 1
            with pipeline():
                insert("two")
            insert("three")
        assert QuotaUse.objects.count() == 3
    assert QuotaUse.objects.count() == 3


def fail(*, later: int) -> None:
    with transaction.atomic(), pipeline():
        insert("same")
        insert("same")
        for number in range(later):
            insert(str(number))


@pytest.mark.parametrize("later", range(3))
def test_error_inside_a_pipeline_is_the_one_of_its_statement(later: int) -> None:
    for _ in range(10):  # the answer may arrive before the end of the block, or at its end
        with pytest.raises(IntegrityError):
            fail(later=later)
    assert not QuotaUse.objects.exists()


def test_error_before_a_read_ends_the_transaction(alice: User) -> None:
    def read() -> None:
        with transaction.atomic(), pipeline():
            insert("same")
            insert("same")
            User.objects.get(pk=alice.pk)

    with pytest.raises(IntegrityError):
        read()
    assert not QuotaUse.objects.exists()


def test_exception_of_python_rolls_the_pipeline_back() -> None:
    def stop() -> None:
        with transaction.atomic(), pipeline():
            insert("one")
            raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        stop()
    assert not QuotaUse.objects.exists()
    with transaction.atomic(), pipeline():
        insert("two")
    assert QuotaUse.objects.get().key == "two"


def test_savepoint_around_a_pipeline_is_taken_back() -> None:
    with transaction.atomic():
        insert("one")
        with pytest.raises(IntegrityError):
            fail(later=1)
        insert("three")
    assert set(QuotaUse.objects.values_list("key", flat=True)) == {"one", "three"}


def test_pipeline_needs_a_transaction() -> None:
    with pytest.raises(AssertionError), pipeline():
        insert("one")
