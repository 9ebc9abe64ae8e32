"""Retention of the audit in the sweep: a second of work in each round, and a new pass each hour."""

import time
from collections.abc import Iterator

import structlog

from approvals.audit import retention

log = structlog.get_logger(__name__)

PASS_SECONDS = 3600.0
ROUND_SECONDS = 1.0  # a file that was begun is finished
_steps: list[Iterator[retention.Step]] = []
_began: dict[str, float] = {}


def archive_events() -> None:
    """Archive old audit events, file by file, for about ROUND_SECONDS."""
    now = time.monotonic()
    if not _steps:
        if now - _began.get("at", -PASS_SECONDS) < PASS_SECONDS:
            return
        _began["at"] = now
        _steps.append(retention.archive_old())
    try:
        for step in _steps[0]:
            if step.stopped in retention.PROBLEMS:
                log.error("audit_not_archived", chain=str(step.chain), code=step.stopped)
            if time.monotonic() - now >= ROUND_SECONDS:
                return
    except BaseException:
        _steps.clear()  # a generator that raised has ended
        raise
    _steps.clear()
