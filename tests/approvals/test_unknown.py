"""The answer was lost: mailhub looks in Sent, never repeats by itself, and lets a person rule."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import get_args

import pytest
from django.db.models import F
from django.utils import timezone

from accounts.infra.problems import Problem
from accounts.models import Mailbox, Membership, Role, User
from approvals.core.types import BEFORE_WIRE, ApprovedAction, Outcome
from approvals.gate import decide, rulings
from approvals.gate.backoff import PROBES
from approvals.gate.execute import execute
from approvals.models import Attempt, AuditEvent, PendingAction
from approvals.worker import maintenance
from tests.approvals.kinds import Script, handed_over
from tests.approvals.lost_answers import text_of
from tests.conftest import Api, Reviewer
from tests.support.concurrently import all_at_once
from tests.support.people.browser import set_rules
from tests.support.servers.memory import MemoryServer
from tests.support.work import work

pytestmark = pytest.mark.django_db(transaction=True)

FOUND = Outcome(
    verdict="accepted",
    receipt={"at": "2026-05-04T12:00:00Z", "recipient_count": 1, "provider": "memory"},
)


@pytest.fixture
def unknown(approved: Callable[..., PendingAction], script: Script) -> PendingAction:
    action = approved()
    script.instead = handed_over
    execute(action.pk, worker="test")
    script.instead = None
    script.called.clear()
    action.refresh_from_db()
    assert action.status == "unknown"
    return action


def test_ruling_needs_each_file_opened_as_an_approval_does(
    approved: Callable[..., PendingAction], script: Script, mailbox: Mailbox, alice: User
) -> None:
    action = approved(attachments=[{"name": "a.pdf", "content_base64": "JVBERi0xLjQK"}])
    script.instead = handed_over
    execute(action.pk, worker="test")
    set_rules(alice, mailbox, files_opened=True)
    approver = Reviewer.signed_in(alice)

    def order_again() -> int:
        answer = approver.decide(str(action.pk), "resolve", ruling="not_sent", fence="1")
        return int(answer.status_code)

    assert order_again() == 409
    (file,) = action.current.payload["attachments"]
    approver.client.get(f"/actions/{action.pk}/files/{file['sha256']}/")
    assert order_again() == 302


def lost_since(action: PendingAction, seconds: float) -> None:
    """Set the time of the loss to so long ago, and make the next lookup due."""
    Attempt.objects.filter(action=action).update(
        ended_at=timezone.now() - timedelta(seconds=seconds)
    )
    PendingAction.objects.filter(pk=action.pk).update(
        next_probe_at=timezone.now() - timedelta(seconds=1)
    )


def next_look(action: PendingAction) -> float | None:
    """Return the seconds from the loss to the next lookup, or None."""
    action.refresh_from_db()
    lost_at = Attempt.objects.get(action=action).ended_at
    assert lost_at is not None
    return (action.next_probe_at - lost_at).total_seconds() if action.next_probe_at else None


def fails(approved: ApprovedAction) -> Outcome | None:
    raise ConnectionError("the search is down")


@pytest.mark.fault(39)
def test_unknown_is_looked_up_on_schedule_and_never_resent(
    unknown: PendingAction, script: Script, server: MemoryServer
) -> None:
    assert next_look(unknown) == pytest.approx(PROBES[0], abs=1)
    for due, following in zip(PROBES, [*PROBES[1:], None], strict=True):
        maintenance.sweep()  # not due yet
        lost_since(unknown, due)
        maintenance.sweep()
        assert next_look(unknown) == (following and pytest.approx(following, abs=2))

    work()
    assert script.called == ["reconcile"] * len(PROBES)
    assert unknown.status == "unknown"
    assert server.ledger == []


@pytest.mark.fault(39)
def test_failed_or_late_search_leaves_it_unknown(unknown: PendingAction, script: Script) -> None:
    script.look = fails
    for _ in range(len(PROBES) + 3):
        lost_since(unknown, 7200)
        maintenance.sweep()
        assert next_look(unknown) is not None
        assert unknown.status == "unknown"

    script.look = lambda approved: FOUND
    lost_since(unknown, 7200)
    maintenance.sweep()

    unknown.refresh_from_db()
    assert unknown.status == "succeeded"
    assert set(script.called) == {"reconcile"}
    assert Attempt.objects.get().evidence == "probe"


def test_worker_death_does_not_end_the_lookups(unknown: PendingAction, script: Script) -> None:
    class Killed(BaseException):
        pass

    def dies(approved: ApprovedAction) -> Outcome | None:
        raise Killed

    script.look = dies
    PendingAction.objects.update(probes=len(PROBES) - 1)
    lost_since(unknown, 3600)
    with pytest.raises(Killed):
        maintenance.reconcile()

    assert next_look(unknown) is not None


@pytest.mark.parametrize("made", [0, len(PROBES)])
def test_several_sweepers_look_up_once(unknown: PendingAction, script: Script, made: int) -> None:
    PendingAction.objects.update(probes=made)
    lost_since(unknown, 15)

    all_at_once([maintenance.reconcile] * 4)

    assert script.called == ["reconcile"]


def test_mailbox_to_reconnect_is_not_asked(unknown: PendingAction, script: Script) -> None:
    Mailbox.objects.update(status="needs_reauth")
    lost_since(unknown, 15)

    maintenance.sweep()

    assert script.called == []


def test_proof_of_no_send_allows_a_resend(
    unknown: PendingAction, script: Script, server: MemoryServer
) -> None:
    script.look = lambda approved: Outcome(
        verdict="not_sent", proof=BEFORE_WIRE, code="draft_still_there"
    )
    lost_since(unknown, 15)
    maintenance.sweep()
    PendingAction.objects.update(not_before=timezone.now() - timedelta(seconds=1))
    work()

    unknown.refresh_from_db()
    assert (unknown.status, unknown.fence) == ("succeeded", 2)
    assert len(server.ledger) == 1


def test_person_can_rule_that_it_was_sent(
    unknown: PendingAction, bob: User, server: MemoryServer
) -> None:
    rulings.resolve(action_id=unknown.pk, person=bob, ruling="sent", fence=unknown.fence)

    unknown.refresh_from_db()
    assert unknown.status == "succeeded"
    assert unknown.receipt is not None
    assert unknown.receipt["ruled_by"] == "Bob"
    assert unknown.receipt["recipient_count"] == 1
    attempt = Attempt.objects.get()
    assert (attempt.verdict, attempt.evidence) == ("accepted", "person")
    event = AuditEvent.objects.get(event="outcome_accepted")
    assert (event.actor, event.data["evidence"]) == (f"user:{bob.pk}", "person")
    work()
    assert server.ledger == []
    for view in ("preview", "history"):  # a person's word is not the word of the mail server
        page = Reviewer.signed_in(bob).client.get(f"/actions/{unknown.pk}/?view={view}")
        shown = text_of(page)
        assert "Bob said so." in shown
        assert "The mail server accepted" not in shown
        assert "accepted by the mail server" not in shown


def test_mail_ruled_not_sent_leaves_with_the_same_id(
    unknown: PendingAction, bob: User, server: MemoryServer
) -> None:
    message_id = unknown.message_id

    ruled = rulings.resolve(
        action_id=unknown.pk, person=bob, ruling="not_sent", fence=unknown.fence
    )

    assert (ruled.status, ruled.next_probe_at, ruled.approval_round) == ("approved", None, 2)
    attempt = Attempt.objects.get()
    assert (attempt.verdict, attempt.evidence) == ("not_sent", "person")
    assert AuditEvent.objects.get(event="outcome_not_sent").actor == f"user:{bob.pk}"
    work()
    assert len(server.ledger) == 1
    assert f"Message-ID: {message_id}".encode() in server.ledger[0].source


def test_second_loss_is_looked_up_as_often_as_the_first(
    unknown: PendingAction, script: Script, bob: User
) -> None:
    PendingAction.objects.update(probes=len(PROBES), next_probe_at=None)
    rulings.resolve(action_id=unknown.pk, person=bob, ruling="not_sent", fence=1)
    script.instead = handed_over
    work()

    unknown.refresh_from_db()
    assert (unknown.status, unknown.fence, unknown.probes) == ("unknown", 2, 0)


def test_ruling_of_not_sent_can_be_undone_like_an_approval(
    unknown: PendingAction, bob: User, server: MemoryServer, settings: object
) -> None:
    settings.MAILHUB_UNDO_SECONDS = 60  # type: ignore[attr-defined]
    rulings.resolve(action_id=unknown.pk, person=bob, ruling="not_sent", fence=unknown.fence)
    work()
    assert server.ledger == []

    assert decide.undo(action_id=unknown.pk, person=bob).status == "pending"


def test_expired_action_is_not_ordered_again(
    unknown: PendingAction, bob: User, server: MemoryServer
) -> None:
    PendingAction.objects.update(expires_at=F("created_at"))

    with pytest.raises(Problem) as refused:
        rulings.resolve(action_id=unknown.pk, person=bob, ruling="not_sent", fence=unknown.fence)
    work()

    assert (refused.value.code, server.ledger) == ("conflict", [])
    assert (
        rulings.resolve(action_id=unknown.pk, person=bob, ruling="sent", fence=1).status
        == "succeeded"
    )


def test_expired_mail_that_was_not_sent_can_be_ended(
    unknown: PendingAction, alice: User, api: Api, server: MemoryServer
) -> None:
    PendingAction.objects.update(expires_at=F("created_at"))
    approver = Reviewer.signed_in(alice)
    assert "It did not happen: withdraw it" in approver.page(str(unknown.pk)).content.decode()

    ruled = approver.decide(str(unknown.pk), "resolve", ruling="withdrawn", fence="1")
    maintenance.sweep()
    work()

    assert ruled.status_code == 302
    told = api.get(f"/actions/{unknown.pk}").json()
    assert told["state"] == "cancelled"
    assert told["next"].startswith("A person withdrew it")
    assert "may_have_been_sent_at" in told  # a person's word is no proof
    assert server.ledger == []


def test_ruling_renews_an_expired_approval(
    unknown: PendingAction, bob: User, server: MemoryServer
) -> None:
    PendingAction.objects.update(approved_until=F("created_at"))

    rulings.resolve(action_id=unknown.pk, person=bob, ruling="not_sent", fence=unknown.fence)
    maintenance.sweep()
    work()

    assert len(server.ledger) == 1


@pytest.mark.parametrize(
    ("role", "ruling"),
    [(None, "sent"), *((Role.PROPOSER, ruling) for ruling in get_args(rulings.Ruling))],
)
def test_approver_role_is_needed_to_rule(
    unknown: PendingAction,
    mailbox: Mailbox,
    charlie: User,
    role: Role | None,
    ruling: rulings.Ruling,
) -> None:
    if role:
        Membership.objects.create(mailbox=mailbox, user=charlie, role=role)

    with pytest.raises(Problem) as refused:
        rulings.resolve(action_id=unknown.pk, person=charlie, ruling=ruling, fence=unknown.fence)

    assert refused.value.code == "forbidden"
    unknown.refresh_from_db()
    assert unknown.status == "unknown"
    assert (
        AuditEvent.objects.filter(event="ruling_refused", actor=f"user:{charlie.pk}").count() == 1
    )


@pytest.mark.parametrize("ruling", ["sent", "not_sent"])
def test_known_outcome_takes_no_ruling(
    approved: Callable[..., PendingAction], alice: User, ruling: str
) -> None:
    for _ in range(2):
        action = approved() if not PendingAction.objects.exists() else PendingAction.objects.get()
        with pytest.raises(Problem) as refused:
            rulings.resolve(action_id=action.pk, person=alice, ruling=ruling, fence=action.fence)  # type: ignore[arg-type]
        assert refused.value.code == "conflict"
        work()


def test_one_of_two_rulings_at_once_wins(
    unknown: PendingAction, alice: User, bob: User, server: MemoryServer
) -> None:
    def rule(person: User, ruling: str) -> str:
        try:
            rulings.resolve(action_id=unknown.pk, person=person, ruling=ruling, fence=unknown.fence)  # type: ignore[arg-type]
        except Problem as problem:
            return problem.code
        return ruling

    said = all_at_once([partial(rule, alice, "sent"), partial(rule, bob, "not_sent")])
    work()

    assert said.count("conflict") == 1
    assert len(server.ledger) == said.count("not_sent")
