"""After a restore: an action that may have been handed over is approved only by a person who was
warned, and a mail that is in Sent already does not leave again.
"""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.core.management import CommandError
from django.db import IntegrityError, connection, transaction
from django.db.models import F
from django.db.models.functions import Now

from accounts.infra.database import database_now
from accounts.infra.problems import Problem
from accounts.models import User
from approvals import guards
from approvals.audit import proof
from approvals.core.types import AnsweredFirst, ApprovedAction, LeaseLost, Outcome, Proof
from approvals.gate import decide, lookup, revise
from approvals.gate.execute import execute
from approvals.gate.outcome import record_outcome
from approvals.gate.pauses import restored
from approvals.gate.restore import reconcile_after_restore
from approvals.models import Attempt, PendingAction, Preparation, Revision
from approvals.queues.workers import carry_out
from approvals.worker import dispatch
from tests.approvals.kinds import NOT_NOW, Script, handed_over
from tests.approvals.lost_answers import ACCEPTED, sent_and_not_heard, text_of
from tests.approvals.revisions import ask_back
from tests.approvals.test_restored import after_restore, home, lose
from tests.conftest import HELLO, Api, Reviewer, problem_of
from tests.support.servers.memory import MemoryServer
from tools.sending.kinds import SendMail

__all__ = ["home"]
pytestmark = pytest.mark.django_db(transaction=True)


def put_in_sent(server: MemoryServer, action: PendingAction) -> None:
    source = f"Message-ID: {action.message_id}\r\n\r\nHello.\r\n".encode()
    server.deliver(action.mailbox.address, source, folder="sent", unread=False)


def warning_of(action: PendingAction) -> str:
    """Return the text of the warning that the restore left, or an empty string."""
    action.refresh_from_db()
    warnings = action.current.preview["warnings"]
    return next((each["text"] for each in warnings if each["code"] == "may_have_been_sent"), "")


def test_page_from_before_the_warning_approves_nothing(api: Api, reviewer: Reviewer) -> None:
    """Check a decision that a person makes before, and one while the lookup in Sent still runs."""
    first, waiting = api.propose(subject="First"), api.propose()
    action = PendingAction.objects.get(pk=waiting)
    shown = {"digest": action.digest, "revision": action.revision}
    restored.begin_generation()

    assert reviewer.decide(waiting, "approve", **shown).status_code == 409
    reconciled = {str(each.action_id): each.found for each in reconcile_after_restore()}
    answer = reviewer.decide(waiting, "approve", **shown)

    assert reconciled == {first: "not_in_sent", waiting: "not_in_sent"}
    assert answer.status_code == 409
    assert "older copy" in warning_of(action)
    assert (action.status, action.revision, action.approval_round) == ("pending", 2, 2)
    assert reviewer.decide(waiting, "approve").status_code == 302


def test_database_approves_nothing_that_is_unreconciled(
    approved: Callable[..., PendingAction], server: MemoryServer
) -> None:
    action = approved()
    restored.begin_generation()
    restored.end_restore()

    assert not execute(action.pk, worker="test")
    with pytest.raises(IntegrityError, match="action_unreconciled"), transaction.atomic():
        PendingAction.objects.filter(pk=action.pk).update(
            status="executing", fence=1, lease_until=action.created_at
        )
    assert server.ledger == []


def test_restored_mail_goes_to_a_person_once(
    api: Api, approved: Callable[..., PendingAction]
) -> None:
    first, second = approved(), PendingAction.objects.get(pk=api.propose())
    lose(second.pk)

    said = after_restore()

    assert f"{first.pk}: not found in Sent, waits for a person" in said
    assert f"{second.pk}: not found in Sent, waits for a person, handed over" in said
    assert "send journal says" not in warning_of(first)
    assert "send journal says" in warning_of(second)
    assert (first.status, second.status) == ("pending", "pending")
    assert list(reconcile_after_restore()) == []


def test_mail_in_sent_is_closed_unless_nobody_approved_it(
    api: Api, approved: Callable[..., PendingAction], server: MemoryServer
) -> None:
    first, second = approved(), PendingAction.objects.get(pk=api.propose())
    put_in_sent(server, first)
    put_in_sent(server, second)

    after_restore()

    first.refresh_from_db()
    assert (first.status, first.restored_at) == ("succeeded", None)
    assert "It is in Sent" in warning_of(second)
    assert second.status == "pending"


def test_unknown_mail_says_that_a_later_attempt_may_be_lost(
    approved: Callable[..., PendingAction], reviewer: Reviewer, script: Script
) -> None:
    """Restore a copy in which it is unknown; it was ruled on and sent again since."""
    script.instead = handed_over
    action = approved()
    execute(action.pk, worker="test")

    after_restore(reviewer)

    action.refresh_from_db()
    assert (action.status, action.unreconciled) == ("unknown", False)
    assert action.restored_at
    assert proof.verify() == []
    assert "restored from an older copy" in reviewer.page(str(action.pk)).content.decode()
    before = {"ruling": "not_sent", "fence": "1", "restored": ""}  # the form of an older page
    assert reviewer.decide(str(action.pk), "resolve", **before).status_code == 409
    now = {**before, "restored": decide.mark_of_restore(action)}
    assert reviewer.decide(str(action.pk), "resolve", **now).status_code == 302
    action = PendingAction.objects.get(pk=action.pk)
    assert "restored from an older copy" in warning_of(action)


def test_proof_about_a_known_attempt_says_nothing_of_a_lost_one(
    approved: Callable[..., PendingAction], script: Script
) -> None:
    """The lost database had proven that the first attempt sent nothing, and had begun another."""
    script.instead = handed_over
    action = approved()
    execute(action.pk, worker="test")
    after_restore()
    script.instead = None

    assert record_outcome(action.pk, 1, NOT_NOW, evidence="probe")

    action.refresh_from_db()
    assert (action.status, action.approvals_given) == ("pending", 0)
    assert "a later one may have" in warning_of(action)
    execute(action.pk, worker="test")
    action.refresh_from_db()
    assert action.status == "pending"
    assert proof.verify() == []


def test_program_learns_that_restored_mail_may_have_left(api: Api) -> None:
    waiting = api.propose()
    assert "may_have_been_sent_at" not in api.tool("get_action", action_id=waiting).json()

    after_restore()

    assert api.tool("get_action", action_id=waiting).json()["may_have_been_sent_at"]


def test_mail_in_doubt_is_not_replaced(api: Api, alice: User) -> None:
    """Refuse the replacement, because its page would not say that the mail may have left."""
    waiting = api.propose()
    after_restore()

    with pytest.raises(Problem) as refused:
        ask_back(waiting, alice, "Say Friday, please.")
    assert "may have been sent already" in refused.value.detail
    answer = api.tool("send_email", **{**HELLO, "confirm": True, "replaces": waiting})

    assert (answer.status_code, problem_of(answer)["code"]) == (409, "conflict")
    assert PendingAction.objects.get().status == "pending"


def test_program_does_not_shed_the_doubt_of_a_restore(api: Api, settings: Any) -> None:
    settings.DUPLICATE_WINDOW_SECONDS = 0
    waiting = api.propose()
    after_restore()
    assert api.post(f"/actions/{waiting}/cancel").status_code == 200

    again = PendingAction.objects.get(pk=api.propose())

    assert "An earlier proposal of the same" in warning_of(again)


def test_dead_lease_in_the_copy_needs_no_sweeper(
    approved: Callable[..., PendingAction], script: Script
) -> None:
    """Let an operator run the command although everything else is stopped."""

    def die(_: object) -> None:
        PendingAction.objects.update(lease_until=F("created_at"))
        raise SystemExit

    script.before = die
    action = approved()
    with pytest.raises(SystemExit):
        execute(action.pk, worker="test")

    assert "1 not found in Sent" in after_restore()


def test_restore_waits_for_mail_that_is_leaving(
    approved: Callable[..., PendingAction], script: Script
) -> None:
    refused: list[BaseException] = []

    def restore(_: object) -> None:
        with pytest.raises(CommandError, match="Mail is leaving now") as error:
            after_restore()
        refused.append(error.value)

    script.before = restore
    action = approved()
    execute(action.pk, worker="test")

    assert refused
    action.refresh_from_db()
    assert (action.status, action.restored_at) == ("succeeded", None)


def test_claim_of_an_unreconciled_mail_sends_nothing(
    approved: Callable[..., PendingAction], script: Script, server: MemoryServer
) -> None:
    def mark(_: object) -> None:
        PendingAction.objects.update(unreconciled=True)

    script.before = mark
    action = approved()
    execute(action.pk, worker="test")

    assert server.ledger == []
    assert action.attempts.get().verdict == "not_sent"


def test_possibly_sent_mail_stays_unchanged(api: Api, reviewer: Reviewer, alice: User) -> None:
    """Refuse the edit: otherwise Sent would hold the first wording under the id of the second."""
    waiting = PendingAction.objects.get(pk=api.propose())
    after_restore(reviewer)
    waiting.refresh_from_db()

    with pytest.raises(Problem) as refused:
        revise.edit(
            action_id=waiting.pk,
            person=alice,
            digest=waiting.digest,
            revision=waiting.revision,
            changes={"subject": "Another"},
        )
    assert "may have been sent already" in refused.value.detail


# A worker that began after the approval looks in Sent first


@pytest.fixture
def began_now(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a call after which this process knows nothing yet and notes when it began; the suite
    acts as an old worker.
    """

    def begin() -> None:
        monkeypatch.setattr(restored, "_compared", set())
        monkeypatch.setattr(restored, "_began", [])
        restored.process_start()

    return begin


def only_waiting(api: Api, reviewer: Reviewer, script: Script, begin: Callable[[], None]) -> str:
    """Return a mail that was proposed before this process began, and approved after it."""
    action = api.propose()
    begin()
    reviewer.decide(action, "approve")
    return action


def only_approved(api: Api, reviewer: Reviewer, script: Script, begin: Callable[[], None]) -> str:
    action = api.propose()
    reviewer.decide(action, "approve")
    begin()
    return action


def attempted(api: Api, reviewer: Reviewer, script: Script, begin: Callable[[], None]) -> str:
    """Return a mail whose only attempt in the copy sent nothing."""
    script.instead = lambda _: NOT_NOW
    action = api.propose()
    reviewer.decide(action, "approve")
    execute(UUID(action), worker="test")
    PendingAction.objects.update(not_before=F("created_at"))
    begin()
    return action


@pytest.mark.parametrize("prepare", [only_waiting, only_approved, attempted])
def test_mail_found_in_sent_pauses_everything(
    api: Api,
    reviewer: Reviewer,
    approved: Callable[..., PendingAction],
    script: Script,
    server: MemoryServer,
    began_now: Callable[[], None],
    prepare: Callable[..., str],
) -> None:
    """Restore the home together with the database: only Sent can tell."""
    other = approved(subject="Another")
    action_id = UUID(prepare(api, reviewer, script, began_now))
    put_in_sent(server, PendingAction.objects.get(pk=action_id))
    script.look = SendMail().reconcile

    assert not execute(action_id, worker="test")

    assert restored.reason() == restored.REASONS["sent"]
    assert not execute(other.pk, worker="test")
    assert (PendingAction.objects.get(pk=action_id).status, server.ledger) == ("approved", [])


def test_mail_approved_despite_the_warning_is_closed_as_sent(
    api: Api, reviewer: Reviewer, server: MemoryServer, began_now: Callable[[], None]
) -> None:
    waiting = PendingAction.objects.get(pk=api.propose())
    after_restore(reviewer)
    put_in_sent(server, waiting)
    page = reviewer.page(str(waiting.pk)).content.decode()
    assert "It may have been sent already" in page
    assert reviewer.decide(str(waiting.pk), "approve").status_code == 302
    began_now()

    execute(waiting.pk, worker="test")

    waiting.refresh_from_db()
    assert (waiting.status, server.ledger) == ("succeeded", [])
    assert restored.reason() == ""


def in_doubt(approved: Callable[..., PendingAction], reviewer: Reviewer, script: Script) -> Any:
    """Return a mail whose answer was lost, and that a person ordered again."""
    script.instead = handed_over
    action = approved()
    execute(action.pk, worker="test")
    reviewer.decide(str(action.pk), "resolve", ruling="not_sent", fence="1")
    reviewer.decide(str(action.pk), "approve")
    script.instead = None
    return action


def with_a_draft(approved: Callable[..., PendingAction], *_: object) -> PendingAction:
    """Return a mail of which a draft is in the mailbox: its owner may send it."""
    action = approved()
    Preparation.objects.create(action=action, digest=action.digest, notes={"draft": "1"})
    return action


@pytest.mark.parametrize("prepare", [in_doubt, with_a_draft])
def test_known_way_out_pauses_nothing(
    approved: Callable[..., PendingAction],
    reviewer: Reviewer,
    script: Script,
    server: MemoryServer,
    began_now: Callable[[], None],
    prepare: Callable[..., PendingAction],
) -> None:
    action = prepare(approved, reviewer, script)
    began_now()
    put_in_sent(server, action)
    script.look = SendMail().reconcile

    execute(action.pk, worker="test")

    action.refresh_from_db()
    assert (action.status, server.ledger) == ("succeeded", [])
    assert restored.reason() == ""


def test_one_mail_found_in_sent_is_not_called_two(
    approved: Callable[..., PendingAction],
    reviewer: Reviewer,
    script: Script,
    server: MemoryServer,
    began_now: Callable[[], None],
) -> None:
    """Find it before another copy leaves, and get the late answer to the attempt that sent it."""
    action = in_doubt(approved, reviewer, script)
    began_now()
    put_in_sent(server, action)
    script.look = SendMail().reconcile

    execute(action.pk, worker="test")
    assert "may have it twice" not in text_of(reviewer.page(str(action.pk)))
    record_outcome(action.pk, 1, ACCEPTED, evidence="answer")

    assert "It was sent twice" not in text_of(reviewer.page(str(action.pk)))
    assert [each.verdict for each in action.attempts.all()] == ["accepted"]


def restore_before_the_claim(action: PendingAction, reviewer: Reviewer) -> None:
    """Let a copy from before the first claim come back, and a person approve the mail again."""
    with guards.lift_guards(connection):
        Attempt.objects.all().delete()
        PendingAction.objects.update(status="approved", fence=0, lease_until=None)
    after_restore(reviewer)
    assert reviewer.decide(str(action.pk), "approve").status_code == 302


@pytest.mark.parametrize("answer", ["refused", "not_sent"])
def test_answer_to_a_lost_attempt_is_not_of_the_next(
    approved: Callable[..., PendingAction],
    reviewer: Reviewer,
    script: Script,
    server: MemoryServer,
    home: None,
    answer: Any,
) -> None:
    """The next claim has its number."""
    action = approved()

    def wait(started: ApprovedAction) -> Outcome:
        started.wire_started()
        restore_before_the_claim(action, reviewer)
        script.instead = sent_and_not_heard(server)
        execute(action.pk, worker="test")
        return Outcome(verdict=answer, proof=Proof(kind="answer"), code="busy")

    script.instead = wait
    execute(action.pk, worker="test")

    action.refresh_from_db()
    attempt = action.attempts.get()
    assert (action.status, attempt.fence, attempt.verdict) == ("unknown", 1, "unknown")
    assert len(server.ledger) == 1


def test_proof_about_a_lost_attempt_is_not_of_the_next(
    approved: Callable[..., PendingAction],
    reviewer: Reviewer,
    script: Script,
    server: MemoryServer,
    home: None,
) -> None:
    """The copy comes back while mailhub looks for a lost mail."""
    action = approved()
    script.instead = handed_over
    execute(action.pk, worker="test")
    PendingAction.objects.update(next_probe_at=Now())

    def look(_: ApprovedAction) -> Outcome:
        script.look = lambda _: None
        restore_before_the_claim(action, reviewer)
        script.instead = sent_and_not_heard(server)
        execute(action.pk, worker="test")
        proof = Proof(kind="destroyed", object="1")
        return Outcome(verdict="not_sent", proof=proof, code="draft_destroyed")

    script.look = look
    lookup.look_up(action.pk)

    action.refresh_from_db()
    assert (action.status, action.attempts.get().verdict) == ("unknown", "unknown")
    assert len(server.ledger) == 1


def test_lost_claim_hands_over_nothing_in_place_of_the_next(
    approved: Callable[..., PendingAction],
    reviewer: Reviewer,
    script: Script,
    server: MemoryServer,
    home: None,
) -> None:
    action = approved()

    def wait(lost: ApprovedAction) -> Outcome:
        restore_before_the_claim(action, reviewer)

        def go_on(_: ApprovedAction) -> None:
            with pytest.raises(LeaseLost):
                lost.wire_started()

        script.instead, script.before = None, go_on
        execute(action.pk, worker="test")
        return NOT_NOW

    script.instead = wait
    execute(action.pk, worker="test")

    action.refresh_from_db()
    assert (action.status, len(server.ledger)) == ("succeeded", 1)


@pytest.mark.parametrize("instead", [lambda _: None, sent_and_not_heard])  # the answer comes later
def test_copy_of_another_worker_is_not_called_two(
    approved: Callable[..., PendingAction],
    reviewer: Reviewer,
    script: Script,
    server: MemoryServer,
    began_now: Callable[[], None],
    instead: Callable[[MemoryServer], Any],
) -> None:
    """A worker that begins looks in Sent, and finds what another one has just sent."""
    action = in_doubt(approved, reviewer, script)
    began_now()

    def look(_: ApprovedAction) -> Outcome:
        script.look = lambda _: None  # the other worker looks first
        assert execute(action.pk, worker="other")
        return ACCEPTED

    script.look, script.instead = look, instead(server)
    execute(action.pk, worker="new")
    record_outcome(action.pk, 2, ACCEPTED, evidence="answer")

    page = text_of(reviewer.page(str(action.pk)))
    assert len(server.ledger) == 1
    assert "It was sent twice" not in page
    assert "may have it twice" in page


def test_unreadable_mail_stops_no_mail_behind_it(
    approved: Callable[..., PendingAction], began_now: Callable[[], None]
) -> None:
    first, second = approved(), approved(subject="Second")
    other = Revision.objects.get(action=second).sealed_payload
    Revision.objects.filter(action=first).update(sealed_payload=other)  # no key opens it there
    began_now()

    for _ in range(2):
        (head,) = dispatch.heads()
        carry_out(head.action)

    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.status, second.status) == ("approved", "succeeded")
    assert (first.error or {})["code"] == "not_looked_at"


def test_sent_mail_is_not_withdrawn_for_its_answer(
    approved: Callable[..., PendingAction],
    script: Script,
    server: MemoryServer,
    began_now: Callable[[], None],
) -> None:
    """Sent is searched before the conversation: an answer to a sent mail withdraws nothing."""
    action = approved()
    began_now()
    put_in_sent(server, action)
    script.look = SendMail().reconcile
    answer = AnsweredFirst(
        code="thread_moved", title="Answered", text="x", by="mira@x.example", at=database_now()
    )
    script.seen = lambda _: (answer,)

    execute(action.pk, worker="test")

    action.refresh_from_db()
    assert action.status == "approved"
    assert restored.reason() == restored.REASONS["sent"]


@pytest.mark.parametrize(("known", "lost", "doubt"), [(0, 1, False), (0, 2, True), (1, 1, True)])
def test_copy_in_sent_explains_only_one_attempt(
    approved: Callable[..., PendingAction],
    reviewer: Reviewer,
    script: Script,
    server: MemoryServer,
    home: None,
    known: int,
    lost: int,
    doubt: bool,
) -> None:
    """Some attempts are in doubt in the restored copy, some are in the journal only."""
    action = in_doubt(approved, reviewer, script) if known else approved()
    for fence in range(3 - lost, 3):
        lose(action.pk, fence=fence)
    put_in_sent(server, action)
    script.look = SendMail().reconcile

    assert "closed as sent" in after_restore(reviewer)

    page = text_of(reviewer.page(str(action.pk)))
    assert [each in page for each in ("older copy", "May have been sent (")] == [doubt, doubt]
