"""Connections to PostgreSQL that are closed after every error that is not the row's own.

A server can become read-only and keep its connections: a primary that was demoted behind a proxy,
or a cluster during a failover. Reads still work there, `SELECT 1` included, and only a new
connection reaches the new primary. Django notes every error but IntegrityError and DataError, and
asks `is_usable` about it wherever it calls `close_old_connections`.
"""

from django.db.backends.postgresql import base


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection to PostgreSQL."""

    def is_usable(self) -> bool:
        """Return True if the server answers and takes writes, and no error has occurred."""
        if self.connection is None or self.errors_occurred:
            return False
        try:
            with self.connection.cursor() as cursor:
                cursor.execute("SHOW transaction_read_only")
                return bool(cursor.fetchone() == ("off",))
        except self.Database.Error:
            return False

    def rollback(self) -> None:
        """Roll back; unlike Django, which trusts the connection then, remember an error."""
        errors_occurred = self.errors_occurred
        super().rollback()
        self.errors_occurred = errors_occurred

    def _close(self) -> None:
        if self.connection is not None and self.errors_occurred:
            self.connection.close()  # or the pool would hand it out again
        super()._close()  # type: ignore[misc]
