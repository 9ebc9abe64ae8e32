"""Applies the mutants of `mutants.toml` one at a time, each in a copy of the tree, and runs the
tests named for it.

    python -m tests.mutants.runner --jobs 2 --only approvals/services

A mutant is noticed if a test fails or runs out of time. The runs use SQLite, whatever DATABASE_URL
says.
"""

import argparse
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.mutants import places
from tests.support.processes.template import FOLDER, migrated_database

PROJECT = Path(__file__).parents[2]
DATA = Path(__file__).with_name("mutants.toml")
MOST_SECONDS = 180.0  # for one mutant
TESTS_FAILED = 1  # pytest's exit code
NOT_COPIED = shutil.ignore_patterns(
    *(".git", ".venv", ".servers", "var"),
    *(".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis"),
)
# A migration installs the guards of the database, so the shared database has the unchanged ones.
IN_THE_DATABASE = (
    "accounts/migrations/0016_names_of_tokens.py",
    "approvals/guards/rules.py",
    "approvals/guards/__init__.py",
)


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One change of a file, the tests that should notice it, and the reason if none can.

    `not_run_yet`: nobody has checked yet whether they do.
    """

    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    unnoticed: str = ""
    not_run_yet: bool = False

    def __str__(self) -> str:
        return f"{self.file}: {self.old.strip()!r} → {self.new.strip()!r}"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The result of a mutant: "noticed", "not noticed", "timeout", or "broken" if the tests could
    not be run.
    """

    mutant: Mutant
    result: str
    seconds: float
    output: str

    @property
    def is_noticed(self) -> bool:
        return self.result in ("noticed", "timeout")


def read_mutants() -> list[Mutant]:
    """Return the mutants of the data file, in its order."""
    groups = tomllib.loads(DATA.read_text())["guarded"]
    return [
        Mutant(**{"tests": group["tests"], **each, "file": group["file"]})
        for group in groups
        for each in group["mutants"]
    ]


class Workshop:
    """A copy of the tree, for one mutant at a time; `template` is the folder of the database."""

    def __init__(self, home: Path, template: Path) -> None:
        self._tree, self._template = home / "tree", template
        # Modification times are kept, so the compiled files are valid for all unchanged files.
        shutil.copytree(PROJECT, self._tree, ignore=NOT_COPIED)

    def judge(self, mutant: Mutant) -> Verdict:
        """Apply the mutant, run its tests, and take it back."""
        path = self._tree / mutant.file
        source, stat = path.read_text(), path.stat()
        began = time.monotonic()
        path.write_text(places.replace(source, mutant.old, mutant.new))
        try:
            result, output = self._run(mutant)
        finally:
            path.write_text(source)
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        return Verdict(
            mutant=mutant, result=result, seconds=time.monotonic() - began, output=output
        )

    def _run(self, mutant: Mutant) -> tuple[str, str]:
        template = None if mutant.file in IN_THE_DATABASE else self._template
        try:
            code, output = run_tests(self._tree, mutant.tests, template)
        except subprocess.TimeoutExpired:
            return "timeout", ""
        return {0: "not noticed", TESTS_FAILED: "noticed"}.get(code, "broken"), output


def run_tests(tree: Path, tests: Sequence[str], template: Path | None) -> tuple[int, str]:
    """Run tests in a tree until the first failure; return pytest's exit code and its output.

    `template` is the folder of the migrated database; None: the tree migrates its own.
    """
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("DATABASE", "PYTEST", "DJANGO", FOLDER))
    }
    environment |= {"PYTHONDONTWRITEBYTECODE": "1"}
    if template is not None:
        environment[FOLDER] = str(template)
    options = ("-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist")
    command = [sys.executable, "-m", "pytest", *options, *tests]
    process = subprocess.Popen(
        command,
        cwd=tree,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=MOST_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.communicate()
        raise
    return process.returncode, output


def judge_all(
    mutants: Sequence[Mutant],
    *,
    jobs: int,
    until: float,
    tell: Callable[[Verdict], None] = lambda _: None,
) -> list[Verdict]:
    """Judge the mutants, `jobs` at a time; start no mutant after `until` on the monotonic clock."""
    waiting: queue.SimpleQueue[Mutant] = queue.SimpleQueue()
    for mutant in mutants:
        waiting.put(mutant)
    verdicts: list[Verdict] = []

    template = migrated_database().parent

    def work(home: Path) -> None:
        home.mkdir()
        workshop = Workshop(home, template)
        while time.monotonic() < until:
            try:
                verdict = workshop.judge(waiting.get_nowait())
            except queue.Empty:
                return
            verdicts.append(verdict)
            tell(verdict)

    with (
        tempfile.TemporaryDirectory(prefix="mutants-") as folder,
        ThreadPoolExecutor(jobs) as pool,
    ):
        homes = [Path(folder) / str(number) for number in range(jobs)]
        list(pool.map(work, homes))  # raises what one of them raised
    return verdicts


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Run a part of the list and print the results."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--jobs", type=int, default=2)
    arguments.add_argument("--only", default="", help="part of a file's path or of the old text")
    arguments.add_argument(
        "--minutes", type=float, default=60, help="begin no mutant after so many minutes"
    )
    given = arguments.parse_args()
    chosen = [
        mutant for mutant in read_mutants() if given.only in mutant.file or given.only in mutant.old
    ]

    def tell(verdict: Verdict) -> None:
        say(f"{verdict.result:11} {verdict.seconds:5.1f} s  {verdict.mutant}")
        if verdict.result == "broken":
            say(verdict.output[-2000:])

    found = judge_all(
        chosen, jobs=given.jobs, until=time.monotonic() + given.minutes * 60, tell=tell
    )
    noticed = sum(verdict.is_noticed for verdict in found)
    say(
        f"{len(chosen)} mutants, {len(found)} run, {noticed} noticed, {len(found) - noticed} not noticed"
    )


if __name__ == "__main__":
    main()
