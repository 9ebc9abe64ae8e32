"""What a worker does, in the process of the test."""

from approvals.worker import maintenance
from approvals.worker.execution import execute


def work() -> None:
    """One round: carry out what is due, then the work after it."""
    for action_id in maintenance.due():
        execute(action_id, worker="test")
    maintenance.settle()
