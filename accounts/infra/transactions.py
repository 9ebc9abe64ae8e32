"""Transactions of people's requests: the order of their locks, and retries after a deadlock.

The lock order is the same everywhere: the mailbox, its rules, actions by id, a token, the audit
chain of the mailbox, the audit chain of people. A row is locked FOR NO KEY UPDATE. Then a foreign
key to it, which PostgreSQL checks at COMMIT, does not wait for it.
"""

import random
import time
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import structlog
from django.db import DEFAULT_DB_ALIAS, OperationalError, connections

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
