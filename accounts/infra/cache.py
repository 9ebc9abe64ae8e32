"""Django's cache in the database, with JSON in its rows.

Django's own backend stores pickles: anybody who can write to the table could run code in every
process that reads it.
"""

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from django.core.cache import caches
from django.core.cache.backends.base import DEFAULT_TIMEOUT
from django.core.cache.backends.db import DatabaseCache
from django.db import connection
from django.utils import timezone

from accounts.infra.foreign_text import load_json

FOREVER = datetime(9999, 12, 31, tzinfo=UTC)


class JsonDatabaseCache(DatabaseCache):
    """A cache of JSON values; a row that is not JSON counts as missing.

    A value that JSON cannot represent raises TypeError. Django's backend deletes live rows when
    there are many, so strangers could make the limits of wrong codes forget their counts. Here a
    row stays until it expires, and `forget_expired` deletes it.
    """

    def get_many(self, keys: Iterable[Any], version: int | None = None) -> dict[Any, Any]:
        names = {self.make_and_validate_key(key, version=version): key for key in keys}
        if not names:
            return {}
        marks = ", ".join(["%s"] * len(names))
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT cache_key, value FROM {self._quoted_table} WHERE expires > %s AND cache_key IN ({marks})",  # noqa: S608
                [_adapt_time(timezone.now()), *names],
            )
            rows = cursor.fetchall()
        found = {}
        for name, text in rows:
            try:
                found[names[name]] = load_json(text)
            except (
                ValueError,
                RecursionError,
            ):  # written by an earlier version, or by another program
                continue
        return found

    def _base_set(self, mode: str, key: str, value: Any, timeout: Any = DEFAULT_TIMEOUT) -> bool:
        """Set, add or touch in one statement; return True if a row was written."""
        until = self.get_backend_timeout(timeout)
        expires = _adapt_time(FOREVER if until is None else datetime.fromtimestamp(until, tz=UTC))
        now = timezone.now()
        with connection.cursor() as cursor:
            if mode == "touch":
                cursor.execute(
                    f"UPDATE {self._quoted_table} SET expires = %s WHERE cache_key = %s",  # noqa: S608
                    [expires, key],
                )
                return bool(cursor.rowcount)
            only_expired = f" WHERE {self._quoted_table}.expires < %s" if mode == "add" else ""
            cursor.execute(
                f"INSERT INTO {self._quoted_table} (cache_key, value, expires) VALUES (%s, %s, %s)"  # noqa: S608
                " ON CONFLICT (cache_key) DO UPDATE SET value = excluded.value, expires = excluded.expires"
                f"{only_expired}",
                [key, json.dumps(value), expires, *([_adapt_time(now)] if only_expired else [])],
            )
            return bool(cursor.rowcount)

    def delete_expired(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                f"DELETE FROM {self._quoted_table} WHERE expires < %s",  # noqa: S608
                [_adapt_time(timezone.now())],
            )

    @property
    def _quoted_table(self) -> str:
        return connection.ops.quote_name(self._table)  # type: ignore[attr-defined]


def _adapt_time(at: datetime) -> Any:
    return connection.ops.adapt_datetimefield_value(at)


def forget_expired() -> None:
    """Delete the rows that have expired. The sweeper calls it."""
    for cache in caches.all():
        if isinstance(cache, JsonDatabaseCache):
            cache.delete_expired()
