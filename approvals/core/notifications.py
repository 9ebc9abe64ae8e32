"""The receiving end of notifications on PostgreSQL: LISTEN."""

from typing import Any

import psycopg
import structlog
from django.db import connection

log = structlog.get_logger(__name__)

CONNECT_SECONDS = 3
# A server that disappears silently is noticed within about 20 seconds.
KEEPALIVE: dict[str, Any] = {
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 2,
}


class NotifyChannel:
    """LISTEN on its own connection; after a restart of the database it listens again."""

    def __init__(self, channel: str) -> None:
        self._channel = channel
        self._connection: psycopg.Connection | None = None

    def fileno(self) -> int | None:
        try:
            return self._connection.fileno() if self._connection else None
        except psycopg.Error:
            self.close()
            return None

    def reconnect(self) -> bool:
        try:
            self._connection = self._connect()
        except psycopg.Error:
            log.warning("bell_not_heard", channel=self._channel)
        return self._connection is not None

    def payloads(self, *, wait: float = 0.0) -> list[str]:
        """Return what arrived since the last call, or the first that arrives within these seconds.

        A broken connection is closed.
        """
        assert self._connection is not None
        found: list[str] = []
        try:
            arriving = self._connection.notifies(timeout=wait, stop_after=1 if wait else None)
            found += (each.payload for each in arriving)
        except psycopg.Error:  # readable because it ended
            log.warning("bell_not_heard", channel=self._channel)
            self.close()
        return found

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self) -> psycopg.Connection:
        parameters = connection.get_connection_params()
        for name in ("cursor_factory", "context"):
            parameters.pop(name)
        listener = psycopg.connect(
            **{**parameters, **KEEPALIVE, "connect_timeout": CONNECT_SECONDS, "autocommit": True}
        )
        listener.execute(f"LISTEN {self._channel}")
        return listener
