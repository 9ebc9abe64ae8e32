"""A copy of the database comes back under a running worker, and nothing was handed over since: the
anchored heads show it at the claim.
"""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from accounts.access.caller import Caller
from accounts.models import Mailbox, Membership, User
from approvals import guards
from approvals.gate import decide
from approvals.gate.pauses import restored, switch
from approvals.models import AuditChain, Decision, Pause, PendingAction, Revision
from approvals.models.audit import NO_MAILBOX
from approvals.pages.mailboxes.members import remove_member
from tests.approvals.conftest import approve
from tests.approvals.test_anchors import cut, cut_chain, head_of
from tests.approvals.test_restored import home
from tests.conftest import Api
from tests.support.servers.memory import MemoryServer
from tests.support.work import work

__all__ = ["home"]
pytestmark = pytest.mark.django_db(transaction=True)


def columns_of(action: PendingAction) -> dict[str, Any]:
    action.refresh_from_db()
    names = [field.attname for field in PendingAction._meta.concrete_fields]
    return {name: getattr(action, name) for name in names if name != "id"}


def nothing_leaves(server: MemoryServer) -> None:
    work()

    assert server.ledger == []
    assert restored.reason() == restored.REASONS["anchors"]


@pytest.mark.parametrize("taken_back", ["undone", "cancelled"])
@pytest.mark.parametrize("afterwards", ["nothing", "an approval", "proposals"])
def test_approval_that_was_taken_back_lets_nothing_leave(
    approved: Callable[..., PendingAction],
    server: MemoryServer,
    mailbox: Mailbox,
    api: Api,
    alice: User,
    settings: Any,
    taken_back: str,
    afterwards: str,
) -> None:
    """Take an approval back, lose that, and let the older chain grow as long again, or longer."""
    restored.begin_journal()
    settings.MAILHUB_UNDO_SECONDS = 3600
    other = api.propose(subject="Another")
    action = approved()
    copy, length = columns_of(action), head_of(mailbox).length
    if taken_back == "undone":
        decide.undo(action_id=action.pk, person=alice)
    else:
        decide.cancel(action_id=action.pk, caller=Caller(user=alice, surface="web"))

    cut(mailbox, length)
    with guards.lift_guards(connection):
        Revision.objects.filter(action=action, number__gt=1).delete()
        long_ago = {"not_before": action.created_at, "undo_until": action.created_at}
        PendingAction.objects.filter(pk=action.pk).update(**{**copy, **long_ago})
    assert Decision.objects.filter(verdict="approved").exists()
    if afterwards == "an approval":
        approve(other, alice)
    elif afterwards == "proposals":
        for number in range(6):
            api.propose(subject=f"More {number}")
    PendingAction.objects.filter(status="approved").update(**long_ago)

    nothing_leaves(server)


def test_removed_approver_who_is_back_lets_nothing_leave(
    server: MemoryServer, mailbox: Mailbox, api: Api, alice: User, bob: User, settings: Any
) -> None:
    restored.begin_journal()
    settings.MAILHUB_UNDO_SECONDS = 3600
    action = approve(api.propose(), bob)
    length = head_of(mailbox).length
    seat = Membership.objects.get(user=bob, mailbox=mailbox)
    copy = {each.attname: getattr(seat, each.attname) for each in Membership._meta.concrete_fields}
    remove_member(mailbox=mailbox, person=alice, user_id=bob.pk)

    cut(mailbox, length)
    Membership.objects.create(**copy)
    PendingAction.objects.update(not_before=action.created_at, undo_until=action.created_at)

    nothing_leaves(server)


@pytest.mark.parametrize("everything", [True, False])
def test_lost_pause_lets_nothing_leave(
    approved: Callable[..., PendingAction],
    server: MemoryServer,
    mailbox: Mailbox,
    everything: bool,
) -> None:
    restored.begin_journal()
    approved()
    switch.resume(mailbox=None, actor="user:1")
    switch.pause(mailbox=None, actor="user:1")  # so that both chains have an event in the copy
    switch.resume(mailbox=None, actor="user:1")
    chain = NO_MAILBOX if everything else mailbox.pk
    length = AuditChain.objects.get(pk=chain).length
    switch.pause(mailbox=None if everything else mailbox, actor="user:1")

    cut_chain(chain, length)
    Pause.objects.all().delete()

    nothing_leaves(server)
