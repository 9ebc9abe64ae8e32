"""An installation with deputies upgrades: they become members, and their approvals end."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.utils import timezone

from accounts.infra.problems import Problem
from accounts.models import Mailbox, Membership, Role, User
from approvals import guards
from approvals.audit.orders import unsigned_decisions
from approvals.models import ApprovalPolicy, PendingAction
from approvals.worker import maintenance
from tests.approvals.conftest import approve
from tests.conftest import Api, make_api, make_mailbox
from tests.security.people import member
from tests.support.servers.memory import MemoryServer
from tests.support.work import work

STEPS = import_module("approvals.migrations.0032_no_deputies")
pytestmark = pytest.mark.django_db(transaction=True)


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """The tables of a version that had deputies, beside those of this one."""

    apps: Any

    def upgrade(self) -> None:
        """Do what the migration does before it drops the tables."""
        with guards.lift_guards(connection):
            STEPS.make_members(self.apps, None)
            STEPS.void_approvals(self.apps, None)


@pytest.fixture
def earlier(transactional_db: None) -> Iterator[Earlier]:
    before = ("approvals", "0030_archived_events")
    days = ("accounts", "0015_days_of_a_membership")
    steps = MigrationLoader(connection, replace_migrations=False)
    found = steps.project_state([before, days]).apps
    table = found.get_model("approvals", "Deputyship")
    with connection.schema_editor() as editor:
        editor.create_model(table)
        editor.execute("ALTER TABLE approvals_decision ADD COLUMN deputy_of_id bigint NULL")
    yield Earlier(apps=found)
    with connection.schema_editor() as editor:
        editor.execute("ALTER TABLE approvals_decision DROP COLUMN deputy_of_id")
        editor.delete_model(table)


def lend(earlier: Earlier, person: User, deputy: User, **more: Any) -> None:
    now = timezone.now()
    earlier.apps.get_model("approvals", "Deputyship").objects.create(
        person_id=person.pk,
        deputy_id=deputy.pk,
        **{"starts_at": now - timedelta(days=1), "ends_at": now + timedelta(days=3), **more},
    )


def test_deputies_become_members_for_the_period(
    earlier: Earlier,
    alice: User,
    bob: User,
    mailbox: Mailbox,
    server: MemoryServer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    other = make_mailbox("other@lovelace.example", server, alice)
    shared = make_mailbox("shared@lovelace.example", server, bob)
    dora = member(mailbox, "Dora", Role.VIEWER)
    eve = member(shared, "Eve", Role.APPROVER)
    fay = member(shared, "Fay", Role.APPROVER)
    ApprovalPolicy.objects.create(mailbox=other, approver_role="manager")
    past = timezone.now() - timedelta(hours=1)
    lend(earlier, alice, dora)
    lend(earlier, alice, eve, ended_at=past)
    lend(earlier, bob, fay, ends_at=past)
    lend(earlier, eve, dora)

    earlier.upgrade()

    found = Membership.objects.filter(user__in=[dora, eve, fay]).order_by("pk")
    assert [(each.user, each.mailbox, each.role) for each in found] == [
        (dora, mailbox, "viewer"),
        (eve, shared, "approver"),
        (fay, shared, "approver"),
        (dora, other, "approver"),
    ]
    assert [each.last_day is None for each in found] == [True, True, True, False]
    said = capsys.readouterr().out
    assert "dora@lovelace.example no longer decides for alice@lovelace.example in alice@" in said
    assert "other@lovelace.example until" in said


def test_approval_of_a_former_deputy_lets_nothing_leave(
    earlier: Earlier, api: Api, alice: User, mailbox: Mailbox, server: MemoryServer
) -> None:
    dora = member(mailbox, "Dora", Role.APPROVER)
    pat = make_api(member(mailbox, "Pat", Role.PROPOSER), mailbox)
    leaving, waiting = api.propose(), pat.propose()
    approve(leaving, dora)
    ApprovalPolicy.objects.create(mailbox=mailbox, approvals_needed=2)
    approve(waiting, dora)
    with guards.lift_guards(connection):
        decisions = earlier.apps.get_model("approvals", "Decision").objects
        decisions.filter(person_id=dora.pk).update(deputy_of_id=alice.pk)

    earlier.upgrade()
    work()
    maintenance.sweep()

    assert PendingAction.objects.get(pk=leaving).status == "pending"
    assert PendingAction.objects.get(pk=waiting).approvals_given == 0
    assert server.ledger == []
    assert list(unsigned_decisions()) == []
    approve(waiting, alice)
    assert PendingAction.objects.get(pk=waiting).approvals_given == 1
    with pytest.raises(Problem, match="conflict"):
        approve(waiting, dora)  # everybody learns that the earlier approval is void
    approve(waiting, alice)
    assert approve(waiting, dora).status == "approved"
