"""Several threads at once, each with a database connection of its own."""

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from django.db import connections

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
