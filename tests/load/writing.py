"""Rows of any model written in bulk: COPY on PostgreSQL, one prepared INSERT on SQLite."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID

from django.db import connection, connections
from django.db.models import Field, Model
from django.db.models.expressions import DatabaseDefault

from accounts.infra.fields import Encrypted

# Values that the driver takes as they are. Asking each field about each value takes most of a load.
PLAIN = {"sqlite": {str, int, bool, type(None)}}
PLAIN["postgresql"] = PLAIN["sqlite"] | {UUID, datetime}


class Writer:
    """The rows of a load that are not written yet, by model."""

    def __init__(self) -> None:
        self._rows: dict[type[Model], list[list[Any]]] = {}
        self._count = 0
        self._connection = connections[connection.alias]
        self._plain = PLAIN[self._connection.vendor]

    def __len__(self) -> int:
        return self._count

    def add(self, *rows: Model) -> None:
        for row in rows:
            model = type(row)
            if model not in self._rows:
                self._rows[model] = []
            self._rows[model].append([self._prepare(row, field) for field in _fields(model)])
        self._count += len(rows)

    def _prepare(self, row: Model, field: Field[Any, Any]) -> Any:
        value = row.__dict__[field.attname]
        if type(value) in self._plain and not _is_made_on_saving(field):
            return value
        value = field.pre_save(row, add=True)
        if isinstance(value, DatabaseDefault):  # these rows are written past the ORM
            value = field.db_default
        return field.get_db_prep_save(value, self._connection)

    def write(self) -> None:
        """Write all rows."""
        for model, rows in self._rows.items():
            _write(model, rows)
        self._rows.clear()
        self._count = 0
        if connection.vendor == "postgresql":
            # PostgreSQL remembers each row whose foreign key it has still to check.
            connection.check_constraints()


def _write(model: type[Model], rows: list[list[Any]]) -> None:
    quote = connection.ops.quote_name
    names = [quote(field.column or "") for field in _fields(model)]
    table = f"{quote(model._meta.db_table)} ({', '.join(names)})"
    with connection.cursor() as cursor:
        if connection.vendor != "postgresql":
            places = ", ".join(["%s"] * len(names))
            cursor.executemany(f"INSERT INTO {table} VALUES ({places})", rows)  # names of columns
            return
        with cursor.copy(f"COPY {table} FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)


@cache
def _fields(model: type[Model]) -> list[Field[Any, Any]]:
    """Return the columns that the database does not number itself."""
    numbered = model._meta.auto_field
    return [field for field in model._meta.concrete_fields if field is not numbered]


@cache
def _is_made_on_saving(field: Field[Any, Any]) -> bool:
    return isinstance(field, Encrypted) or getattr(field, "auto_now_add", False)
