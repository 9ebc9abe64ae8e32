"""A running mailhub and the installed Python client, which all tests of a process share and leave
as they found them.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes.mailhub import Mailhub
from tests.support.processes.programs import PROJECT

UV = PROJECT / ".venv/bin/uv"
# Long enough that a page on a busy machine still shows the button, and short enough to wait for.
UNDO_SECONDS = 3


@pytest.fixture(scope="session")
def mailhub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mailhub]:
    """Yield the mailhub that this test process shares; it is started at the first use."""
    home = tmp_path_factory.mktemp("mailhub")
    with Mailhub(home, MAILHUB_UNDO_SECONDS=UNDO_SECONDS) as running:
        yield running


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder into which the client's wheel was installed, without the network."""
    wheels, target = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("installed")
    _uv("build", PROJECT / "clients/python", "--wheel", "--offline", "-o", wheels)
    (wheel,) = wheels.glob("*.whl")
    _uv("pip", "install", "--no-deps", "--offline", "--target", target, wheel)
    return target


def _uv(*arguments: str | Path) -> None:
    done = subprocess.run([UV, *arguments], capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
