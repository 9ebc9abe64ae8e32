"""The Python client as people install it: its wheel, built and installed without the network."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mailhub.asgi import application
from tests.conformance.served import served
from tests.support.once import once

PROJECT = Path(__file__).parents[2]
UV = PROJECT / ".venv/bin/uv"
SECONDS = 60


@pytest.fixture(scope="session")
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder into which the client's wheel was installed."""
    return once(request.config, "client", lambda: _installed_in(tmp_path_factory.mktemp("client")))


@contextmanager
def _installed_in(folder: Path) -> Iterator[Path]:
    wheels, target = folder / "wheels", folder / "installed"
    _uv("build", PROJECT / "clients/python", "--wheel", "--offline", "-o", wheels)
    (wheel,) = wheels.glob("*.whl")
    _uv("pip", "install", "--no-deps", "--offline", "--target", target, wheel)
    yield target


def _uv(*arguments: str | Path) -> None:
    done = subprocess.run([UV, *arguments], capture_output=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr.decode()


@pytest.fixture
def door() -> Iterator[str]:
    """Yield the address of the served application."""
    with served(application) as address:
        yield address
