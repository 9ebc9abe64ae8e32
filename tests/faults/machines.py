"""The home of each machine of the proof, and the proxy in front of its web servers."""

import shutil
import socket
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

from tests.support.processes.programs import SECONDS
from tests.support.servers.listening import Listening, pass_on


class Home:
    """The MAILHUB_HOME of one machine, or the folder of the records that all machines share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._heads_before = 0  # the number of their files from before the last restore

    def identity(self) -> str:
        """Return the id of the database to which the home belongs; empty if it has none."""
        path = self.folder / "instance-id"
        return path.read_text() if path.exists() else ""

    def empty(self) -> None:
        """Remove what mailhub compares with the database, as a new machine has none of it."""
        for path in (
            *self._heads(),
            self.folder / "instance-id",
            self.folder / "audit-heads.stamp",
        ):
            path.unlink(missing_ok=True)

    def begin_after_restore(self) -> None:
        """Count the newest file of heads as the first one since the restore."""
        self._heads_before = len(self._heads()) - 1

    def copy_heads(self, target: Path) -> Path:
        """Copy the heads that were anchored since the last restore, and return the folder.

        The end that a restore has cut off is missing in fact, and the earlier heads will always
        show it.
        """
        target.mkdir()
        for path in self._heads()[self._heads_before :]:
            shutil.copy(path, target)
        return target

    def _heads(self) -> list[Path]:
        """Return the files of anchored heads, oldest first: audit-heads.jsonl, then those with a
        number.
        """
        return sorted(self.folder.glob("audit-heads*.jsonl"), key=lambda path: path.stem)


class Proxy(Listening):
    """A proxy that passes the connections to the web servers by turns.

    If a server is down, its connections end without an answer.
    """

    def __init__(self, ports: Sequence[int]) -> None:
        super().__init__()
        self._ports = cycle(ports)

    def serve(self, sock: socket.socket) -> None:
        address = ("127.0.0.1", next(self._ports))
        with socket.create_connection(address, timeout=SECONDS) as upstream:
            upstream.settimeout(None)
            self._start(pass_on, upstream, sock)
            pass_on(sock, upstream)
