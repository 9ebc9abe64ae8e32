"""A wall clock that somebody sets while processes run: see clock.c beside this file."""

import subprocess
from datetime import timedelta
from pathlib import Path

SOURCE = Path(__file__).with_name("clock.c")


class Clock:
    """The wall clock of the processes that get its `environment`; `name` is unique in the folder."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._shift = folder / f"{name}.shift"
        self._shift.write_bytes(bytes(8))
        library = folder / "clock.so"
        if not library.exists():
            subprocess.run(
                ["gcc", "-shared", "-fPIC", "-O2", "-o", library, SOURCE], check=True, timeout=60
            )
        self.environment: dict[str, object] = {"LD_PRELOAD": library, "CLOCK_SHIFT": self._shift}

    def move(self, by: timedelta) -> None:
        """Set the clock this far ahead of the right time, or behind it; zero sets it right."""
        with self._shift.open("r+b") as file:  # in place: the processes have mapped the file
            file.write(int(by.total_seconds()).to_bytes(8, "little", signed=True))


def preload(*environments: dict[str, object]) -> dict[str, object]:
    """Return one environment of several, with all libraries that they preload."""
    merged: dict[str, object] = {}
    for each in environments:
        both = (merged.get("LD_PRELOAD"), each.get("LD_PRELOAD"))
        merged |= each
        if any(both):
            merged["LD_PRELOAD"] = " ".join(str(library) for library in both if library)
    return merged
