from collections.abc import Iterator

import pytest
from django.db import connection

from tests.support.processes.mailhub import Mailhub
from tests.support.servers.sandbox import sandbox, sandbox_process

__all__ = ["mailhub", "sandbox", "sandbox_process"]


@pytest.fixture(scope="session")
def mailhub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mailhub]:
    """Yield one running mailhub for all tests that leave it as they found it. Its undo window is
    zero.
    """
    with Mailhub(tmp_path_factory.mktemp("mailhub"), MAILHUB_UNDO_SECONDS=0) as running:
        yield running


@pytest.fixture(autouse=True)
def _its_own_database(request: pytest.FixtureRequest) -> None:
    """Skip a test that is marked for one database when the run uses the other."""
    for marker, vendor in (("sqlite_only", "sqlite"), ("postgres_only", "postgresql")):
        if request.node.get_closest_marker(marker) and connection.vendor != vendor:
            pytest.skip(f"this runs on {connection.vendor}")
