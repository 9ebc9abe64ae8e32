import pytest
from django.db import connection


@pytest.fixture(autouse=True)
def _its_own_database(request: pytest.FixtureRequest) -> None:
    """Skip a test that is marked for one database when the run uses the other."""
    for marker, vendor in (("sqlite_only", "sqlite"), ("postgres_only", "postgresql")):
        if request.node.get_closest_marker(marker) and connection.vendor != vendor:
            pytest.skip(f"this runs on {connection.vendor}")
