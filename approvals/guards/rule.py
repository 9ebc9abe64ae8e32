"""One rule that the database enforces, and what several rules share."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A change that the database refuses.

    `refused_when` is SQL over OLD and NEW. The names in braces are words of the database's dialect.
    """

    name: str
    table: str
    event: str
    refused_when: str
    says: str


def is_changed(*columns: str) -> str:
    """Return SQL that is true if one of these columns gets another value."""
    return " OR ".join(f"NEW.{column} {{differs}} OLD.{column}" for column in columns)


def forbid(table: str, event: str) -> Rule:
    """Return the rule that no row of a table is ever changed, or ever deleted."""
    did = {"UPDATE": "changed", "DELETE": "deleted"}[event]
    return Rule(
        name=f"{table}_never_{did}",
        table=f"approvals_{table}",
        event=event,
        refused_when="1 = 1",
        says=f"this is never {did}",
    )
