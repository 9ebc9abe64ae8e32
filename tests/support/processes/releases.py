"""Earlier releases: their code from git, with the packages that they pinned."""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.processes.programs import PROJECT

BOOTSTRAP_SECONDS = 900


@dataclass(frozen=True, kw_only=True)
class Release:
    """A commit, and the number of the newest migration that each app has there."""

    commit: str
    newest: Mapping[str, int]


# The release whose code must run on the tables of this tree: 0.3.8. After a release, write its commit
# and its newest migrations here.
PREVIOUS = Release(
    commit="6f490f75a5c070c22b90ce2dfbd551b2107447e8",
    newest={"accounts": 21, "agent": 5, "approvals": 54, "tools": 11},
)


def unpack(commit: str, folder: Path, packages: str = "runtime") -> list[str]:
    """Write the code of a commit into a new folder, install its packages, and return the command
    of its manage.py.
    """
    folder.mkdir(parents=True)
    with subprocess.Popen(
        ["git", "-C", PROJECT, "archive", commit], stdout=subprocess.PIPE
    ) as archive:
        subprocess.run(["tar", "-x", "-C", folder], stdin=archive.stdout, check=True)
    assert archive.returncode == 0, f"git does not have {commit}: fetch it"
    subprocess.run(
        [folder / "bin/bootstrap", packages],
        check=True,
        capture_output=True,
        timeout=BOOTSTRAP_SECONDS,
    )
    return [str(folder / ".venv/bin/python"), str(folder / "manage.py")]
