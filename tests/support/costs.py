"""A table at the end of a run: CPU seconds by folder, with those of ended child processes.

It leaves out the start of pytest, and servers that run longer than a test.
"""

import resource
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

PROPERTY = "cpu_seconds"
LEAST_SECONDS = 1
BEGAN = pytest.StashKey[float]()


def read_cpu() -> float:
    """Return the seconds of user and system time of this process and its ended children."""
    used = [resource.getrusage(each) for each in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[BEGAN] = read_cpu()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    if call.when == "teardown":
        item.user_properties.append((PROPERTY, read_cpu() - item.stash[BEGAN]))
    return (yield)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    seconds: Counter[str] = Counter()
    tests: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", "") == "teardown":
                folder = "/".join(report.nodeid.partition("::")[0].split("/")[:-1][:2])
                seconds[folder] += dict(report.user_properties)[PROPERTY]
                tests[folder] += 1
    dear = [row for row in seconds.most_common() if row[1] >= LEAST_SECONDS]
    if dear:
        terminalreporter.section("CPU seconds by folder")
        for folder, spent in [*dear, ("all tests", seconds.total())]:
            count = tests[folder] or tests.total()
            terminalreporter.write_line(f"{spent:6.0f} s {count:6} tests  {folder}")
