"""The command that fills a database to try mailhub at any size."""

from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError
from django.db.models.functions import Now

from accounts.models import Mailbox, User
from approvals.audit.proof import verify
from approvals.core.states import Status
from approvals.gate.execute import execute
from approvals.gate.pauses import switch
from approvals.models import PendingAction
from tests.conftest import Reviewer

pytestmark = pytest.mark.django_db(transaction=True)

SMALL = {"actions": 60, "mailboxes": 41, "held": 6, "pending": 5, "scheduled": 4}


def seed_load(**options: Any) -> None:
    call_command("seed_load", **{**SMALL, **options}, verbosity=0)


@pytest.fixture
def everything() -> Reviewer:
    """Return a person who sees all of a load."""
    seed_load()
    return Reviewer.signed_in(User.objects.get(email="everything@load1.example"))


def test_load_has_the_wanted_size_and_true_audit_chains(everything: Reviewer) -> None:
    counted = {status: PendingAction.objects.filter(status=status).count() for status in Status}

    assert Mailbox.objects.count() == 41
    assert sum(counted.values()) == 60
    assert (counted[Status.PENDING], counted[Status.APPROVED]) == (5, 10)
    assert verify() == []


def test_pages_show_a_load(everything: Reviewer) -> None:
    action = PendingAction.objects.filter(status=Status.PENDING).first()
    assert action is not None
    queue = everything.client.get("/").content.decode()
    page = everything.page(str(action.pk)).content.decode()

    assert queue.count('id="row-') == 5
    assert "thank you for the" in page
    assert "Approve" in page


def test_approved_mail_of_a_load_never_leaves(everything: Reviewer) -> None:
    held = PendingAction.objects.filter(not_before__lt=Now(), status=Status.APPROVED).first()
    assert held is not None
    switch.resume(mailbox=held.mailbox, actor=f"user:{everything.user.pk}")

    execute(held.pk, worker="test")

    held.refresh_from_db()
    assert held.status == Status.PENDING
    assert held.returned is not None
    assert held.returned["code"] == "approval_unproven"


def test_guards_are_back_after_a_load(everything: Reviewer) -> None:
    with pytest.raises(IntegrityError, match="action_frozen"):
        PendingAction.objects.update(kind="another")


def test_database_with_people_is_refused_unless_told_so(alice: User) -> None:
    with pytest.raises(CommandError, match="people already"):
        seed_load()
    assert not PendingAction.objects.exists()

    seed_load(beside_others=True)
    assert PendingAction.objects.count() == 60
    with pytest.raises(CommandError, match="the seed 1 already"):
        seed_load(beside_others=True)
