"""One running mailhub for all tests of a process that leave it as they found it."""

import pytest

from tests.support.once import once
from tests.support.processes.mailhub import Mailhub

# Long enough that a page on a busy machine still shows the button, and short enough to wait for.
UNDO_SECONDS = 3


@pytest.fixture(scope="session")
def mailhub(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Mailhub:
    """Return the mailhub that this test process shares; it is started at the first use."""
    return once(
        request.config,
        "mailhub",
        lambda: Mailhub(tmp_path_factory.mktemp("mailhub"), MAILHUB_UNDO_SECONDS=UNDO_SECONDS),
    )
