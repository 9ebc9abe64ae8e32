"""Several threads at once, each with a database connection of its own."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from django.db import connection, connections

T = TypeVar("T")


def all_at_once(calls: Sequence[Callable[[], T]], *, seconds: float = 60) -> list[T]:
    """Start the calls together, and return their answers in order.

    Raise the exception of a call that failed.
    """
    gate = threading.Barrier(len(calls))
    answers: dict[int, T] = {}
    errors: list[BaseException] = []

    def run(index: int, call: Callable[[], T]) -> None:
        try:
            gate.wait(seconds)
            answers[index] = call()
        except BaseException as error:
            errors.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=pair, daemon=True) for pair in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
        assert not thread.is_alive(), "a call did not come back"
    if errors:
        raise errors[0]
    return [answers[index] for index in range(len(calls))]


def until_a_lock_is_waited_for() -> None:
    """Return as soon as a connection to this database of PostgreSQL waits for another one."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    give_up_at = time.monotonic() + 120
    with connection.cursor() as cursor:
        while time.monotonic() < give_up_at:
            cursor.execute("SELECT pg_stat_clear_snapshot()")
            cursor.execute(waiting)
            if cursor.fetchone()[0]:
                return
    raise AssertionError("nobody waits")
