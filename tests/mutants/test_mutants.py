"""A test must notice each removed guard: otherwise nobody would notice a real loss of it."""

import time
from collections import Counter
from pathlib import Path

import pytest

from tests.mutants.places import find
from tests.mutants.runner import PROJECT, judge_all, read_mutants, say

SECONDS = 2 * 3600.0
LEAST_NOTICED = 0.97


@pytest.mark.static
def test_each_old_text_is_once_in_its_file() -> None:
    wrong = [
        f"{count} times in {mutant}"
        for mutant in read_mutants()
        if (count := len(find((PROJECT / mutant.file).read_text(), mutant.old))) != 1
        or mutant.old == mutant.new
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.static
def test_list_is_long_and_has_no_duplicates() -> None:
    counts = Counter((mutant.file, mutant.old, mutant.new) for mutant in read_mutants())
    assert len(counts) >= 200
    assert [each for each, count in counts.items() if count > 1] == []


@pytest.mark.static
def test_each_named_test_exists() -> None:
    missing = sorted(
        {node for mutant in read_mutants() for node in mutant.tests if not _is_there(node)}
    )
    assert not missing, "\n".join(missing)
    assert all(mutant.tests for mutant in read_mutants())


def _is_there(node: str) -> bool:
    file, _, name = node.partition("::")
    path: Path = PROJECT / file
    return path.is_file() and (not name or f"def {name}(" in path.read_text())


@pytest.mark.long
@pytest.mark.timeout(SECONDS + 600)
def test_nearly_every_mutant_is_noticed() -> None:
    mutants = read_mutants()
    verdicts = judge_all(mutants, jobs=2, until=time.monotonic() + SECONDS)
    assert len(verdicts) == len(mutants), (
        f"only {len(verdicts)} of {len(mutants)} mutants were run in time"
    )
    broken = [verdict for verdict in verdicts if verdict.result == "broken"]
    assert not broken, "\n".join(
        f"{verdict.mutant}\n{verdict.output[-2000:]}" for verdict in broken
    )
    unnoticed = [verdict.mutant for verdict in verdicts if not verdict.is_noticed]
    for mutant in unnoticed:
        say(f"not noticed: {mutant}")
    counted = [mutant for mutant in unnoticed if not mutant.not_run_yet]
    run_before = sum(not mutant.not_run_yet for mutant in mutants)
    assert len(counted) <= (1 - LEAST_NOTICED) * run_before, "\n".join(map(str, counted))
    unexplained = [mutant for mutant in counted if not mutant.unnoticed]
    assert not unexplained, "\n".join(map(str, unexplained))
