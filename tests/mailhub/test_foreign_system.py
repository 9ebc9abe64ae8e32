"""On a system that is not POSIX the server refuses clearly, and the client still works."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process
PROJECT = Path(__file__).parents[2]
CLIENT = PROJECT / "clients/python/src"
MISSING = "fcntl grp pwd resource termios".split()
SECONDS = 60
# Programs that a person or a desktop client starts, and what another server imports.
STARTS = {
    "stdio": "sys.argv = ['manage.py', 'mcp']; runpy.run_path('manage.py', run_name='__main__')",
    "asgi": "import mailhub.asgi",
}


def run(program: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a Python without the modules of POSIX systems."""
    missing = f"import runpy, sys; sys.modules.update(dict.fromkeys({MISSING}))"
    return subprocess.run(
        [sys.executable, "-c", f"{missing}; {program}"],
        cwd=PROJECT,
        env={"PYTHONPATH": f"{PROJECT}:{CLIENT}"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


@pytest.mark.parametrize("start", STARTS)
def test_server_names_the_command_that_works_there(start: str) -> None:
    done = run(STARTS[start])
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("The mailhub server runs on Linux and macOS")
    assert "`mailhub-mcp`" in done.stderr
    assert "Traceback" not in done.stderr


def test_bridge_needs_no_posix() -> None:
    done = run("from mailhub_client import bridge; sys.exit(bridge.main())")
    assert (done.returncode, done.stderr) == (2, "Set MAILHUB_URL and MAILHUB_TOKEN.\n")
