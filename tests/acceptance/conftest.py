from collections.abc import Iterator

import pytest

from tests.processes import Mailhub


@pytest.fixture(scope="session")
def mailhub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mailhub]:
    """One running mailhub for all tests that leave it as they found it; nothing waits for an undo window."""
    with Mailhub(tmp_path_factory.mktemp("mailhub"), MAILHUB_UNDO_SECONDS=0) as running:
        yield running
