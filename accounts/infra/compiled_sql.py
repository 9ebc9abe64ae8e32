"""Compiled SQL: the ORM makes it once in a process, and it runs many times with other values.

Making the SQL of a claim costs more than running it. The SQL comes from the same querysets and the
same Q as everywhere else; only the values are filled in later, through slots.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, ClassVar, TypeVar, cast

from django.db import connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Expression, Field, IntegerField, Model, Q, QuerySet, Value
from django.db.models.sql import InsertQuery, UpdateQuery
from django.db.models.sql.compiler import SQLCompiler

M = TypeVar("M", bound=Model)


class Slot(Expression):
    """A value that is given when the statement runs, prepared as the field would prepare it."""

    def __init__(self, name: str, field: Field[Any, Any]) -> None:
        super().__init__(output_field=field)
        self.name = name

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> tuple[str, Any]:
        return "%s", [self]


def slot(model: type[Model], field: str, name: str = "") -> Slot:
    """Return a slot for a value of a model's field, with the field's name or the given one."""
    return Slot(name or field, cast("Field[Any, Any]", model._meta.get_field(field)))


@dataclass(frozen=True, kw_only=True)
class _Sql:
    """The text, its parameters in order, and the columns of the result."""

    text: str
    parameters: tuple[Any, ...]
    columns: tuple[Expression, ...] = ()

    def run(self, values: Mapping[str, Any]) -> Sequence[tuple[Any, ...]]:
        parameters = [
            each.output_field.get_db_prep_save(values[each.name], connection)
            if isinstance(each, Slot)
            else each
            for each in self.parameters
        ]
        with connection.cursor() as cursor:
            cursor.execute(self.text, parameters)
            return self._convert(cursor.fetchall() if self.columns else [])

    def _convert(self, rows: Sequence[tuple[Any, ...]]) -> Sequence[tuple[Any, ...]]:
        """Convert as SQLCompiler.apply_converters does; converters belong to a connection."""
        converters = [
            (number, column, found)
            for number, column in enumerate(self.columns)
            if (
                found := connection.ops.get_db_converters(column)
                + column.get_db_converters(connection)
            )
        ]
        if not converters:
            return rows
        changed = [list(row) for row in rows]
        for row in changed:
            for number, column, found in converters:
                for convert in found:
                    row[number] = convert(row[number], column, connection)
        return [tuple(row) for row in changed]


class _Statement(ABC):
    """A statement that is compiled when it first runs, once for each database vendor."""

    everyone: ClassVar[list[_Statement]] = []

    def __init__(self) -> None:
        self._made: dict[str, _Sql] = {}
        self.everyone.append(self)

    @abstractmethod
    def _make(self) -> _Sql: ...

    def _run(self, values: Mapping[str, Any]) -> Sequence[tuple[Any, ...]]:
        return self.get_sql().run(values)

    def get_sql(self) -> _Sql:
        made = self._made.get(connection.vendor)
        if made is None:
            # Django makes no FOR UPDATE outside of a transaction. No lock here: a thread that holds
            # ours while it waits for SQLite's could deadlock with a thread that holds SQLite's.
            # Compiling twice gives the same SQL.
            with transaction.atomic():
                made = self._made.setdefault(connection.vendor, self._make())
        return made


class Select(_Statement):
    """The rows of a queryset of values."""

    def __init__(self, rows: Callable[[], QuerySet[Any, Any]]) -> None:
        super().__init__()
        self._rows = rows

    def __call__(self, **values: Any) -> Sequence[tuple[Any, ...]]:
        return self._run(values)

    def first(self, **values: Any) -> tuple[Any, ...] | None:
        return next(iter(self._run(values)), None)

    def _make(self) -> _Sql:
        return _select(self._rows())


class Rows(Select):
    """The rows of a queryset of a model, each with the rows of its `related` foreign keys, which
    are named in the order of the model's fields.
    """

    def __init__(
        self, model: type[Model], rows: Callable[[], QuerySet[Any, Any]], *related: str
    ) -> None:
        super().__init__(lambda: rows().select_related(*related) if related else rows())
        self._model = model
        self._related = related

    def load(self, found: Iterable[Sequence[Any]]) -> list[Any]:
        """Return the instances for rows of this statement."""
        return [self._load_row(values) for values in found]

    def _load_row(self, values: Sequence[Any]) -> Model:
        row = instance(self._model, values)
        start = len(columns_of(self._model))
        for name in self._related:
            model = cast("type[Model]", self._model._meta.get_field(name).related_model)
            # The primary key is the first column.
            other = instance(model, values[start:]) if values[start] is not None else None
            setattr(row, name, other)
            start += len(columns_of(model))
        return row


def _select(rows: QuerySet[Any, Any]) -> _Sql:
    compiler = rows.query.get_compiler(connection=connection)
    text, parameters = compiler.as_sql()
    columns = tuple(expression for expression, *_ in compiler.select[: compiler.col_count])
    return _Sql(text=text, parameters=tuple(parameters), columns=columns)


Asked = tuple[_Statement | QuerySet[Any, Any], Mapping[str, Any]]


def read_all(*asked: Asked) -> list[Sequence[tuple[Any, ...]]]:
    """Return the rows of each statement, one after the other.

    If one waits for a lock, the later ones see what was committed meanwhile. A queryset of values
    is compiled each time.
    """
    return [
        (_select(each) if isinstance(each, QuerySet) else each.get_sql()).run(values)
        for each, values in asked
    ]


def commit_soon() -> None:
    """Let the transaction commit without waiting for the disk: a crash of the machine within a
    second takes it back. SQLite always waits.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL synchronous_commit TO off")


class Questions(_Statement):
    """Several questions in one statement: for each queryset whether it has rows, and the first
    value of another queryset.
    """

    def __init__(
        self,
        rows: Callable[[], dict[str, QuerySet[Any, Any]]],
        first: Callable[[], QuerySet[Any, Any]],
    ) -> None:
        super().__init__()
        self._rows = rows
        self._first = first
        self._names: tuple[str, ...] = ()

    def __call__(self, **values: Any) -> tuple[dict[str, bool], Any]:
        """Return the answers by name, and the first value."""
        ((*answers, first),) = self._run(values)
        return dict(zip(self._names, map(bool, answers), strict=True)), first

    def _make(self) -> _Sql:
        text, parameters = [], list[Any]()
        asked_for = self._rows()
        self._names = tuple(asked_for)
        for rows in asked_for.values():
            # The order of the model would cost a sort. The order that a caller names says which
            # index to use, and an EXISTS would ignore it.
            ordered = rows if rows.query.order_by else rows.order_by()
            asked, values = (
                ordered.values("pk")[:1].query.get_compiler(connection=connection).as_sql()
            )
            text.append(f"({asked}) IS NOT NULL")
            parameters += values
        compiler = self._first()[:1].query.get_compiler(connection=connection)
        asked, values = compiler.as_sql()
        text.append(f"({asked})")
        # Such a question answers with a number or a truth value, which needs no conversion.
        plain = [Value(None, output_field=IntegerField())] * (len(text) - 1)
        columns = (
            *plain,
            *(expression for expression, *_ in compiler.select[: compiler.col_count]),
        )
        return _Sql(
            text=f"SELECT {', '.join(text)}", parameters=(*parameters, *values), columns=columns
        )


class Update(_Statement):
    """One UPDATE of the rows of a queryset; the result has the `returning` columns of each changed
    row.
    """

    def __init__(
        self,
        rows: Callable[[], QuerySet[Any, Any]],
        changes: Callable[[], dict[str, Any]],
        *,
        returning: str = "id",
    ) -> None:
        super().__init__()
        self._rows = rows
        self._changes = changes
        self._returning = returning

    def __call__(self, **values: Any) -> Sequence[tuple[Any, ...]]:
        return self._run(values)

    def _make(self) -> _Sql:
        return _update(self._rows(), self._changes(), self._returning)


class Insert(_Statement):
    """One INSERT of a row; a column without a value gets the default of its field."""

    def __init__(self, model: type[Model], given: str, **fixed: Any) -> None:
        super().__init__()
        self._model = model
        self._given = given.split()
        self._fixed = fixed

    def __call__(self, **values: Any) -> None:
        self._run(values)

    def _make(self) -> _Sql:
        row = self._model(**self._fixed)
        for name in self._given:
            waiting = slot(self._model, name)
            row.__dict__[waiting.output_field.attname] = waiting
        fields = [
            field
            for field in self._model._meta.concrete_fields
            if field.attname != "id" or field.attname in self._given
        ]
        query = InsertQuery(self._model)
        query.insert_values(fields, [row], raw=True)
        ((text, parameters),) = query.get_compiler(connection=connection).as_sql()
        return _Sql(text=text, parameters=tuple(parameters))


def _update(rows: QuerySet[Any, Any], changes: Mapping[str, Any], returning: str) -> _Sql:
    query = cast(UpdateQuery, rows.query.chain(UpdateQuery))
    query.add_update_values(dict(changes))
    text, parameters = query.get_compiler(connection=connection).as_sql()
    meta = rows.model._meta
    fields = [meta.get_field(name) for name in returning.split()]
    # Both databases support RETURNING (SQLite since 3.35); Django's update() does not.
    names = ", ".join(connection.ops.quote_name(field.column) for field in fields)
    columns = tuple(field.get_col(meta.db_table) for field in fields)
    returned = f" RETURNING {names}" if names else ""
    return _Sql(text=f"{text}{returned}", parameters=tuple(parameters), columns=columns)


def database_now() -> datetime:
    """Return the time by the database's clock, because all servers share it."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT STATEMENT_TIMESTAMP()")
            return cast(datetime, cursor.fetchone()[0])
        cursor.execute("SELECT STRFTIME('%Y-%m-%d %H:%M:%f', 'NOW')")
        return datetime.fromisoformat(cursor.fetchone()[0]).replace(tzinfo=UTC)


def update_row(
    row: Model, *conditions: Q, where: Mapping[str, Any], changes: Mapping[str, Any]
) -> bool:
    """Update the row if all conditions hold, and copy the new values to `row`; return False if they
    did not hold.

    The SQL is compiled once for changes of the same columns, as long as the expressions among them
    are the same.
    """
    wanted = {"pk": row.pk, **where}
    computed = tuple(
        (name, value) for name, value in changes.items() if hasattr(value, "resolve_expression")
    )
    given = {
        name: value for name, value in changes.items() if not hasattr(value, "resolve_expression")
    }
    make = _update_of_row.__wrapped__ if conditions else _update_of_row
    made = make(type(row), conditions, tuple(wanted), tuple(given), computed, connection.vendor)
    changed = made.run(given | {f"if {name}": value for name, value in wanted.items()})
    for values in changed:
        for name, value in zip(columns_of(type(row)), values, strict=True):
            setattr(row, name, value)
    return bool(changed)


@lru_cache(maxsize=64)
def _update_of_row(
    model: type[Model],
    conditions: tuple[Q, ...],
    where: tuple[str, ...],
    given: tuple[str, ...],
    computed: tuple[tuple[str, Any], ...],
    vendor: str,
) -> _Sql:
    names = {"pk": "id"}
    wanted = {name: slot(model, names.get(name, name), f"if {name}") for name in where}
    changes = {name: slot(model, name) for name in given} | dict(computed)
    return _update(
        model._default_manager.filter(*conditions, **wanted), changes, " ".join(columns_of(model))
    )


def make_all() -> None:
    """Compile the SQL of all statements now, so that a forked process has it in memory."""
    for statement in _Statement.everyone:
        statement.get_sql()


def columns_of(model: type[Model], prefix: str = "") -> list[str]:
    """Return the names of all columns of a model, to query them as values."""
    return [f"{prefix}{field.attname}" for field in model._meta.concrete_fields]


def instance(model: type[M], values: Sequence[Any]) -> M:
    """Return the row whose columns are the first of `values`, in the order of `columns_of`."""
    names = columns_of(model)
    return model.from_db(connection.alias, names, values[: len(names)])
