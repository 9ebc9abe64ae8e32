"""An installation of an earlier version gets the tables of a new one, or is refused unchanged. The
previous release goes on with the new tables.
"""

import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from email import message_from_bytes
from pathlib import Path

import pytest
from django.apps import apps
from django.db import migrations, models
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState

from tests.support.processes.installation import Installation
from tests.support.processes.programs import MANAGE, manage
from tests.support.processes.releases import PREVIOUS, unpack
from tests.support.processes.template import KEYS
from tests.support.servers.sandbox import SandboxServer
from tests.support.servers.services import Postgres
from tests.support.servers.smtp import FaultySmtp

# Migrations that remove what the previous release no longer uses, and why it does without.
REMOVALS: dict[tuple[str, str], str] = {}
REMOVING = (
    migrations.RemoveField,
    migrations.DeleteModel,
    migrations.RenameField,
    migrations.RenameModel,
    migrations.AlterModelTable,
    migrations.AlterUniqueTogether,
    migrations.RunSQL,  # nobody can see what it removes
)
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


@pytest.mark.process
@pytest.mark.long
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


@pytest.mark.process
@pytest.mark.long
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


@pytest.mark.process
@pytest.mark.long
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


@pytest.mark.static
def test_migrations_since_the_previous_release_only_add() -> None:
    """Judge each operation with the tables as they were before it: old code still uses them then."""
    loader = MigrationLoader(None)
    later = {
        key: migration
        for key, migration in loader.disk_migrations.items()
        if key[0] in PREVIOUS.newest and int(key[1][:4]) > PREVIOUS.newest[key[0]]
    }
    assert REMOVALS.keys() <= later.keys(), "it is part of the previous release: take it out here"
    for key, migration in later.items():
        if key in REMOVALS or migration.replaces:
            continue
        state = loader.project_state(key, at_end=False)
        for operation in migration.operations:
            assert find_harm(operation, key[0], state) == "", key
            operation.state_forwards(key[0], state)


def find_harm(operation: Operation, app: str, state: ProjectState) -> str:
    """Return how an operation breaks code that knows only the tables before it; empty if it does not."""
    if isinstance(operation, migrations.SeparateDatabaseAndState):
        return "".join(find_harm(each, app, state) for each in operation.database_operations)
    if isinstance(operation, REMOVING):
        return f"{operation.describe()}: earlier code still uses it"
    if isinstance(operation, migrations.AddField) and needs_a_value(operation.field):
        return f"{operation.describe()}: earlier code inserts no value, so it needs a db_default or null"
    if isinstance(operation, migrations.AlterField):
        table = state.models[app, operation.model_name_lower]
        if is_narrower(table.fields[operation.name], operation.field):
            return f"{operation.describe()}: earlier code may write what no longer fits"
    return ""


def needs_a_value(field: models.Field) -> bool:  # type: ignore[type-arg]
    return not (field.null or field.many_to_many or field.has_db_default())


def is_narrower(before: models.Field, after: models.Field) -> bool:  # type: ignore[type-arg]
    kinds = (before.get_internal_type(), after.get_internal_type())
    return (
        kinds not in ((kinds[0], kinds[0]), ("CharField", "TextField"))
        or (after.max_length or 1 << 31) < (before.max_length or 1 << 31)
        or (needs_a_value(after) and not needs_a_value(before))
        or (after.unique and not before.unique)
    )


@pytest.mark.static
@pytest.mark.parametrize(
    ("operation", "harms"),
    [
        (migrations.AddField("pause", "note", models.TextField(null=True)), False),
        (migrations.AddField("pause", "note", models.TextField(db_default="")), False),
        (migrations.AddField("pause", "note", models.TextField(default="")), True),
        (migrations.RemoveField("pause", "reason"), True),
        (migrations.RenameField("pause", "reason", "why"), True),
        (migrations.RenameModel("pause", "stop"), True),
        (migrations.DeleteModel("pause"), True),
        (migrations.AlterField("pause", "reason", models.CharField(max_length=2)), True),
        (migrations.AlterField("pause", "reason", models.TextField()), False),
        (migrations.AlterField("pause", "reason", models.IntegerField()), True),
        (migrations.RunSQL("DROP TABLE approvals_pause"), True),
        (
            migrations.SeparateDatabaseAndState(
                state_operations=[migrations.RemoveField("pause", "reason")]
            ),
            False,
        ),
    ],
    ids=lambda value: value.describe() if isinstance(value, Operation) else None,
)
def test_harm_of_a_migration_is_seen(operation: Operation, harms: bool) -> None:
    state = ProjectState.from_apps(apps)
    assert bool(find_harm(operation, "approvals", state)) == harms


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "sqlite":
        yield ""
        return
    with Postgres() as server:
        yield server.url


@pytest.mark.process
@pytest.mark.long
@pytest.mark.timeout(1200)
def test_previous_release_works_on_the_new_tables(
    tmp_path: Path, smtp: FaultySmtp, sandbox: SandboxServer, database_url: str
) -> None:
    """Update under running processes of the previous release, then let both work side by side."""
    previous = unpack(PREVIOUS.commit, tmp_path / "previous")
    assert newest_migrations(tmp_path / "previous") == PREVIOUS.newest
    home = tmp_path / "home"
    home.mkdir()
    with Installation(home, smtp, sandbox, DATABASE_URL=database_url) as installation:
        installation.program = previous
        installation.prepare()
        installation.serve()
        installation.worker()
        installation.reaches(installation.approved("Before"), "succeeded")
        waiting = installation.proposed("Waits meanwhile")

        installation.program = MANAGE
        installation.command("migrate", "--verbosity=0")

        installation.reaches(installation.approved("After"), "succeeded")
        installation.approve(waiting)
        installation.reaches(waiting, "succeeded")
        old = installation.url
        installation.serve()
        installation.worker()
        new = installation.url
        for number, (agent, person) in enumerate([(old, new), (new, old)]):
            installation.url = agent
            action_id = installation.proposed(f"Side by side {number}")
            installation.url = person
            installation.approve(action_id)
            installation.reaches(action_id, "succeeded")
    subjects = [message_from_bytes(each.content)["Subject"] for each in smtp.ledger]
    named = ["After", "Before", "Side by side 0", "Side by side 1", "Waits meanwhile"]
    assert sorted(subjects) == named


def newest_migrations(code: Path) -> dict[str, int]:
    """Return the number of the newest migration of each app in the code of a release."""
    newest: dict[str, int] = {}
    for path in sorted(code.glob("**/migrations/[0-9]*.py")):
        if ".venv" not in path.parts:
            app = path.parts[-3]
            newest[app] = max(newest.get(app, 0), int(path.name[:4]))
    return newest
