"""How a database reads for a call: its plan, and the pages as PostgreSQL counts them, which are the
same on any machine.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction

EXPLAINED = ("SELECT", "UPDATE", "WITH")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A statement that ran: its text, the pages that it touched, and its time."""

    text: str
    pages: int
    milliseconds: float


@contextmanager
def explained() -> Iterator[list[Plan]]:
    """Yield a list that receives a plan for each statement of the block."""
    plans: list[Plan] = []

    def explain(
        execute: Callable[..., Any], text: str, parameters: Any, many: bool, context: Any
    ) -> Any:
        if text.startswith(EXPLAINED):
            plans.append(_explain(text, parameters))
        return execute(text, parameters, many, context)

    with connection.execute_wrapper(explain):
        yield plans


def plan_of(text: str) -> str:
    """Return the plan of a statement that has no parameters left.

    A full scan of so small a table is right, and a sort too; here they are chosen only if no index
    can serve. Earlier tests left statistics of other rows: they are collected again on PostgreSQL,
    and deleted on SQLite, which then takes its defaults.
    """
    explain = "EXPLAIN QUERY PLAN " if connection.vendor == "sqlite" else "EXPLAIN "
    with transaction.atomic(), connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("ANALYZE approvals_pendingaction, approvals_auditevent")
            cursor.execute("SET LOCAL enable_seqscan = off")
            cursor.execute("SET LOCAL enable_sort = off")
            cursor.execute("SET LOCAL enable_incremental_sort = off")
        elif "sqlite_stat1" in connection.introspection.table_names(cursor):
            cursor.execute("DELETE FROM sqlite_stat1")
            cursor.execute("ANALYZE sqlite_master")  # only reads the table of statistics again
        cursor.execute(explain + text.replace("%", "%%"))
        return "\n".join(str(row) for row in cursor.fetchall())


def _explain(text: str, parameters: Any) -> Plan:
    """Run a statement for its plan, and take back what it changed."""
    with transaction.atomic(), connection.connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {text}", parameters)
        ((((answer),),),) = (cursor.fetchall(),)
        transaction.set_rollback(True)
    found = answer[0]["Plan"]
    return Plan(
        text=text,
        pages=found["Shared Hit Blocks"] + found["Shared Read Blocks"],
        milliseconds=answer[0]["Execution Time"],
    )
