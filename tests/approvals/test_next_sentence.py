"""A program learns why, and what it does next: in every state, and after every transition."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from accounts.models import Mailbox, Membership, Role, User
from approvals.core.states import TRANSITIONS, Status
from approvals.core.types import (
    BEFORE_WIRE,
    AnsweredFirst,
    ApprovedAction,
    Failure,
    Outcome,
    PreviewWarning,
    Response,
)
from approvals.gate import decide, overdue, rulings, send_back, settle, watches
from approvals.gate.execute import execute
from approvals.gate.outcome import record_outcome
from approvals.models import PendingAction, Watch
from approvals.reports import guidance
from approvals.reports.steps import EVENTS, ORDERED_AGAIN
from approvals.worker import maintenance
from tests.approvals.conftest import approve
from tests.approvals.kinds import NOT_NOW, Script, handed_over
from tests.approvals.revisions import ask_back, edit
from tests.conftest import Api, Reviewer, make_api
from tests.support.people.browser import set_rules
from tests.support.work import offered
from tools.sending.kinds import DRAFT_CHANGED, DRAFT_WAS_SENT

pytestmark = pytest.mark.django_db(transaction=True)
RECEIPT = {"at": "2026-05-04T12:00:00Z", "recipient_count": 1, "provider": "memory"}

Move = Callable[["Stage"], object]


class Stage:
    """An action, the people around it, and a provider that a test tells what to answer."""

    def __init__(self, api: Api, alice: User, script: Script) -> None:
        self.api, self.alice, self.script = api, alice, script
        self.action = api.propose()

    def approve(self) -> "Stage":
        approve(self.action, self.alice)
        return self

    def send(self, outcome: Callable[[ApprovedAction], Outcome] | None = None) -> "Stage":
        self.script.instead = outcome
        for action in offered():
            execute(action, worker="test")
        return self

    def lose(self) -> "Stage":
        self.approve()
        self.send(handed_over)
        return self

    def find(self, outcome: Outcome) -> "Stage":
        self.script.look = lambda approved: outcome
        PendingAction.objects.update(next_probe_at=timezone.now() - timedelta(seconds=1))
        maintenance.reconcile()
        return self

    def late(self) -> "Stage":
        PendingAction.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
        overdue.expire()
        return self

    def rule(self, ruling: Any) -> "Stage":
        fence = PendingAction.objects.get(pk=self.action).fence
        rulings.resolve(action_id=self.row.pk, person=self.alice, ruling=ruling, fence=fence)
        return self

    @property
    def row(self) -> PendingAction:
        return PendingAction.objects.get(pk=self.action)

    @property
    def told(self) -> dict[str, Any]:
        answer: dict[str, Any] = self.api.get(f"/actions/{self.action}").json()
        return answer


@pytest.fixture
def stage(api: Api, alice: User, script: Script) -> Stage:
    return Stage(api, alice, script)


REFUSED = Outcome(verdict="refused", proof=BEFORE_WIRE, code="refused", detail="No")


def refused(approved: ApprovedAction) -> Outcome:
    return REFUSED


def not_now(approved: ApprovedAction) -> Outcome:
    return NOT_NOW


def moved(approved: ApprovedAction) -> tuple[PreviewWarning, ...]:
    return (PreviewWarning(code="thread_moved", text="A newer message.", title="It moved on."),)


def return_it(stage: Stage) -> None:
    stage.approve()
    stage.script.seen = moved
    stage.send()


def answer_it(stage: Stage) -> None:
    stage.approve()
    stage.script.seen = lambda approved: (
        AnsweredFirst(
            code="thread_moved",
            text="A newer message.",
            by="mira@northwind.example",
            at=timezone.now(),
        ),
    )
    stage.send()


def bounce_it(stage: Stage) -> None:
    send_it(stage)
    failed = (Failure(address="mira@northwind.example"),)
    response = Response(sort="returned", names=(), by="", at=None, failures=failed)
    watches.record(stage.row.pk, response, now=timezone.now())


def hear_nothing(stage: Stage, code: str = "") -> None:
    send_it(stage)
    be_silent(stage, code)


def hear_of_a_bounce_only(stage: Stage) -> None:
    bounce_it(stage)
    be_silent(stage)


def hear_late(stage: Stage, first: Move = hear_nothing) -> None:
    first(stage)
    response = Response(sort="answer", names=(), by="mira@northwind.example", at=timezone.now())
    watches.record(stage.row.pk, response, now=timezone.now())


def be_silent(stage: Stage, code: str = "") -> None:
    now = timezone.now()
    Watch.objects.update(follow_up_at=now)
    watches.record_silence(stage.row.pk, now=now, code=code)


def hear_little(stage: Stage) -> None:
    hear_nothing(stage, "incomplete")


def send_it(stage: Stage) -> None:
    stage.approve()
    stage.send()
    maintenance.settle()


def replace_it(stage: Stage) -> None:
    stage.api.propose(replaces=stage.action, subject="Better")


def undo_it(stage: Stage) -> None:
    set_rules(stage.alice, stage.row.mailbox, undo_seconds=600)
    stage.approve()
    decide.undo(action_id=stage.row.pk, person=stage.alice)


def accept_late(stage: Stage) -> None:
    """Have the mail sent again, and then learn that the first attempt was accepted."""
    stage.lose()
    stage.rule("not_sent")
    record_outcome(stage.row.pk, 1, Outcome(verdict="accepted", receipt=RECEIPT), evidence="answer")


def lose_the_approver(stage: Stage) -> None:
    bob = User.objects.create_user("bob@lovelace.example")
    member = Membership.objects.create(mailbox=stage.row.mailbox, user=bob, role=Role.APPROVER)
    approve(stage.action, bob)
    member.delete()
    send_back.send_back()


def order_again_of_two(stage: Stage) -> None:
    """Have another copy ordered where two people must approve it."""
    stage.lose()
    for name in ("bob", "dora"):
        person = User.objects.create_user(f"{name}@lovelace.example")
        Membership.objects.create(mailbox=stage.row.mailbox, user=person, role=Role.APPROVER)
    set_rules(stage.alice, stage.row.mailbox, approvals_needed=2, self_approval=False)
    fence = stage.row.fence
    rulings.resolve(action_id=stage.row.pk, person=person, ruling="not_sent", fence=fence)


def give_up_settling(stage: Stage) -> None:
    stage.approve()
    stage.send()
    stage.script.after = failing
    PendingAction.objects.update(
        settle_tries=settle.TRIES - 1, settle_at=timezone.now() - timedelta(seconds=1)
    )
    maintenance.settle()


def failing(approved: ApprovedAction) -> None:
    raise RuntimeError("no copy today")


ACCEPTED = Outcome(verdict="accepted", receipt=RECEIPT)
# An attempt may have sent it, and the state does not say so.
DOUBTFUL = ("returned, ordered_again",)
STEPS: list[tuple[str, Move, str, str]] = [
    ("proposed", lambda s: None, "pending", "proposed"),
    ("edited", lambda s: edit(s.action, s.alice, subject="Better"), "pending", "edited"),
    (
        "changes",
        lambda s: ask_back(s.action, s.alice, "Shorter"),
        "pending",
        "changes_requested",
    ),
    ("approved", lambda s: s.approve(), "approved", "approved"),
    (
        "edited and approved",
        lambda s: (edit(s.action, s.alice, subject="Better"), s.approve()),
        "approved",
        "approved, edited",
    ),
    ("approver lost", lose_the_approver, "pending", "returned"),
    ("ordered again of two", order_again_of_two, "pending", "returned, ordered_again"),
    ("unsettled", give_up_settling, "succeeded", "unsettled"),
    ("undone", undo_it, "pending", "undone"),
    ("returned", return_it, "pending", "returned, thread_moved"),
    ("retrying", lambda s: (s.approve(), s.send(not_now)), "approved", "retrying"),
    ("succeeded", lambda s: (s.approve(), s.send()), "succeeded", "succeeded"),
    (
        "edited and sent",
        lambda s: (edit(s.action, s.alice, subject="Better"), s.approve(), s.send()),
        "succeeded",
        "succeeded, edited",
    ),
    ("failed", lambda s: (s.approve(), s.send(refused)), "failed", "failed"),
    (
        "draft changed",
        lambda s: (s.approve(), s.send(lambda approved: DRAFT_CHANGED)),
        "failed",
        "failed, draft_changed",
    ),
    (
        "draft sent",
        lambda s: (s.approve(), s.send(lambda approved: DRAFT_WAS_SENT)),
        "failed",
        "failed, draft_was_sent",
    ),
    ("unknown", lambda s: s.lose(), "unknown", "unknown"),
    ("found", lambda s: (s.lose(), s.find(ACCEPTED)), "succeeded", "succeeded"),
    ("found refused", lambda s: (s.lose(), s.find(REFUSED)), "failed", "failed"),
    ("found unsent", lambda s: (s.lose(), s.find(NOT_NOW)), "approved", "retrying"),
    ("ruled sent", lambda s: (s.lose(), s.rule("sent")), "succeeded", "succeeded, ruled"),
    ("accepted late", accept_late, "succeeded", "succeeded"),
    (
        "rejected",
        lambda s: Reviewer.signed_in(s.alice).decide(s.action, "reject", note="Too early"),
        "rejected",
        "rejected",
    ),
    (
        "withdrawn",
        lambda s: s.api.post(f"/actions/{s.action}/cancel"),
        "cancelled",
        "cancelled",
    ),
    (
        "withdrawn by a person",
        lambda s: Reviewer.signed_in(s.alice).decide(s.action, "cancel"),
        "cancelled",
        "cancelled, person",
    ),
    ("bounced", bounce_it, "succeeded", "bounced"),
    ("unanswered", hear_nothing, "succeeded", "unanswered"),
    ("returned and unanswered", hear_of_a_bounce_only, "succeeded", "unanswered, bounced"),
    ("answered late", hear_late, "succeeded", "unanswered, answered"),
    (
        "returned and answered late",
        lambda s: hear_late(s, hear_of_a_bounce_only),
        "succeeded",
        "bounced",
    ),
    ("searched in part", hear_little, "succeeded", "unanswered, incomplete"),
    ("answered first", answer_it, "cancelled", "cancelled, withdrawn_answered"),
    (
        "withdrawn after approval",
        lambda s: (s.approve(), s.api.post(f"/actions/{s.action}/cancel")),
        "cancelled",
        "cancelled",
    ),
    ("expired", lambda s: s.late(), "expired", "expired"),
    (
        "expired after approval",
        lambda s: (s.approve(), s.late()),
        "expired",
        "expired, approved",
    ),
    ("replaced", replace_it, "superseded", "superseded"),
]


@pytest.mark.parametrize(
    ("move", "state", "situation"),
    [pytest.param(*each[1:], id=each[0]) for each in STEPS],
)
def test_action_says_what_to_do_next(stage: Stage, move: Move, state: str, situation: str) -> None:
    move(stage)
    told = stage.told
    assert told["state"] == state
    in_doubt = f" {guidance.IN_DOUBT}" if situation in DOUBTFUL else ""
    leaves, when = stage.row.not_before, ""
    if state == "approved" and leaves and leaves > timezone.now():
        when = f" It leaves at {leaves:%Y-%m-%dT%H:%M:%SZ} at the earliest."
    words = {"done": "sent", "by": "mira@northwind.example"}
    assert told["next"] == guidance.SENTENCES[situation] % words + in_doubt + when


@pytest.mark.static
def test_every_sentence_and_every_transition_has_a_row() -> None:
    shown = {situation for *_, situation in STEPS}
    assert set(guidance.SENTENCES) == shown | {"leaving"}
    assert {state for _, _, state, _ in STEPS} | {"executing"} == set(Status.values)
    reached = set(EVENTS.values())
    assert all(targets <= reached for targets in TRANSITIONS.values())
    assert set(guidance.FIRST_OF_STATE) == set(Status)


@pytest.mark.static
@pytest.mark.parametrize("situation", sorted(guidance.SENTENCES))
def test_no_sentence_calls_a_mail_in_doubt_unsent(situation: str) -> None:
    name, _, code = situation.partition(", ")
    if EVENTS[f"action.{name}"] in guidance.CERTAIN or code == ORDERED_AGAIN:
        return  # it says what is known, or what a person said
    told = guidance.NOT_DONE.sub("", guidance.SENTENCES[situation])
    assert not re.search(r"not (%\(done\)s|be |send it(?! again))", told)


def test_action_that_leaves_says_so(stage: Stage) -> None:
    seen: list[dict[str, Any]] = []
    stage.script.before = lambda approved: seen.append(stage.told)
    stage.approve()
    stage.send()
    assert (seen[0]["state"], seen[0]["next"]) == (
        "executing",
        "It is being sent now. Do not propose it again.",
    )


def test_return_names_its_reason_and_the_warning(stage: Stage) -> None:
    return_it(stage)
    assert stage.told["returned"] == {
        "code": "thread_moved",
        "detail": "A newer message.",
        "warnings": [{"code": "thread_moved", "text": "It moved on. A newer message."}],
    }


def test_sequence_counts_the_steps(stage: Stage) -> None:
    assert stage.told["sequence"] == 1
    stage.approve()
    stage.send()
    assert stage.told["sequence"] == 4  # proposed, approved, leaving, succeeded


def test_edit_shows_old_and_new_values_to_a_reader(stage: Stage) -> None:
    edit(stage.action, stage.alice, subject="Better", to="mira@northwind.example\njo@b.example")
    changes = {each["field"]: each for each in stage.told["changes"]}
    assert changes["subject"] == {"field": "subject", "before": "Hello", "after": "Better"}
    assert "jo@b.example" in changes["to"]["after"]
    assert set(stage.told["review"]["changed"]) == set(changes)


def test_values_of_an_edit_need_the_right_to_read(alice: User, mailbox: Mailbox) -> None:
    blind = make_api(alice, mailbox, name="blind", scopes=["mail:propose"])
    action = blind.propose()
    edit(action, alice, subject="Better")
    told = blind.get(f"/actions/{action}").json()
    assert "changes" not in told
    assert told["review"]["changed"] == ["subject"]


def test_long_values_are_cut(stage: Stage) -> None:
    edit(stage.action, stage.alice, body="x" * 5000)
    (change,) = stage.told["changes"]
    assert (len(change["after"]), change["truncated"]) == (2000, True)


def test_kind_that_is_no_mail_is_carried_out() -> None:
    command = PendingAction(kind="m365.command")
    told = guidance.advise(command, Status.SUCCEEDED, (), in_doubt=False)
    assert told == "It was carried out. Do not propose it again."
