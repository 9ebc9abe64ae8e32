"""An SMTP server that fails on demand, and the sandbox."""

from collections.abc import Iterator

import pytest

from tests.mailserver import FaultySmtp, sandbox, sandbox_process

__all__ = ["sandbox", "sandbox_process"]


@pytest.fixture
def smtp() -> Iterator[FaultySmtp]:
    with FaultySmtp() as server:
        yield server
