"""If the database refuses one row, the sweep and others continue, and operators see the row."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from approvals import guards
from approvals.models import DeadLetter, PendingAction
from approvals.worker import maintenance
from tests.conftest import Api

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def late(api: Api) -> list[PendingAction]:
    """Return three proposals that expired undecided; the database refuses to expire the first."""
    ids = [api.propose(subject=f"mail {n}") for n in range(3)]
    with guards.lift_guards(connection):
        PendingAction.objects.update(expires_at=timezone.now() - timedelta(hours=1))
    poisoned = PendingAction.objects.order_by("created_at").first()
    assert poisoned is not None
    refuse(
        f"NEW.id = '{poisoned.pk}'"
        if connection.vendor == "postgresql"
        else f"NEW.id = '{poisoned.pk.hex}'"
    )
    return [PendingAction.objects.get(pk=action_id) for action_id in ids]


def refuse(condition: str) -> None:
    """Make the database refuse every change of the rows for which the condition holds."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute(
                "CREATE TRIGGER poison BEFORE UPDATE ON approvals_pendingaction FOR EACH ROW"
                f" WHEN {condition} BEGIN SELECT RAISE(ABORT, 'poison'); END"
            )
            return
        cursor.execute(
            "CREATE OR REPLACE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            f" IF {condition} THEN RAISE EXCEPTION 'poison' USING ERRCODE = 'check_violation'; END IF;"
            " RETURN NEW; END $$"
        )
        cursor.execute(
            "CREATE TRIGGER poison BEFORE UPDATE ON approvals_pendingaction FOR EACH ROW EXECUTE FUNCTION poison()"
        )


def heal() -> None:
    on = " ON approvals_pendingaction" if connection.vendor == "postgresql" else ""
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TRIGGER IF EXISTS poison{on}")


@pytest.fixture(autouse=True)
def _healed(transactional_db: None) -> Any:
    yield
    heal()


def states() -> list[str]:
    return list(PendingAction.objects.order_by("created_at").values_list("status", flat=True))


def test_refused_row_is_set_aside_and_others_continue(late: list[PendingAction]) -> None:
    maintenance.sweep()

    assert states() == ["pending", "expired", "expired"]
    letter = DeadLetter.objects.get()
    assert (letter.chore, letter.action_id, letter.failures) == ("late", late[0].pk, 1)
    assert letter.error == "IntegrityError"
    assert letter.again_at > timezone.now() + timedelta(minutes=4)


def test_row_that_works_again_is_no_longer_set_aside(late: list[PendingAction]) -> None:
    maintenance.sweep()
    heal()
    maintenance.sweep()
    assert states()[0] == "pending"  # it is not due yet
    DeadLetter.objects.update(again_at=timezone.now() - timedelta(seconds=1))

    maintenance.sweep()

    assert states()[0] == "expired"
    assert not DeadLetter.objects.exists()


def test_operators_see_rows_set_aside(late: list[PendingAction], settings: Any) -> None:
    settings.MAILHUB_METRICS_TOKEN = "metrics"
    maintenance.sweep()

    text = Client().get("/metrics", headers={"Authorization": "Bearer metrics"}).content.decode()

    assert "mailhub_dead_letters 1.0" in text
