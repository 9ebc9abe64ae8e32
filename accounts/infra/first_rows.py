"""The first rows of each key, such as the newest actions of each mailbox, in one statement.

An index that begins with the key and goes on in the order gives the rows of one key. A condition
`key IN (…)` cannot use it so: the database would read and sort all rows of all keys. A UNION with a
part for each key can, but both databases limit the number of parts. Here the keys are one parameter,
so the text of the statement is the same for one key and for 10,000.

Django needs up to 35 ms to compile the condition of such a list, and a page has three of them. So
`Rows` are compiled once: the queue costs half as much CPU.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, cast

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import Field, Model, Q, QuerySet
from django.db.models.expressions import RawSQL

Keys = Mapping[str, Collection[Any]]
PLACE = object()  # of a value among the parameters of a compiled statement


@dataclass(frozen=True, kw_only=True)
class Rows:
    """A query that is compiled once in a process, for each `also`, and used with any value.

    `build` is a function of a module. It gets the value, or an expression for it. The query that it
    builds depends on nothing else: not on the time, and on no setting that may change.
    """

    build: Callable[[Any], QuerySet[Any]]
    value: Any = None
    also: Q = field(default_factory=Q)

    def query(self) -> QuerySet[Any]:
        return self.build(self.value).filter(self.also)


def first_rows(
    rows: QuerySet[Any] | Rows, *, keys: Keys, order: Sequence[str], take: int
) -> list[tuple[Any, ...]]:
    """Return the first `take` rows of all keys together, each as its values of the `order` fields.

    `keys` has the values of one field or several; each combination is a key. `order` names fields,
    with `-` for descending, and its last one is the primary key.
    """
    found = _of_each_key(rows, keys, order, take)
    if found is None:
        return []
    names = [name.removeprefix("-") for name in order]
    columns = [_column(found.model, name) for name in names]
    directions = ["DESC" if name.startswith("-") else "ASC" for name in order]
    ordered = ", ".join(
        f"{column} {direction}" for column, direction in zip(columns, directions, strict=True)
    )
    text = f"SELECT {', '.join(columns)} FROM {found.sources} ORDER BY {ordered} LIMIT {int(take)}"  # noqa: S608  # names of columns
    # A raw query converts the columns as every query of the model does.
    return [
        tuple(getattr(row, name) for name in names)
        for row in found.model._default_manager.raw(text, found.parameters)
    ]


def count_first(
    rows: QuerySet[Any] | Rows, *, keys: Keys, order: Sequence[str], take: int, by: str
) -> Counter[Any]:
    """Return how many rows there are for each value of the key `by`.

    Each key is counted up to `take`: beyond that nobody needs the exact number.
    """
    found = _of_each_key(rows, keys, order, take)
    if found is None:
        return Counter()
    value = f"{_alias(list(keys).index(by))}.value"
    field = cast("Field[Any, Any]", found.model._meta.get_field(by))
    text = f"SELECT {value}, COUNT(*) FROM {found.sources} GROUP BY {value}"  # noqa: S608  # names of columns
    with connection.cursor() as cursor:
        cursor.execute(text, found.parameters)
        return Counter({field.to_python(key): number for key, number in cursor.fetchall()})


@dataclass(frozen=True, kw_only=True)
class _Found:
    """The FROM clause, in which `found` has the rows of the model, and its parameters."""

    model: type[Model]
    sources: str
    parameters: list[Any]


@dataclass(frozen=True, kw_only=True)
class _Statement:
    """The statement for one key, and its parameters."""

    model: type[Model]
    text: str
    parameters: tuple[Any, ...]


def _fields(model: type[Model], names: Collection[str]) -> list["Field[Any, Any]"]:
    return [cast("Field[Any, Any]", model._meta.get_field(name)) for name in names]


def _compile(
    rows: QuerySet[Any], keys: Collection[str], order: Sequence[str], take: int
) -> _Statement | None:
    """Return the statement for the first `take` rows of one key; None if there can be none."""
    one_key = {
        name: RawSQL(f"{_alias(number)}.value", (), output_field=field)  # noqa: S611  # our own names
        for number, (name, field) in enumerate(zip(keys, _fields(rows.model, keys), strict=True))
    }
    names = [name.removeprefix("-") for name in order]
    columns = names if connection.vendor == "postgresql" else ["pk"]
    first = rows.filter(**one_key).order_by(*order)[:take].values(*columns)
    try:
        text, parameters = first.query.sql_with_params()
    except EmptyResultSet:
        return None
    return _Statement(model=rows.model, text=text, parameters=parameters)


@lru_cache
def _compile_once(
    build: Callable[[Any], QuerySet[Any]],
    also: Q,
    keys: tuple[str, ...],
    order: tuple[str, ...],
    take: int,
) -> _Statement | None:
    return _compile(build(RawSQL("%s", (PLACE,))).filter(also), keys, order, take)


forget_compiled = _compile_once.cache_clear


def _of_each_key(
    rows: QuerySet[Any] | Rows, keys: Keys, order: Sequence[str], take: int
) -> _Found | None:
    """Return the first `take` rows of each key; None if there can be none."""
    if not all(keys.values()):
        return None
    value = None
    if isinstance(rows, Rows):
        value = rows.value
        one = _compile_once(rows.build, rows.also, tuple(keys), tuple(order), take)
    else:
        one = _compile(rows, keys, order, take)
    if one is None:
        return None
    model, inner, fields = one.model, one.text, _fields(one.model, keys)
    conditions = [value if each is PLACE else each for each in one.parameters]
    postgres = connection.vendor == "postgresql"
    given = [
        [field.get_db_prep_value(value, connection) for value in values]
        for field, values in zip(fields, keys.values(), strict=True)
    ]
    if postgres:
        lists = [
            f"unnest(%s::{field.db_type(connection)}[]) AS {_alias(number)}(value)"
            for number, field in enumerate(fields)
        ]
        sources = [*lists, f"LATERAL ({inner}) AS found"]
    else:
        # SQLite has no LATERAL. A list of primary keys that depends on the row of the loop around
        # it does the same; CROSS JOIN keeps SQLite from turning the loops around.
        lists = [f"json_each(%s) AS {_alias(number)}" for number in range(len(fields))]
        table = connection.ops.quote_name(model._meta.db_table)
        sources = [*lists, f"{table} AS found ON {_column(model, 'pk')} IN ({inner})"]
        given = [json.dumps(values) for values in given]  # type: ignore[misc]
    return _Found(
        model=model, sources=" CROSS JOIN ".join(sources), parameters=[*given, *conditions]
    )


def _alias(number: int) -> str:
    return f"key{number}"


def _column(model: type[Model], name: str) -> str:
    field = model._meta.pk if name == "pk" else model._meta.get_field(name)
    column = cast("Field[Any, Any]", field).column
    assert column is not None, "a field of a table has a column"
    return f"found.{connection.ops.quote_name(column)}"
