"""The CPU time of some work: how it grows with its size, and in proportion to plain Python. The
speed of the machine does not matter.
"""

import gc
import time
from collections.abc import Callable
from typing import Any

GROWTH = 8.0  # in time, from one size to one four times as large: 4 is linear, 16 is quadratic
UNNOTICED = 0.003  # seconds; the caches of a processor decide about shorter times
CHEAP = 0.2  # seconds; shorter work is not compared
A_MILLION = 1_000_000  # steps of plain Python: a fiftieth of a second


def check_growth(work: Callable[[int], object], size: int) -> None:
    """Fail if `work(size)` takes more time than in proportion to `work(size // 4)`.

    The best of two counts; if it is too slow, of ten, because other processes make a machine slow
    for moments.
    """
    quarter, whole = _measure(work, size, 2)
    if whole > max(UNNOTICED, quarter * GROWTH):
        quarter, whole = _measure(work, size, 10)
    said = f"{quarter * 1000:.1f} ms for {size // 4:,}, {whole * 1000:.1f} ms for {size:,}"
    assert whole <= max(UNNOTICED, quarter * GROWTH), said


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the CPU time of this thread in a call.

    The garbage collector waits: its time depends on the objects of all earlier tests.
    """
    gc.disable()
    try:
        began = time.thread_time()
        work()
        return time.thread_time() - began
    finally:
        gc.enable()


def is_expensive(work: Callable[[], Any], *, millions: int) -> bool:
    """Return True if a call takes more CPU time than so many million steps of plain Python."""
    if (took := cpu_seconds(work)) < CHEAP:
        return False
    steps = min(cpu_seconds(lambda: sum(number for number in range(A_MILLION))) for _ in range(3))
    return took > millions * steps and min(cpu_seconds(work) for _ in range(3)) > millions * steps


def _measure(work: Callable[[int], object], size: int, times: int) -> tuple[float, float]:
    quarter, whole = float("inf"), float("inf")
    for _ in range(times):
        quarter = min(quarter, cpu_seconds(lambda: work(size // 4)))
        whole = min(whole, cpu_seconds(lambda: work(size)))
    return quarter, whole
