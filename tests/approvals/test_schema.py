"""The database has every constraint and index that the models name."""

import re

import pytest
from django.apps import apps
from django.db import connection, migrations
from django.db.migrations.loader import MigrationLoader

from approvals import guards
from approvals.guards.rules import RULES

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.mark.parametrize("app", ["accounts", "approvals", "tools"])
def test_migrations_keep_all_constraints_and_indexes(app: str) -> None:
    """Django drops a unique index with the index of a foreign key if both have the same column."""
    for model in apps.get_app_config(app).get_models():
        named = {each.name for each in (*model._meta.constraints, *model._meta.indexes)}
        with connection.cursor() as cursor:
            found = connection.introspection.get_constraints(cursor, model._meta.db_table)
        assert named - found.keys() == set(), model


def test_guards_wait_for_the_newest_column_that_they_name() -> None:
    """Installed by an earlier migration, they would name a missing column: then SQLite refuses the
    next rename of a table, and with it every upgrade.
    """
    named = {
        (rule.table, column)
        for rule in RULES
        for column in re.findall(r"NEW\.(\w+)", rule.refused_when)
    }
    loader = MigrationLoader(None, replace_migrations=False)
    leaf = max(loader.graph.leaf_nodes("approvals"))
    added = [
        (f"{app}_{operation.model_name}", operation.name)
        for app, name in loader.graph.forwards_plan(leaf)
        for operation in loader.disk_migrations[app, name].operations
        if isinstance(operation, migrations.AddField)
    ]
    assert [column for column in added if column in named][-1] == guards.NEWEST
