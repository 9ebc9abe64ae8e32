"""An SMTP server that fails on demand, and the sandbox."""

from collections.abc import Iterator

import pytest

from tests.support.servers.sandbox import sandbox, sandbox_process
from tests.support.servers.smtp import FaultySmtp

__all__ = ["sandbox", "sandbox_process"]


@pytest.fixture
def smtp() -> Iterator[FaultySmtp]:
    with FaultySmtp() as server:
        yield server
