"""A plugin of pytest that measures which lines its tests run, and the bars for what it measured.

`bin/test` loads it for PART=coverage. It measures the processes that run tests, with their threads;
mailhub processes that tests start are not measured, so the figures are lower bounds.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import coverage
import pytest

FOLDER = "MAILHUB_TEST_COVERAGE"  # the folder of the measured data
PACKAGES = ["accounts", "approvals", "mailhub", "tools"]
# Percent of all code, in every package together.
TOTAL = {"lines": 60, "branches": 50, "functions": 60}
# Percent of the lines and branches of each file that searches.
SEARCH = 90
SEARCH_FILES = (
    "tools/reading/gmail_search.py",
    "tools/providers/gmail/batches.py",
    "tools/providers/gmail/client.py",
    "tools/providers/gmail/queries.py",
    "tools/providers/gmail/reading.py",
    "tools/providers/graph/queries.py",
    "tools/providers/imap/search.py",
)


def _measurement(**options: Any) -> coverage.Coverage:
    made = coverage.Coverage(
        config_file=False,
        data_file=Path(os.environ[FOLDER]) / "data",
        branch=True,
        source_pkgs=PACKAGES,
        omit=["*/migrations/*"],
        **options,
    )
    # Processes that only start others run nothing of the product.
    made.set_option("run:disable_warnings", ["module-not-measured", "no-data-collected"])
    return made


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Begin before the settings, and with them the product, are imported."""
    measurement = _measurement(data_suffix=True)
    measurement.start()
    early_config.add_cleanup(measurement.save)
    early_config.add_cleanup(measurement.stop)  # the last one is called first


def read_report() -> dict[str, Any]:
    """Return the library's report about what all processes measured together."""
    # Not before the measurement begins: it is a part of the product.
    from accounts.infra.foreign_text import load_json

    measurement = _measurement()
    measurement.combine()
    written = Path(os.environ[FOLDER]) / "report.json"
    measurement.json_report(outfile=str(written))
    found: dict[str, Any] = load_json(written.read_text())
    return found


def figures(found: Mapping[str, Any]) -> Iterator[str]:
    for name, percent in totals(found).items():
        yield f"{percent:.1f} % of the {name}"
    for path in SEARCH_FILES:
        if path in found["files"]:
            yield f"{found['files'][path]['summary']['percent_covered']:.1f} % of {path}"


def shortfalls(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is below its bar; a file that was not measured is below it."""
    for name, percent in totals(found).items():
        if percent < TOTAL[name]:
            yield f"{name}, less than {TOTAL[name]} %"
    for path in SEARCH_FILES:
        file = found["files"].get(path)
        if file is None or file["summary"]["percent_covered"] < SEARCH:
            yield f"{path}, less than {SEARCH} %"


def totals(found: Mapping[str, Any]) -> dict[str, float]:
    """Return the percent of lines, of branches, and of functions of which at least a line ran."""
    total = found["totals"]
    functions = [
        each["summary"]
        for file in found["files"].values()
        for name, each in file["functions"].items()
        if name and each["summary"]["num_statements"]
    ]
    ran = sum(each["covered_lines"] > 0 for each in functions)
    return {
        "lines": 100 * total["covered_lines"] / max(total["num_statements"], 1),
        "branches": 100 * total["covered_branches"] / max(total["num_branches"], 1),
        "functions": 100 * ran / max(len(functions), 1),
    }
