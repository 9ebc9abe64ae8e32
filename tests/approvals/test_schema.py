"""The database has every constraint and index that the models name."""

import pytest
from django.apps import apps
from django.db import connection

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.mark.parametrize("app", ["accounts", "approvals", "tools"])
def test_migrations_keep_all_constraints_and_indexes(app: str) -> None:
    """Django drops a unique index with the index of a foreign key if both have the same column."""
    for model in apps.get_app_config(app).get_models():
        named = {each.name for each in (*model._meta.constraints, *model._meta.indexes)}
        with connection.cursor() as cursor:
            found = connection.introspection.get_constraints(cursor, model._meta.db_table)
        assert named - found.keys() == set(), model
