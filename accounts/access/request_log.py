"""The request log: which tool a token called and how the call ended.

It holds no content, no parameters and no addresses. A call does not wait for it: a thread writes the
records of this process together, MAILHUB_REQUEST_LOG_SECONDS later. A crash loses those that were
not written yet, and beyond MOST_WAITING they are only counted. The audit has its own records.
"""

import atexit
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from uuid import UUID

import structlog
from django.conf import settings
from django.db import DatabaseError, InterfaceError, close_old_connections, connection
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from accounts.access.caller import Caller
from accounts.models import ApiToken, RequestRecord

log = structlog.get_logger(__name__)

BATCH = 1000
MOST_WAITING = 10_000
IDLE_SECONDS = 60.0  # then the thread and its connection end


class Writer:
    """The records of this process that wait to be written, and the thread that writes them."""

    def __init__(self) -> None:
        self._waiting: deque[RequestRecord] = deque()
        self._lost = 0
        self._changed = threading.Condition()
        self._writing = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, row: RequestRecord) -> None:
        with self._changed:
            if len(self._waiting) >= MOST_WAITING:
                self._lost += 1
                return
            self._waiting.append(row)
            if self._thread is None:
                self._start()
            self._changed.notify()

    def _start(self) -> None:
        """Start the thread; if the machine has none left, the next record tries again."""
        thread = threading.Thread(target=self._write_all, name="request-log", daemon=True)
        try:
            thread.start()
        except Exception:  # the call that is recorded must be answered anyway
            log.exception("requests_not_recorded", count=0)
        else:
            self._thread = thread

    def flush(self) -> None:
        """Write all records that wait, and return once they are written."""
        with self._writing:
            while rows := self._take():
                _write(rows, known=_find_tokens)

    def _take(self) -> list[RequestRecord]:
        with self._changed:
            if self._lost:
                log.warning("requests_not_recorded", count=self._lost)
                self._lost = 0
            return [self._waiting.popleft() for _ in range(min(len(self._waiting), BATCH))]

    def _write_all(self) -> None:
        try:
            while self._wait_for_work():
                time.sleep(settings.MAILHUB_REQUEST_LOG_SECONDS)
                close_old_connections()
                self.flush()
        finally:
            connection.close()
            with self._changed:
                # After a failure the next call begins another one.
                if self._thread is threading.current_thread():
                    self._thread = None

    def _wait_for_work(self) -> bool:
        """Return False if there was none for a while; then the thread ends."""
        with self._changed:
            if not self._waiting:
                self._changed.wait(IDLE_SECONDS)
            if not self._waiting:
                self._thread = None
            return bool(self._waiting)


def record(
    caller: Caller,
    *,
    tool: str,
    outcome: str,
    duration_ms: int,
    action_id: str | None = None,
    replayed: bool = False,
) -> None:
    """Record one call of a token. If the log cannot be written, the call is answered anyway."""
    if caller.token is None:
        return
    row = RequestRecord(
        at=timezone.now(),
        token=caller.token,
        request_id=request_id(),
        surface=caller.surface,
        tool=tool,
        outcome=outcome,
        action_id=UUID(action_id) if action_id else None,
        replayed=replayed,
        duration_ms=duration_ms,
    )
    if settings.MAILHUB_REQUEST_LOG_SECONDS:
        WRITER.add(row)
    else:
        _write([row])


def _write(rows: Sequence[RequestRecord], *, known: Callable[[set[UUID]], set[UUID]] = set) -> None:
    """Write the records of the `known` tokens."""
    try:
        tokens = known({row.token_id for row in rows})
        RequestRecord.objects.bulk_create([row for row in rows if row.token_id in tokens])
    except (DatabaseError, InterfaceError):  # the connection may be broken
        log.exception("requests_not_recorded", count=len(rows))


def _find_tokens(ids: set[UUID]) -> set[UUID]:
    """Return those of these tokens that have not been deleted."""
    return set(ApiToken.objects.filter(pk__in=ids).values_list("pk", flat=True))


def request_id() -> str:
    """Return the id of the current request in the logs, or an empty text outside of a request."""
    return str(structlog.contextvars.get_contextvars().get("request_id", ""))


def find_old() -> QuerySet[RequestRecord]:
    """Return the records that are older than MAILHUB_RETENTION_DAYS, the oldest first."""
    kept = timedelta(days=settings.MAILHUB_RETENTION_DAYS)
    return RequestRecord.objects.filter(at__lt=Now() - kept).order_by("at")


def forget_old() -> None:
    """Delete a batch of old records."""
    ids = list(find_old().values_list("pk", flat=True)[:BATCH])
    RequestRecord.objects.filter(pk__in=ids).delete()


def _begin_again() -> None:
    """Leave the thread and the records to the parent process, which forked this one."""
    global WRITER
    WRITER = Writer()


WRITER = Writer()
os.register_at_fork(after_in_child=_begin_again)
atexit.register(lambda: WRITER.flush())
