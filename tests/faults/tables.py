"""Reads what the checker compares with the ledger, as it stands in the database."""

from collections.abc import Mapping
from typing import Any

import psycopg

from tests.faults.facts import Action, Attempt, Decision, Event, Revision, Tables
from tests.faults.opened import payload_of

SELECTS: Mapping[str, tuple[Any, str]] = {
    "actions": (
        Action,
        "SELECT id, message_id, status, proposer_id AS proposer, approvals_needed, fence FROM approvals_pendingaction",
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
        "SELECT action_id AS action, fence, phase, verdict, evidence, ruled_at, started_at FROM approvals_attempt",
    ),
    "events": (
        Event,
        "SELECT action_id AS action, event, at, coalesce(data->>'code', '') AS code FROM approvals_auditevent"
        " WHERE action_id IS NOT NULL",
    ),
}


def read_tables(connection: psycopg.Connection[tuple[Any, ...]], key: str) -> Tables:
    """Return what the database holds now; `key` opens its payloads."""
    return Tables(**{name: _rows(connection, make, select, key) for name, (make, select) in SELECTS.items()})


def _rows(connection: psycopg.Connection[tuple[Any, ...]], make: Any, select: str, key: str) -> list[Any]:
    cursor = connection.execute(select)
    names = [column.name for column in cursor.description or ()]
    rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    if make is Revision:
        for row in rows:
            row["payload"] = payload_of(row, key)
        names.remove("sealed_payload")
    return [make(**{name: str(row[name]) if name in ("id", "action") else row[name] for name in names}) for row in rows]
