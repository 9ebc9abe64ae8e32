"""A worker's work, in the process of the test."""

from uuid import UUID

from approvals.gate.execute import execute
from approvals.worker import dispatch, maintenance


def offered() -> list[UUID]:
    """Return what workers are offered: the first mail of each mailbox that may leave now."""
    return [head.action for head in dispatch.heads()]


def work() -> None:
    """Do one round: execute each action that is offered, once, then the work after them."""
    tried: set[UUID] = set()
    while mails := [each for each in offered() if each not in tried]:
        tried.update(mails)
        for action_id in mails:
            execute(action_id, worker="test")
    maintenance.settle()
