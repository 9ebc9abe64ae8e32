"""An installation of an earlier version gets the tables of a new one, or is refused unchanged."""

import re
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.processes.programs import manage
from tests.support.processes.template import KEYS

pytestmark = [pytest.mark.process, pytest.mark.long]
STEP_BY_STEP = """
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

executor = MigrationExecutor(connection)
executor.loader.replace_migrations = False
executor.loader.build_graph()
executor.migrate({targets})
"""
OF_0_2_0 = """[
    ("accounts", "0008_membership_by_the_databases_clock"),
    ("agent", "0002_forget_foreign_checkpoints"),
    ("approvals", "0015_webhooks_of_security"),
    ("tools", "0005_draft_surface"),
]"""

FORMER_GUARD = """
CREATE TRIGGER auditevent_archived_first BEFORE DELETE ON approvals_auditevent WHEN NOT EXISTS (
    SELECT 1 FROM approvals_auditchain AS c WHERE c.id = OLD.chain_id AND OLD.sequence < c.archived)
BEGIN SELECT RAISE(ABORT, 'no'); END
"""


def test_database_of_0_2_0_gets_the_tables_of_a_new_one(tmp_path: Path) -> None:
    new, upgraded = tmp_path / "new", tmp_path / "upgraded"
    for home in (new, upgraded):
        home.mkdir()
    assert manage(new, "migrate", **KEYS).returncode == 0
    take_steps(upgraded, OF_0_2_0)

    assert manage(upgraded, "migrate", **KEYS).returncode == 0

    assert schema(upgraded) == schema(new)


def take_steps(home: Path, targets: str) -> None:
    """Migrate without the migrations that replace others, as databases of earlier versions did."""
    done = manage(home, "shell", "-c", STEP_BY_STEP.format(targets=targets), **KEYS)
    assert done.returncode == 0, done.stderr


def schema(home: Path) -> dict[str, Counter[str]]:
    """Return the words of each table's, index's and trigger's SQL: columns may have another
    order.
    """
    with closing(sqlite3.connect(home / "mailhub.sqlite3")) as database:
        found = database.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
        return {name: Counter(re.findall(r"\w+|\S", sql)) for name, sql in found}


def test_database_with_bytes_in_a_bucket_is_refused_unchanged(tmp_path: Path) -> None:
    take_steps(tmp_path, "[('approvals', '0043_passages')]")
    before = schema(tmp_path)
    with closing(sqlite3.connect(tmp_path / "mailhub.sqlite3")) as database, database:
        database.execute(
            "INSERT INTO approvals_unusedobject VALUES (?, ?, ?)",
            ("0" * 32, "key/object", "2026-01-01"),
        )

    refused = manage(tmp_path, "migrate", **KEYS)

    assert refused.returncode != 0
    assert "Some messages are in a bucket." in refused.stderr
    assert schema(tmp_path)["approvals_blob"] == before["approvals_blob"]


def test_database_without_archived_events_is_refused_unchanged(tmp_path: Path) -> None:
    take_steps(tmp_path, "[('approvals', '0044_bytes_in_the_database')]")
    before = schema(tmp_path)
    row = {"id": "0" * 32, "length": 3, "head": "2" * 64, "archived": 1, "archived_hash": "1" * 64}
    event = {
        "chain_id": "0" * 32,
        "sequence": 1,
        "at": "2026-01-01",
        "event": "paused",
        "actor": "command",
    }
    event |= {"data": "{}", "previous": "0" * 64, "hash": "1" * 64}
    insert(tmp_path, "approvals_auditchain", row)
    with closing(sqlite3.connect(tmp_path / "mailhub.sqlite3")) as database:
        database.execute(FORMER_GUARD)

    refused = manage(tmp_path, "migrate", **KEYS)

    assert refused.returncode != 0
    assert "1 audit events are only in the files of the archive" in refused.stderr
    assert schema(tmp_path)["approvals_auditchain"] == before["approvals_auditchain"]
    insert(tmp_path, "approvals_auditevent", event)
    assert manage(tmp_path, "migrate", **KEYS).returncode == 0
    assert not {"archived", "archived_hash"} & schema(tmp_path)["approvals_auditchain"].keys()
    assert "auditevent_archived_first" not in schema(tmp_path)


def insert(home: Path, table: str, row: dict[str, object]) -> None:
    with closing(sqlite3.connect(home / "mailhub.sqlite3")) as database, database:
        names, marks = ", ".join(row), ", ".join("?" * len(row))
        database.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", [*row.values()])
