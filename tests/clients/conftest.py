"""The application, served for the clients of others."""

from collections.abc import Iterator

import pytest

from mailhub.asgi import application
from tests.conformance.served import served


@pytest.fixture
def door() -> Iterator[str]:
    """Yield the address of the served application."""
    with served(application) as address:
        yield address
