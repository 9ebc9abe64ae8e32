"""The clock of the database, a commit that need not wait, and a connection that is given back early."""

from datetime import UTC, datetime
from typing import cast

from django.db import close_old_connections, connection


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
