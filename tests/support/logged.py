"""The log, as it is written while a test runs."""

import logging
from collections.abc import Iterator
from io import StringIO

import pytest


@pytest.fixture
def logged() -> Iterator[StringIO]:
    """Yield everything that reaches the log, in its final form."""
    stream = StringIO()
    handler = logging.getLogger().handlers[0]
    assert isinstance(handler, logging.StreamHandler)
    copy = logging.StreamHandler(stream)
    copy.setFormatter(handler.formatter)
    logging.getLogger().addHandler(copy)
    yield stream
    logging.getLogger().removeHandler(copy)
