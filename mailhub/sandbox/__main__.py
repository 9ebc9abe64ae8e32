"""Entry point of the sandbox for one home: `python -m mailhub.sandbox HOME`."""

import sys
from pathlib import Path

from mailhub.sandbox.server import run

if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m mailhub.sandbox HOME")
    sys.exit(run(Path(sys.argv[1])))
