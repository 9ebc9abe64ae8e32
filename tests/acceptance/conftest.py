from collections.abc import Iterator

import pytest
from django.db import connection

from tests.mailserver import sandbox, sandbox_process
from tests.processes import Mailhub

__all__ = ["mailhub", "sandbox", "sandbox_process"]


@pytest.fixture(scope="session")
def mailhub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mailhub]:
    """One running mailhub for all tests that leave it as they found it; nothing waits for an undo
    window.
    """
    with Mailhub(tmp_path_factory.mktemp("mailhub"), MAILHUB_UNDO_SECONDS=0) as running:
        yield running


@pytest.fixture(autouse=True)
def _its_own_database(request: pytest.FixtureRequest) -> None:
    """A test about one database is no test on another."""
    for marker, vendor in (("sqlite_only", "sqlite"), ("postgres_only", "postgresql")):
        if request.node.get_closest_marker(marker) and connection.vendor != vendor:
            pytest.skip(f"this runs on {connection.vendor}")
