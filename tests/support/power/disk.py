"""A disk that keeps only what was synced: see synced.c beside this file."""

import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("synced.c")


class Disk:
    """The state of one folder after a power cut. `environment` preloads the recorder into a
    process.

    `locks`: the processes hold POSIX locks on files of the folder, as SQLite does; without them
    recording costs less.
    """

    def __init__(self, folder: Path, scratch: Path, *, locks: bool = True) -> None:
        self._folder = folder
        self._kept = scratch / "disk"
        library = scratch / "synced.so"
        subprocess.run(
            ["gcc", "-shared", "-fPIC", "-O2", "-o", library, SOURCE, "-ldl"],
            check=True,
            timeout=60,
        )
        self.environment: dict[str, object] = {
            "LD_PRELOAD": library,
            "POWER_SOURCE": folder,
            "POWER_DISK": self._kept,
        }
        self.environment |= {} if locks else {"POWER_NO_LOCKS": "1"}

    def begin(self) -> None:
        """Treat the current folder as synced; no process may use it at that time."""
        shutil.rmtree(self._kept, ignore_errors=True)
        shutil.copytree(self._folder, self._kept, ignore=_pipes)
        self._kept.chmod(0o700)

    def keep(self, path: Path) -> None:
        """Treat one current file of the folder as synced."""
        shutil.copy(path, self._kept / path.relative_to(self._folder))

    def cut(self) -> None:
        """Lose everything that was not synced; no process may use the folder any more.

        The remaining data counts as synced from then on: another cut may follow.
        """
        for path in self._folder.rglob("*"):
            if path.is_file():
                path.unlink()
        for unfinished in [*self._kept.rglob("*.part"), *self._kept.rglob("*.lock")]:
            unfinished.unlink()  # the process was killed while it synced
        shutil.copytree(self._kept, self._folder, dirs_exist_ok=True)


def _pipes(folder: str, names: list[str]) -> list[str]:
    """Return the names of FIFOs, which hold nothing after a power cut."""
    return [name for name in names if Path(folder, name).is_fifo()]
