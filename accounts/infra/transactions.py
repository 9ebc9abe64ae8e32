"""Transactions of people's requests: the order of their locks, retries after a deadlock, and
pipelines.

The lock order is the same everywhere: the mailbox, its rules, actions by id, a token, the audit
chain of the mailbox, the audit chain of people. A row is locked FOR NO KEY UPDATE. Then a foreign
key to it, which PostgreSQL checks at COMMIT, does not wait for it.
"""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

import structlog
from django.db import DEFAULT_DB_ALIAS, OperationalError, connection, connections, transaction

log = structlog.get_logger(__name__)

TIMES = 4
# The longest wait for each rollback, random so that the same two do not meet again at once.
WAIT_SECONDS = 0.05
# PostgreSQL has rolled the whole transaction back:
# https://www.postgresql.org/docs/current/errcodes-appendix.html
ROLLED_BACK = ("40001", "40P01")  # serialization_failure, deadlock_detected
P = ParamSpec("P")
R = TypeVar("R")


def retry_if_rolled_back(function: Callable[P, R]) -> Callable[P, R]:
    """Call the function again if PostgreSQL rolled its transaction back because of another one.

    Use it only for a function that is one transaction and has no effect outside the database: then
    the rollback undoes all of it. Inside a caller's transaction the function is called once,
    because the rollback includes the caller's work.
    """

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        for count in range(1, TIMES + 1):
            try:
                return function(*args, **kwargs)
            except OperationalError as error:
                code = getattr(error.__cause__, "sqlstate", None)
                if (
                    code not in ROLLED_BACK
                    or count == TIMES
                    or connections[DEFAULT_DB_ALIAS].in_atomic_block
                ):
                    raise
                log.warning(
                    "transaction_retried", process=function.__name__, code=code, count=count
                )
                time.sleep(random.uniform(0, WAIT_SECONDS * count))  # noqa: S311  # not a secret
        raise AssertionError("the last round returns or raises")

    return run


@contextmanager
def pipeline() -> Iterator[None]:
    """Send the statements of the block without waiting for each one; needs a transaction.

    PostgreSQL runs them in the same order and with the same result. The block waits where it reads
    rows, and at its end. An error may appear only there, so do not catch one inside the block. An
    `update()` of a queryset returns no count inside it.
    """
    assert connection.in_atomic_block, "without a transaction, half of the statements could count"
    if connection.vendor != "postgresql" or connection.connection.info.pipeline_status:
        yield
        return
    from psycopg.errors import PipelineAborted  # with SQLite the library is not loaded

    with connection.wrap_database_errors:
        try:
            with connection.connection.pipeline():
                yield
        except PipelineAborted as aborted:
            # The statements after the one that failed are aborted, which hides its error.
            raise (aborted.__context__ or aborted) from None


@contextmanager
def pipelined_transaction() -> Iterator[None]:
    """Run the block in a transaction and in a pipeline; COMMIT goes with the last writes.

    Django then finds the transaction ended and sends nothing. Inside another transaction the block
    is a savepoint.
    """
    is_outermost = not connection.in_atomic_block
    with transaction.atomic(), pipeline():
        yield
        if is_outermost and connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("COMMIT")
