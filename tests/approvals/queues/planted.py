"""Code that an attacker with access to a broker would like a worker to run.

It leaves a file as a trace.
"""

import pickle
from pathlib import Path
from typing import Any


def leave_trace(path: str) -> None:
    Path(path).touch()


def leave_trace_of_job(job: Any, *_: Any) -> None:
    """Leave a trace as a callback of RQ; the path is the last argument of its job."""
    leave_trace(job.args[-1])


class Trace:
    """An object that leaves the trace when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)

    def __reduce__(self) -> Any:
        return leave_trace, (self._path,)


def pickled(path: Path) -> bytes:
    return pickle.dumps(Trace(path))
