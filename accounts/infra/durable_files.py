"""Files whose names survive a power cut."""

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that a new name in it survives a power cut (fsync(2))."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
