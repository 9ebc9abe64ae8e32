"""The clock of the database, its errors that pass, a commit that need not wait, and a connection that
is given back early.
"""

from datetime import UTC, datetime
from typing import cast

from django.db import InterfaceError, OperationalError, close_old_connections, connection

# https://www.postgresql.org/docs/current/errcodes-appendix.html
SESSION_ENDED = "25P03"  # idle_in_transaction_session_timeout, no OperationalError for the driver
WAITED_TOO_LONG = ("55P03", "57014")  # lock_not_available, query_canceled


def is_unavailable(error: BaseException) -> bool:
    """Return True if the database could not do its work in time, so that a later try may succeed."""
    passes = isinstance(error, (OperationalError, InterfaceError))
    return passes or _sqlstate(error) == SESSION_ENDED


def is_away(error: BaseException) -> bool:
    """Return True if other work would fail in the same way. One statement that waited too long, for a
    locked row or for its end, says nothing about others.
    """
    return is_unavailable(error) and _sqlstate(error) not in WAITED_TOO_LONG


def _sqlstate(error: BaseException) -> str | None:
    return getattr(error.__cause__, "sqlstate", None)


def database_now() -> datetime:
    """Return the time by the database's clock, because all servers share it."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT STATEMENT_TIMESTAMP()")
            return cast(datetime, cursor.fetchone()[0])
        cursor.execute("SELECT STRFTIME('%Y-%m-%d %H:%M:%f', 'NOW')")
        return datetime.fromisoformat(cursor.fetchone()[0]).replace(tzinfo=UTC)


def commit_soon() -> None:
    """Let the transaction commit without waiting for the disk: a crash of the machine within a
    second takes it back. SQLite always waits.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL synchronous_commit TO off")


def give_back_connection() -> None:
    """Give the connection of this thread back to the pool, before it waits for a foreign server.

    The pool has ten for a process, so ten silent servers would stop every page. The next statement
    takes another one. SQLite has no pool. Within a transaction nothing happens.
    """
    if connection.vendor == "postgresql" and not connection.in_atomic_block:
        close_old_connections()
