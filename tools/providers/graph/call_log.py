"""A log line for each call to Graph, without ids, addresses or content."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from accounts.infra.foreign_text import parse_url

log = structlog.get_logger(__name__)
# A part of Graph's path that is a word of its own. Ids and addresses have other characters, or are
# longer.
WORD = re.compile(r"\$?[A-Za-z]{2,24}|v1\.0|beta")


class Call:
    """One request; `status` is None until the answer begins."""

    status: int | None = None


@contextmanager
def log_call(method: str, url: str) -> Iterator[Call]:
    """Log the call at the end of the block."""
    call, started = Call(), time.monotonic()
    try:
        yield call
    finally:
        log.info(
            "graph_called",
            provider="microsoft",
            method=method,
            endpoint=_endpoint_of(url),
            status=call.status,
            duration_ms=round((time.monotonic() - started) * 1000),
        )


def _endpoint_of(url: str) -> str:
    """Return the path with `*` for each id and address."""
    parts = parse_url(url).path.split("/")
    return "/".join(part if not part or WORD.fullmatch(part) else "*" for part in parts)
