"""A worker's work, in the process of the test."""

from approvals.worker import maintenance
from approvals.worker.execution import execute


def work() -> None:
    """Do one round: execute due actions, then the work after them."""
    for action_id in maintenance.due():
        execute(action_id, worker="test")
    maintenance.settle()
