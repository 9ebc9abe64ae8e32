"""Actions in the database, and attacks on them by SQL."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models import F
from django.utils import timezone

from approvals.models import Attempt, PendingAction
from tests.conftest import Api
from tests.support.work import work

SOON = timezone.now() + timedelta(days=1)  # after the whole run


def refused(attack: Callable[[], object]) -> str:
    """Run the attack, and return the name of the rule that refused it."""
    with pytest.raises(IntegrityError) as error, transaction.atomic():
        attack()
    return str(error.value).partition(":")[0]


def sql(statement: str, action: PendingAction) -> Callable[[], object]:
    """Return a call that runs a statement in which %s is the action's id, as anybody with database
    access can.
    """

    def run() -> None:
        with connection.cursor() as cursor:
            cursor.execute(statement, [action.pk.hex] * statement.count("%s"))

    return run


def only(action: PendingAction, **values: Any) -> Callable[[], object]:
    return lambda: PendingAction.objects.filter(pk=action.pk).update(**values)


def claimed(action: PendingAction) -> PendingAction:
    """Write the rows of a worker's claim."""
    PendingAction.objects.filter(pk=action.pk).update(
        status="executing", fence=F("fence") + 1, lease_until=SOON
    )
    Attempt.objects.create(
        action=action, fence=action.fence + 1, worker="test", started_at=timezone.now()
    )
    action.refresh_from_db()
    return action


def succeeded(action: PendingAction) -> PendingAction:
    work()
    action.refresh_from_db()
    assert action.status == "succeeded"
    return action


@pytest.fixture
def pending(api: Api) -> PendingAction:
    return PendingAction.objects.get(pk=api.propose())
