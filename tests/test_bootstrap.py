"""Files that a fresh machine needs before anything is installed: lock files, Makefile,
bin/bootstrap.
"""

import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.servers.services import Redis

pytestmark = pytest.mark.static

ROOT = Path(__file__).resolve().parent.parent
SETS = ("runtime", "agent", "sandbox", "test", "fuzz")
LOCKED = ("bootstrap", "build", "release", *SETS)
PINNED = re.compile(
    r"[a-z0-9._-]+(\[[a-z0-9,_-]+\])?==[^ ;]+( ; [^-]+)?\s+--hash=sha256:[0-9a-f]{64}\b"
)
INDEX = re.compile(
    r"^\s*(-i|-f|--index-url|--extra-index-url|--find-links|--trusted-host)\b", re.MULTILINE
)
PLACE = re.compile(r"(^|[\s=@])(/|~/|file:)", re.MULTILINE)


def entries(name: str) -> list[str]:
    """Return each requirement of a lock file as one line, without comments."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    lines = [
        line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")
    ]
    return "\n".join(lines).replace("\\\n", " ").splitlines()


def pins(name: str) -> set[str]:
    """Return "name==version", with the marker where there is one."""
    return {entry.split("--hash")[0].strip() for entry in entries(name)}


def bootstrap(tree: Path, python: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a copy of bin/bootstrap in an empty tree, so that the .venv of this one stays
    unchanged.
    """
    for folder in ("bin", "requirements"):
        shutil.copytree(ROOT / folder, tree / folder)
    return subprocess.run(
        [tree / "bin" / "bootstrap", *arguments],
        env={"PATH": "/usr/bin:/bin", "PYTHON": python},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.mark.parametrize("name", LOCKED)
def test_every_requirement_is_one_version_with_hashes(name: str) -> None:
    assert entries(name)
    for entry in entries(name):
        assert PINNED.match(entry), entry


@pytest.mark.parametrize(
    "path", sorted((ROOT / "requirements").iterdir()), ids=lambda path: path.name
)
def test_requirement_files_name_no_index_and_no_local_path(path: Path) -> None:
    text = path.read_text()
    assert "://" not in text
    assert not INDEX.search(text)
    assert not PLACE.search(text)


def test_each_set_is_contained_in_the_next_larger_one() -> None:
    sets = [pins(name) for name in SETS]
    assert all(smaller < larger for smaller, larger in pairwise(sets))


def test_fuzzer_and_test_servers_are_in_their_own_sets() -> None:
    added = {name: pins(name) - pins(before) for before, name in pairwise(SETS)}
    assert {each.split("==")[0] for each in added["fuzz"]} == {"atheris"}
    assert {"pymap", "aiosmtpd"} <= {re.split(r"[\[=]", each)[0] for each in added["sandbox"]}


def test_makefile_has_the_documented_targets() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    assert {"run", "test", "test-all", "check", "lock", "clean", "help"} <= targets
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony
    assert set(phony[1].split()) == targets


def test_bootstrap_refuses_an_old_python_in_one_line(tmp_path: Path) -> None:
    # The check is Python's own code, so the test gives that code an old version to simulate an old
    # interpreter.
    old = tmp_path / "python"
    program = "import sys; sys.version_info = (3, 9, 2); exec(sys.argv[1])"
    old.write_text(
        f'#!/bin/sh\nfor code; do :; done\nexec "{sys.executable}" -c "{program}" "$code"\n'
    )
    old.chmod(0o755)
    done = bootstrap(tmp_path / "tree", str(old), "runtime")
    assert done.returncode == 1
    assert re.fullmatch(
        r"bootstrap: mailhub needs Python 3\.11 or newer; .* is 3\.9\n", done.stderr
    )
    assert not (tmp_path / "tree" / ".venv").exists()


def test_bootstrap_refuses_a_missing_python_in_one_line(tmp_path: Path) -> None:
    done = bootstrap(tmp_path, "no-such-python", "runtime")
    assert done.returncode == 1
    assert (
        done.stderr == "bootstrap: no-such-python not found: mailhub needs Python 3.11 or newer\n"
    )


def test_bootstrap_refuses_an_unknown_set(tmp_path: Path) -> None:
    done = bootstrap(tmp_path, "python3", "everything")
    assert done.returncode == 1
    assert done.stderr == "bootstrap: name a set: runtime, agent, sandbox, test or fuzz\n"


def test_private_server_returns_after_an_outage() -> None:
    with Redis() as redis:
        url = redis.url
        assert redis.is_ready()
        redis.stop()
        assert not redis.is_ready()
        redis.start()
        assert redis.is_ready()
        assert redis.url == url
    assert not redis.is_ready()
    assert not redis.folder.exists()
