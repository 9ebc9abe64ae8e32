"""What Django does not say about a database: its clock, and a commit that need not wait."""

from datetime import UTC, datetime
from typing import cast

from django.db import connection


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
