"""Statements of a pipeline run in their order, and fail as they do one by one."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models import CharField, Func, Value

from accounts.infra.compiled_sql import commit_soon, read_together
from accounts.infra.transactions import pipeline, pipelined_transaction
from accounts.models import Mailbox, Membership, QuotaUse, Role, User

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]
Block = Callable[[], AbstractContextManager[None]]


@contextmanager
def pipeline_inside() -> Iterator[None]:
    with transaction.atomic(), pipeline():
        yield


@pytest.fixture(params=[pipeline_inside, pipelined_transaction], ids=["inside", "with COMMIT"])
def block(request: pytest.FixtureRequest) -> Block:
    chosen: Block = request.param
    return chosen


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


def fail(block: Block, *, later: int) -> None:
    with block():
        insert("same")
        insert("same")
        for number in range(later):
            insert(str(number))


@pytest.mark.parametrize("later", range(3))
def test_error_inside_a_pipeline_is_the_one_of_its_statement(block: Block, later: int) -> None:
    for _ in range(10):  # the answer may arrive before the end of the block, or at its end
        with pytest.raises(IntegrityError):
            fail(block, later=later)
    assert not QuotaUse.objects.exists()


def test_error_before_a_read_ends_the_transaction(block: Block, alice: User) -> None:
    def read() -> None:
        with block():
            insert("same")
            insert("same")
            User.objects.get(pk=alice.pk)

    with pytest.raises(IntegrityError):
        read()
    assert not QuotaUse.objects.exists()


def test_exception_of_python_rolls_the_pipeline_back(block: Block) -> None:
    def stop() -> None:
        with block():
            insert("one")
            raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        stop()
    assert not QuotaUse.objects.exists()
    with block():
        insert("two")
    assert QuotaUse.objects.get().key == "two"


def test_savepoint_around_a_pipeline_is_taken_back(block: Block) -> None:
    with transaction.atomic():
        insert("one")
        with pytest.raises(IntegrityError):
            fail(block, later=1)
        insert("three")
    assert set(QuotaUse.objects.values_list("key", flat=True)) == {"one", "three"}


def test_pipeline_needs_a_transaction() -> None:
    with pytest.raises(AssertionError), pipeline():
        insert("one")


def test_commit_ends_only_the_outermost_transaction() -> None:
    def outer() -> None:
        with transaction.atomic():
            with pipelined_transaction():
                insert("one")
            raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        outer()
    assert not QuotaUse.objects.exists()


def test_work_after_the_commit_needs_a_commit(alice: User) -> None:
    done: list[bool] = []

    def run(user: int) -> None:
        with pipelined_transaction():
            transaction.on_commit(lambda: done.append(Mailbox.objects.exists()))
            Membership.objects.bulk_create(
                [Membership(user_id=user, mailbox=mailbox, role=Role.VIEWER)]
            )

    mailbox = Mailbox.objects.create(address="a@example.org", provider="sandbox")
    with pytest.raises(IntegrityError):  # the foreign key is checked by COMMIT
        run(user=alice.pk + 1000)
    assert not done
    run(user=alice.pk)
    assert done == [True]
    assert Membership.objects.filter(mailbox=mailbox).count() == 1


@pytest.mark.postgres_only
def test_commit_that_need_not_wait_is_the_only_one(alice: User) -> None:
    setting = Func(
        Value("synchronous_commit"), function="current_setting", output_field=CharField()
    )
    shown = User.objects.order_by().values_list(setting)
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = on")
        try:
            assert read_together(commit_soon, (shown, {}))[1] == [("off",)]
            assert read_together((shown, {})) == [[("on",)]]
        finally:
            cursor.execute("RESET synchronous_commit")
