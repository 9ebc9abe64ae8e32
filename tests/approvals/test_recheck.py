"""A change between the approval and the claim stops the send; the action waits for a person, or for
a later time.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.models.functions import Now
from django.utils import timezone

from accounts.infra.problems import Problem
from accounts.models import ApiToken, Mailbox, Membership, Role, User
from approvals import guards
from approvals.core.types import AnsweredFirst, ApprovedAction, PreviewWarning
from approvals.gate import decide, rulings
from approvals.gate import execute as execution
from approvals.gate.execute import execute, take_claim
from approvals.models import ApprovalPolicy, Attempt, AuditEvent, Decision, PendingAction
from approvals.worker import maintenance
from tests.approvals.conftest import approve
from tests.approvals.kinds import NOT_NOW, Script, handed_over
from tests.conftest import Api, Reviewer
from tests.support.servers.memory import MemoryServer
from tests.support.work import work

pytestmark = pytest.mark.django_db(transaction=True)

MOVED = PreviewWarning(code="thread_moved", text="Mira has written since.", severity="risk")


def moved(approved: ApprovedAction) -> tuple[PreviewWarning, ...]:
    return (MOVED,)


def while_rechecking(change: Callable[[], object]) -> Callable[..., tuple[PreviewWarning, ...]]:
    """Return a recheck that finds nothing, and during which something changes."""

    def seen(_: ApprovedAction) -> tuple[PreviewWarning, ...]:
        change()
        return ()

    return seen


def undo(action_id: str | UUID, person: User) -> None:
    action = PendingAction.objects.get(pk=action_id)
    PendingAction.objects.update(undo_until=timezone.now() + timedelta(minutes=1))
    decide.undo(action_id=action.pk, person=person)


VOID: dict[str, Callable[[], object]] = {
    "approver_lost-removed": lambda: Membership.objects.all().delete(),
    "approver_lost-demoted": lambda: Membership.objects.update(role=Role.PROPOSER),
    "approver_lost-inactive": lambda: User.objects.update(is_active=False),
    "approver_lost-forbidden": lambda: ApprovalPolicy.objects.create(
        mailbox=Mailbox.objects.get(), self_approval=False
    ),
    "mailbox_disconnected": lambda: Mailbox.objects.update(status="disconnected"),
    "token_revoked": lambda: ApiToken.objects.update(revoked_at=Now()),
    "token_narrowed": lambda: ApiToken.objects.update(scopes=["mail:read"]),
    "approval_over": lambda: PendingAction.objects.update(
        approved_until=timezone.now() - timedelta(seconds=1)
    ),
}


@pytest.mark.fault(17)
@pytest.mark.parametrize("change", VOID)
@pytest.mark.parametrize("found_by", ["worker", "claim", "sweeper"])
def test_lost_approval_returns_to_a_person_with_the_reason(
    approved: Callable[..., PendingAction],
    script: Script,
    server: MemoryServer,
    change: str,
    found_by: str,
) -> None:
    action = approved()
    if found_by == "claim":
        script.seen = while_rechecking(VOID[change])
    else:
        VOID[change]()

    if found_by == "sweeper":
        maintenance.sweep()
    else:
        assert execute(action.pk, worker="test") is False

    action.refresh_from_db()
    assert action.status == "pending"
    assert (action.approval_round, action.approvals_given, action.approved_at) == (2, 0, None)
    assert action.returned is not None
    assert action.returned["code"] == change.partition("-")[0]
    assert action.returned["detail"]
    assert not Attempt.objects.exists()
    assert server.ledger == []
    events = AuditEvent.objects.filter(event="returned", action_id=action.pk)
    assert [event.data for event in events] == [{"code": change.partition("-")[0]}]


@pytest.mark.fault(17)
def test_returned_mail_needs_a_new_approval(
    approved: Callable[..., PendingAction], alice: User, server: MemoryServer
) -> None:
    action = approved()
    ApiToken.objects.update(revoked_at=Now())
    maintenance.sweep()

    assert approve(action.pk, alice).returned is None
    work()

    assert len(server.ledger) == 1


@pytest.mark.fault(17)
def test_approval_of_an_old_round_is_void(
    api: Api, mailbox: Mailbox, bob: User, charlie: User, server: MemoryServer
) -> None:
    ApprovalPolicy.objects.create(mailbox=mailbox, approvals_needed=2)
    Membership.objects.create(mailbox=mailbox, user=charlie, role=Role.APPROVER)
    action_id = api.propose()
    approve(action_id, bob)
    approve(action_id, charlie)
    Membership.objects.filter(user=charlie).update(role=Role.PROPOSER)
    maintenance.sweep()
    Membership.objects.filter(user=charlie).update(role=Role.APPROVER)

    assert approve(action_id, bob).status == "pending"
    work()
    assert server.ledger == []
    assert approve(action_id, charlie).status == "approved"


@pytest.mark.fault(17)
def test_old_approval_does_not_replace_a_lost_one(
    api: Api, mailbox: Mailbox, bob: User, server: MemoryServer
) -> None:
    ApprovalPolicy.objects.create(mailbox=mailbox, approvals_needed=2)
    dora, emil = (User.objects.create_user(f"{name}@lovelace.example") for name in ("dora", "emil"))
    for person in (dora, emil):
        Membership.objects.create(mailbox=mailbox, user=person, role=Role.APPROVER)
    action_id = api.propose()
    approve(action_id, bob)
    approve(action_id, dora)
    undo(action_id, bob)
    approve(action_id, bob)
    assert approve(action_id, emil).status == "approved"
    Membership.objects.filter(user=emil).delete()

    work()
    maintenance.sweep()

    assert server.ledger == []
    assert PendingAction.objects.get().approval_round == 3


@pytest.mark.fault(17)
def test_disconnected_mailbox_gets_no_approval(api: Api, alice: User) -> None:
    action_id = api.propose()
    Mailbox.objects.update(status="disconnected")

    with pytest.raises(Problem) as refused:
        approve(action_id, alice)

    assert refused.value.code == "conflict"
    assert PendingAction.objects.get().status == "pending"


@pytest.mark.fault(17)
def test_mail_that_cannot_leave_in_time_expires(
    approved: Callable[..., PendingAction], server: MemoryServer
) -> None:
    action = approved()
    PendingAction.objects.update(expires_at=timezone.now() - timedelta(seconds=1))

    assert execute(action.pk, worker="test") is False
    maintenance.sweep()

    action.refresh_from_db()
    assert (action.status, action.error and action.error["code"]) == ("expired", "expired_approval")
    assert server.ledger == []


@pytest.mark.fault(17)
@pytest.mark.parametrize("status", ["paused", "needs_reauth"])
def test_unavailable_mailbox_makes_mail_wait(
    approved: Callable[..., PendingAction], server: MemoryServer, status: str
) -> None:
    action = approved()
    Mailbox.objects.update(status=status)

    assert execute(action.pk, worker="test") is False
    maintenance.sweep()
    action.refresh_from_db()
    assert (action.status, action.approval_round) == ("approved", 1)
    assert server.ledger == []

    Mailbox.objects.update(status="active")
    work()
    assert len(server.ledger) == 1


@pytest.mark.fault(17)
def test_pause_during_the_recheck_makes_mail_wait(
    approved: Callable[..., PendingAction], script: Script, server: MemoryServer
) -> None:
    action = approved()
    script.seen = while_rechecking(lambda: call_command("pause"))

    assert execute(action.pk, worker="test") is False

    action.refresh_from_db()
    assert (action.status, action.approval_round) == ("approved", 1)
    assert not Attempt.objects.exists()
    assert server.ledger == []


@pytest.mark.fault(17)
def test_moved_thread_sends_it_back_with_warnings(
    approved: Callable[..., PendingAction], script: Script, alice: User, server: MemoryServer
) -> None:
    action = approved()
    script.seen = moved

    work()

    action.refresh_from_db()
    assert (action.status, action.approval_round, script.called) == ("pending", 2, [])
    told = {
        "code": "thread_moved",
        "text": "Mira has written since.",
        "title": "",
        "severity": "risk",
        "mark": "",
    }
    assert action.returned == {
        "code": "thread_moved",
        "detail": "Mira has written since.",
        "warnings": [told],
    }
    assert action.current.preview["warnings"][-1] == told
    approve(action.pk, alice)  # approved with the warning in view: the same finding is not new
    work()
    assert len(server.ledger) == 1


def test_finding_at_the_approval_is_shown_before_it_counts(
    api: Api, script: Script, alice: User, bob: User, reviewer: Reviewer, server: MemoryServer
) -> None:
    action_id = api.propose()
    before = PendingAction.objects.get()
    script.seen = moved

    refused = reviewer.decide(action_id, "approve")

    assert refused.status_code == 409
    assert b"Mira has written since." in refused.content
    action = PendingAction.objects.get()
    assert (action.status, action.digest, action.revision) == ("pending", before.digest, 2)
    assert not Decision.objects.exists()
    with pytest.raises(Problem):  # Bob has the earlier page open
        decide.approve(
            action_id=action.pk, person=bob, digest=before.digest, revision=before.revision
        )

    assert reviewer.decide(action_id, "approve").status_code == 302
    work()
    assert len(server.ledger) == 1
    assert api.get(f"/actions/{action_id}").json()["review"] == {
        "by": str(alice),
        "verdict": "approved",
    }


def test_failed_recheck_blocks_no_approval(
    api: Api, script: Script, alice: User, server: MemoryServer
) -> None:
    def unreachable(approved: ApprovedAction) -> tuple[PreviewWarning, ...]:
        raise ConnectionError

    script.seen = unreachable

    assert approve(api.propose(), alice).status == "approved"
    work()
    assert server.ledger == []  # it is checked again before it is sent


def test_failed_recheck_makes_the_mail_wait(
    approved: Callable[..., PendingAction], script: Script, server: MemoryServer
) -> None:
    def unreachable(approved: ApprovedAction) -> tuple[PreviewWarning, ...]:
        raise ConnectionError

    script.seen = unreachable
    action = approved()

    work()

    action.refresh_from_db()
    assert (action.status, action.error and action.error["code"]) == ("approved", "not_looked_at")
    assert action.not_before is not None
    assert action.not_before > timezone.now()
    assert script.called == []
    assert server.ledger == []

    script.seen = lambda approved: ()
    PendingAction.objects.update(not_before=timezone.now() - timedelta(seconds=1))
    work()
    action.refresh_from_db()
    assert (action.status, action.error, len(server.ledger)) == ("succeeded", None, 1)


def test_claim_covers_only_the_rechecked_round(
    approved: Callable[..., PendingAction], script: Script, alice: User, server: MemoryServer
) -> None:
    """Undo and approve again during the recheck: the new round needs its own recheck."""

    def meanwhile(approved: ApprovedAction) -> tuple[PreviewWarning, ...]:
        script.seen = lambda approved: ()
        undo(approved.id, alice)
        approve(approved.id, alice)
        return ()

    action = approved()
    script.seen = meanwhile

    assert execute(action.pk, worker="test") is False
    assert server.ledger == []
    assert execute(action.pk, worker="test") is True
    assert len(server.ledger) == 1


def test_claim_is_refused_after_another_worker_has_tried(
    approved: Callable[..., PendingAction], script: Script, server: MemoryServer
) -> None:
    """Claim only the state that was read: the other may have left a mail to look up first."""
    action = approved()

    def meanwhile(_: ApprovedAction) -> tuple[PreviewWarning, ...]:
        script.seen, script.instead = lambda approved: (), lambda approved: NOT_NOW
        assert execute(action.pk, worker="another")
        script.instead = None
        PendingAction.objects.update(not_before=Now())
        return ()

    script.seen = meanwhile

    assert execute(action.pk, worker="test") is False
    assert server.ledger == []
    assert execute(action.pk, worker="test") is True


def test_claim_is_refused_after_the_content_was_replaced(
    approved: Callable[..., PendingAction], script: Script, bob: User, server: MemoryServer
) -> None:
    """Replace the checked content and its approval, as the owner of the database can."""
    action = approved()
    held = Membership.objects.get(user=bob)

    def meanwhile(_: ApprovedAction) -> tuple[PreviewWarning, ...]:
        with guards.lift_guards(connection):
            PendingAction.objects.update(digest="d" * 64)
            Decision.objects.create(
                action=action,
                person=bob,
                verdict="approved",
                revision=1,
                approval_round=1,
                digest="d" * 64,
                created_at=timezone.now(),
                membership=held.pk,
            )
        return ()

    script.seen = meanwhile

    assert execute(action.pk, worker="test") is False
    assert server.ledger == []


def test_finding_about_an_old_round_does_not_void_a_new_one(
    approved: Callable[..., PendingAction], script: Script, alice: User
) -> None:
    def meanwhile(approved: ApprovedAction) -> tuple[PreviewWarning, ...]:
        script.seen = lambda approved: ()
        undo(approved.id, alice)
        approve(approved.id, alice)
        return (MOVED,)

    action = approved()
    script.seen = meanwhile

    assert execute(action.pk, worker="test") is False

    action.refresh_from_db()
    assert (action.status, action.approval_round, action.returned) == ("approved", 2, None)


def test_approval_lasts_as_long_as_the_mailbox_says(
    approved: Callable[..., PendingAction], mailbox: Mailbox, settings: Any
) -> None:
    settings.MAILHUB_UNDO_SECONDS = 60
    ApprovalPolicy.objects.create(mailbox=mailbox, approval_minutes=15)

    action = approved()

    assert action.not_before is not None
    assert action.approved_until == action.not_before + timedelta(minutes=15)


def test_mail_that_may_not_leave_now_is_not_claimed_unchecked(
    approved: Callable[..., PendingAction], script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check a mailbox that is busy when the worker looks, and free a moment later."""
    first, second = approved(), approved(subject="Second")
    asked: list[ApprovedAction] = []

    def seen(action: ApprovedAction) -> tuple[PreviewWarning, ...]:
        asked.append(action)
        return ()

    script.seen = seen
    assert take_claim(PendingAction.objects.select_related("mailbox").get(pk=first.pk), "another")
    monkeypatch.setattr(execution, "take_claim", lambda *_: pytest.fail("claimed"))

    assert not execute(second.pk, worker="test")

    assert asked == []


def test_answer_withdraws_nothing_that_may_have_left(api: Api, alice: User, script: Script) -> None:
    action = approve(api.propose(), alice)
    script.instead = handed_over
    assert execute(action.pk, worker="test")
    rulings.resolve(action_id=action.pk, person=alice, ruling="not_sent", fence=1)
    script.seen = lambda approved: (
        AnsweredFirst(code="thread_moved", text="Mira has written since.", by="mira@b.example"),
    )

    PendingAction.objects.update(not_before=timezone.now() - timedelta(seconds=1))
    execute(action.pk, worker="test")

    action.refresh_from_db()
    assert (action.status, action.returned and action.returned["code"]) == (
        "pending",
        "thread_moved",
    )
