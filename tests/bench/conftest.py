"""The choice of one goal, the printed rows, and the fixtures of a queue with its servers."""

import os

import pytest

from tests.approvals.queues.conftest import broker, redis, redis_server, site
from tests.bench import page
from tests.support.people.chromium import browser, chromium

__all__ = ["broker", "browser", "chromium", "redis", "redis_server", "site"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave only the benchmarks of BENCH_GOAL, if it is set."""
    wanted = os.environ.get("BENCH_GOAL")
    if not wanted:
        return
    chosen = [
        item for item in items if any(wanted in marker.args for marker in item.iter_markers("goal"))
    ]
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for row in page.collected:
        terminalreporter.write_line(row)
