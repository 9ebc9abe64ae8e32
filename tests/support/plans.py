"""The pages of the database that a call reads, as PostgreSQL counts them: the same on any machine."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction

EXPLAINED = ("SELECT", "UPDATE", "WITH")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A statement that ran: its text, the pages that it touched, and the nodes of its plan."""

    text: str
    pages: int
    milliseconds: float
    nodes: list[dict[str, Any]]

    def scanned(self) -> set[str]:
        """Return the tables that were read from beginning to end."""
        return {node["Relation Name"] for node in self.nodes if node["Node Type"] == "Seq Scan"}


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
        nodes=list(_nodes(found)),
    )


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for below in node.get("Plans", ()):
        yield from _nodes(below)
