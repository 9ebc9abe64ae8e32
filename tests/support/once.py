"""Servers and programs that all tests of one process share, whichever modules ask for them."""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
_ENTERED = pytest.StashKey[dict[str, Any]]()


def once(config: pytest.Config, name: str, make: Callable[[], AbstractContextManager[T]]) -> T:
    """Enter a context at the first call with this name, and leave it when the test run ends.

    A session fixture is not enough: each module that imports it has one of its own.
    """
    entered = config.stash.setdefault(_ENTERED, {})
    if name not in entered:
        left_at_the_end = ExitStack()
        entered[name] = left_at_the_end.enter_context(make())
        config.add_cleanup(left_at_the_end.close)
    found: T = entered[name]
    return found
