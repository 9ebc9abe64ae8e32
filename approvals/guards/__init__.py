"""Rules that the database itself enforces over a row before and after a change, as triggers.

There is one list for both databases. PostgreSQL gets a function for each table and event, SQLite a
trigger for each rule. The transitions come from `states.TRANSITIONS`. SQLite drops the triggers of
a table when Django rebuilds it. So a migration that changes a guarded table removes the guards
first and installs them last. A change of the rules needs such a migration too: a test compares the
triggers in the database with this list.

TRUNCATE on PostgreSQL is not guarded. Revoke that right, and the right to change tables, from the
role of the programs.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from approvals.guards.rules import RULES

SQLITE = {
    "differs": "IS NOT",
    "member": "json_extract",
    "at": "$.",
    "hex": "lower(hex(",
    "end": "))",
}
POSTGRESQL = {
    "differs": "IS DISTINCT FROM",
    "member": "jsonb_extract_path",
    "at": "",
    "hex": "encode(",
    "end": ", 'hex')",
}
NEWEST = ("approvals_attempt", "account")  # the newest column that a rule names


def statements(vendor: str) -> list[str]:
    """Return the SQL that installs the guards."""
    return _for_postgresql()[0] if vendor == "postgresql" else _for_sqlite()


def _for_sqlite() -> list[str]:
    return [
        f"CREATE TRIGGER {rule.name} BEFORE {rule.event} ON {rule.table} FOR EACH ROW"
        f" WHEN {rule.refused_when.format(**SQLITE)}"
        f" BEGIN SELECT RAISE(ABORT, '{rule.name}: {rule.says}'); END"
        for rule in RULES
    ]


def _for_postgresql() -> tuple[list[str], list[str]]:
    install, remove = [], []
    for table, event in dict.fromkeys((rule.table, rule.event) for rule in RULES):
        name = f"{table}_guard_{event.lower()}"
        checks = "\n".join(
            f"IF {rule.refused_when.format(**POSTGRESQL)} THEN RAISE EXCEPTION"
            f" '{rule.name}: {rule.says}' USING ERRCODE = 'check_violation', CONSTRAINT = '{rule.name}'; END IF;"
            for rule in RULES
            if (rule.table, rule.event) == (table, event)
        )
        row = "OLD" if event == "DELETE" else "NEW"
        install += [
            f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS"
            f" $$ BEGIN\n{checks}\nRETURN {row};\nEND $$",
            f"CREATE TRIGGER {name} BEFORE {event} ON {table} FOR EACH ROW EXECUTE FUNCTION {name}()",
        ]
        remove += [f"DROP TRIGGER IF EXISTS {name} ON {table}", f"DROP FUNCTION IF EXISTS {name}()"]
    return install, remove


def install(connection: BaseDatabaseWrapper) -> None:
    """Install the guards, and replace those that exist."""
    remove(connection)
    _run(connection, statements(connection.vendor))


def remove(connection: BaseDatabaseWrapper) -> None:
    """Remove the guards if they exist, on SQLite also those of rules that are gone."""
    if connection.vendor == "postgresql":
        _run(connection, _for_postgresql()[1])
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        names = [name for (name,) in cursor.fetchall()]
    _run(connection, [f"DROP TRIGGER {name}" for name in names])


@contextmanager
def lift_guards(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Remove the guards, and install them again at the end of the block.

    Only code that empties the whole database uses it, and tests that play an attacker with access
    to the database.
    """
    with transaction.atomic(using=connection.alias):
        remove(connection)
    try:
        yield
    finally:
        with transaction.atomic(using=connection.alias):
            install(connection)


def _run(connection: BaseDatabaseWrapper, sql: list[str]) -> None:
    with connection.cursor() as cursor:
        for statement in sql:
            cursor.execute(statement)


def install_in_migration(apps: Any, schema_editor: Any) -> None:
    """Install the guards if all tables and columns that the rules name are there.

    A later migration that adds one installs them again. Until then SQLite would refuse every rename
    of a table.
    """
    connection = schema_editor.connection
    table, newest = NEWEST
    if table not in connection.introspection.table_names():
        return
    with connection.cursor() as cursor:
        columns = connection.introspection.get_table_description(cursor, table)
    if any(column.name == newest for column in columns):
        install(connection)


def remove_in_migration(apps: Any, schema_editor: Any) -> None:
    remove(schema_editor.connection)
