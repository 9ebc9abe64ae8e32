"""Independent mail servers: `@inbox-zero/emulate` from npm (Apache-2.0), Gmail and Graph on
loopback.

The emulator keeps state, delivers nothing, and knows only a part of each API; our own servers play
the rest.
"""

import json
import shutil
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.servers.services import Service, free_port

PACKAGE = "@inbox-zero/emulate@0.4.5"
INSTALL_SECONDS = 120


class Emulator(Service):
    """One service (`google`, `microsoft`) with the content of `seed`; the token of a person is
    `token-ADDRESS`.
    """

    name = "emulate"

    def __init__(
        self, command: list[str], service: str, seed: dict[str, Any], addresses: Sequence[str]
    ) -> None:
        super().__init__()
        self._command, self._service = command, service
        self.port = free_port()
        self._seed = {
            "tokens": {
                f"token-{address}": {"login": address, "scopes": []} for address in addresses
            },
            service: {"users": [{"email": address, "name": "A"} for address in addresses], **seed},
        }

    def command(self) -> Sequence[str | Path]:
        seed = Path(self.folder) / "seed.json"
        seed.write_text(json.dumps(self._seed))
        return [
            *self._command,
            "--service",
            self._service,
            "--port",
            str(self.port),
            "--seed",
            str(seed),
        ]

    def is_ready(self) -> bool:
        with socket.socket() as knocking:
            return knocking.connect_ex(("127.0.0.1", self.port)) == 0


@pytest.fixture(scope="session")
def emulate(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the command line of the emulator, installed in a temporary folder."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if not npm or not node:
        pytest.skip("npm is not installed (bin/system-packages)")
    folder = tmp_path_factory.mktemp("emulate")
    options = ["--no-audit", "--no-fund", "--no-save", "--prefix", str(folder)]
    done = subprocess.run(
        [npm, "install", *options, PACKAGE],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [node, str(folder / "node_modules/@inbox-zero/emulate/dist/index.js")]
