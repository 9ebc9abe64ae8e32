"""The browser that the tests start."""

import shutil
from pathlib import Path

# Where the programs are if they are not on PATH: Debian, and Homebrew's casks.
PLACES = (
    "/usr/bin/chromium",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)


def find_chromium() -> str:
    """Return the path of Chromium or Chrome; raises RuntimeError without one."""
    on_path = shutil.which("chromium")
    for place in (on_path, *PLACES):
        if place and Path(place).exists():
            return place
    raise RuntimeError("Chromium is not installed. Run bin/system-packages.")
