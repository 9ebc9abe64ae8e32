"""The tables of a run, written into docs/operate/reliability.md in place of the previous ones."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.faults.proof import Report

HEADING = "## The last run\n"
ENDED = ("succeeded", "failed", "unknown", "rejected", "cancelled")


def write(page: Path, reports: Sequence[Report]) -> None:
    """Write the tables below the heading; the handwritten text above it is kept."""
    before, found, _ = page.read_text().partition(HEADING)
    assert found, f"{page} has lost its heading"
    page.write_text(before + HEADING + "\n" + tables(reports))


def tables(reports: Sequence[Report]) -> str:
    minutes = ", ".join(f"{report.seconds / 60:.1f}" for report in reports)
    parts = [
        f"Written by `make faults SEED={reports[0].setup.seed}`; minutes of trouble: {minutes}. Nothing broke the"
        " promise, and the databases' guards had nothing to refuse.",
        _table("what came of it", reports, _results),
        _table(
            "how each that was unknown at some time ended", reports, lambda report: report.unknowns
        ),
        _table("what happened to the programs", reports, lambda report: report.blows),
        _table("what left from which kind of mailbox", reports, _kinds),
        _table("what the mail servers did", reports, lambda report: report.faults),
    ]
    return "\n\n".join(parts) + "\n"


def _results(report: Report) -> Counter[str]:
    counted = Counter({"actions": len(report.tables.actions), "ledger entries": len(report.ledger)})
    kept = {action.id for action in report.tables.actions}
    counted.update({"actions lost with a restore": len(_lost(report) - kept)})
    counted.update({"seconds until all was final or unknown": round(report.healing_seconds)})
    return counted + Counter({state: report.states[state] for state in ENDED})


def _lost(report: Report) -> set[str]:
    return {action.id for restore in report.restores for action in restore.lost.actions}


def _kinds(report: Report) -> Counter[str]:
    return Counter(
        f"{report.setup.kind_of(entry.sender)}: in the ledger" for entry in report.ledger
    )


def _table(title: str, reports: Sequence[Report], count: Callable[[Report], Counter[str]]) -> str:
    """Return a table with a row for each kind and a column for each queue."""
    counts = [count(report) for report in reports]
    sorts = list(dict.fromkeys(sort for each in counts for sort in each))
    lines = [
        f"| {title} | {' | '.join(report.setup.queue for report in reports)} |",
        f"| --- |{' --- |' * len(reports)}",
        *(f"| {sort} | {' | '.join(str(each[sort]) for each in counts)} |" for sort in sorts),
    ]
    return "\n".join(lines)
