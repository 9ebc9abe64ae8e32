"""Paths of Linux with facts about processes."""

from pathlib import Path

import pytest

PROC = Path("/proc")


def proc(*parts: object) -> Path:
    """Return a path below /proc. On a system without it the test is skipped, and says so."""
    if not PROC.is_dir():
        pytest.skip("this reads /proc, which only Linux has")
    return PROC.joinpath(*map(str, parts))
