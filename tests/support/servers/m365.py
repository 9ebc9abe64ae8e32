"""A Microsoft 365 with a fake CLI: the program `m365` first on PATH, and the MCP server in front of
it.
"""

import fcntl
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tools.m365.client import close_all

HERE = Path(__file__).parent
NPM_SERVER = "@pnp/cli-microsoft365-mcp-server@0.1.24"
NPM_CLI = "@pnp/cli-microsoft365@11.11.0"
INSTALL_SECONDS = 300


@dataclass(frozen=True, kw_only=True)
class M365:
    """The fake program's answers, and the record of its calls."""

    folder: Path

    def answers(self, **by_command: Any) -> None:
        """Set the answer of a command; a blank in its name is written as an underscore."""
        path = self.folder / "answers.json"
        path.write_text(
            json.dumps(
                json.loads(path.read_text())
                | {k.replace("_", " "): v for k, v in by_command.items()}
            )
        )

    @property
    def calls(self) -> list[list[str]]:
        path = self.folder / "calls.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def npm_folder(config: pytest.Config, *arguments: str) -> Path:
    """Return a folder that is kept between runs, in which npm has installed this, and only this: it
    removes what an earlier call has installed in the same one.
    """
    npm = shutil.which("npm")
    assert npm, "npm is not installed (bin/system-packages)"
    kept = Path(config.cache.mkdir("npm"))
    folder = kept / arguments[-1].replace("/", "_")
    with (kept / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the suite's workers share it
        done = folder / "done"
        if not done.exists():
            folder.mkdir(exist_ok=True)
            subprocess.run(
                [npm, *arguments],
                cwd=folder,
                check=True,
                capture_output=True,
                timeout=INSTALL_SECONDS,
            )
            done.touch()
    return folder


@pytest.fixture(scope="session")
def npm_server(request: pytest.FixtureRequest) -> str:
    """Return the command line of the real MCP server."""
    folder = npm_folder(
        request.config,
        "install",
        "--no-audit",
        "--no-fund",
        "--no-save",
        "--prefix",
        ".",
        NPM_SERVER,
    )
    return shlex.join(
        ["node", str(folder / "node_modules/@pnp/cli-microsoft365-mcp-server/dist/index.js")]
    )


@pytest.fixture(
    params=["stand-in", pytest.param("npm", marks=[pytest.mark.long, pytest.mark.timeout(400)])]
)
def m365(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> Iterator[M365]:
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "m365"
    shutil.copy(HERE / "m365_program.py", program)
    program.chmod(0o755)
    (folder / "answers.json").write_text("{}")
    (folder / "tester.pid").write_text(str(os.getpid()))
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    # The comment at the end makes the command unique to this test: each command has its kept
    # connection.
    server = (
        request.getfixturevalue("npm_server")
        if request.param == "npm"
        else shlex.join([sys.executable, "-S", str(HERE / "m365_server.py")])
    )
    settings.MCP_M365_START_CMD = f"{server} {shlex.quote(str(tmp_path))}"
    yield M365(folder=folder)
    close_all()
