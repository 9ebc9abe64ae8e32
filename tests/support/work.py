"""A worker's work, in the process of the test."""

from approvals.gate.execute import execute
from approvals.worker import maintenance


def work() -> None:
    """Do one round: execute due actions, then the work after them."""
    for action_id in maintenance.due():
        execute(action_id, worker="test")
    maintenance.settle()
