"""An SMTP server that fails on demand, and the sandbox."""

from collections.abc import Iterator

import pytest

from tests.support.servers.smtp import FaultySmtp


@pytest.fixture
def smtp() -> Iterator[FaultySmtp]:
    with FaultySmtp() as server:
        yield server
