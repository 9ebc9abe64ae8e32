"""Reads the rows that the checker compares with the ledger."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from tests.faults.databases import Connection
from tests.faults.facts import Action, Attempt, Decision, Event, Member, Revision, Tables
from tests.faults.opened import payload_of
from tests.faults.plan import JUMP_HOURS

SELECTS: Mapping[str, tuple[Any, str]] = {
    "actions": (
        Action,
        "SELECT id, message_id, status, proposer_id AS proposer, approvals_needed, fence, mailbox_id AS mailbox,"
        " token_id AS token FROM approvals_pendingaction",
    ),
    "revisions": (
        Revision,
        "SELECT action_id AS action, number, digest, payload, sealed_payload FROM approvals_revision",
    ),
    "decisions": (
        Decision,
        "SELECT action_id AS action, person_id AS person, verdict, revision, approval_round, digest,"
        " created_at AS at FROM approvals_decision",
    ),
    "attempts": (
        Attempt,
        # A late answer and a ruling change what the action says of its approval, so only the last attempt
        # since that is compared.
        "SELECT t.action_id AS action, t.fence, t.phase, t.verdict, t.evidence, t.ruled_at, t.started_at,"
        " coalesce(t.fence = a.fence AND t.started_at >= a.approved_at AND t.started_at < a.undo_until, false)"
        " AS is_early FROM approvals_attempt t JOIN approvals_pendingaction a ON t.action_id = a.id",
    ),
    "events": (
        Event,
        "SELECT action_id AS action, event, at, coalesce(data->>'code', '') AS code FROM approvals_auditevent"
        " WHERE action_id IS NOT NULL",
    ),
    "members": (
        Member,
        "SELECT mailbox_id AS mailbox, coalesce(data->>'member', replace(actor, 'user:', '')) AS person, event,"
        " coalesce(data->>'role', '') AS role, at FROM approvals_auditevent WHERE mailbox_id IS NOT NULL"
        " AND event IN ('joined', 'role_changed', 'member_removed', 'left')",
    ),
}

TIMES = ("at", "ruled_at", "started_at")


def read_tables(connection: Connection, key: str, began: datetime) -> Tables:
    """Return the content of the database now; `key` opens its payloads.

    Its times are the right ones, whatever the clock said that wrote them: `began` is the beginning of
    the run.
    """
    return Tables(
        **{
            name: _rows(connection, make, select, key, began)
            for name, (make, select) in SELECTS.items()
        }
    )


def _rows(connection: Connection, make: Any, select: str, key: str, began: datetime) -> list[Any]:
    cursor = connection.execute(select)
    names = [column[0] for column in cursor.description or ()]
    rows = [
        {name: _value(name, stored, began) for name, stored in zip(names, row, strict=True)}
        for row in cursor.fetchall()
    ]
    if make is Revision:
        for row in rows:
            row["payload"] = payload_of(row, key)
        names.remove("sealed_payload")
    return [make(**{name: row[name] for name in names}) for row in rows]


def _value(name: str, stored: Any, began: datetime) -> Any:
    """Return an id or a time in one form for both databases."""
    if name in ("id", "action", "mailbox"):
        return id_of(stored)
    if name == "token":
        return id_of(stored) if stored else ""
    if name == "is_early":
        return bool(stored)
    if name == "person":
        return int(stored)
    if name in TIMES and isinstance(stored, str):
        stored = datetime.fromisoformat(stored).replace(tzinfo=UTC)
    if name in TIMES and stored is not None:
        return began + (stored - began) % timedelta(hours=JUMP_HOURS)
    return stored


def id_of(stored: object) -> str:
    """Return an id as the pages and the API write it; SQLite holds it without dashes."""
    return str(UUID(str(stored)))
