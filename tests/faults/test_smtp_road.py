"""The whole send path on a mailbox whose SMTP server fails: the state, the ledger and the copy in
Sent agree.
"""

import io
import json
from datetime import timedelta
from email import message_from_bytes, policy
from itertools import pairwise
from typing import Any

import pytest
from django.utils import timezone

from accounts.models import Mailbox
from approvals.gate.backoff import PROBES
from approvals.models import Attempt, AuditEvent, PendingAction, Rest
from approvals.worker import maintenance
from tests.approvals.lost_answers import text_of
from tests.conftest import Api, Reviewer
from tests.faults.conftest import World
from tests.faults.smtp_road import (
    Plan,
    _no_long_silence,
    approved,
    drop,
    message_id_of,
    message_ids,
    now_it_is_time,
    reply,
    state,
)
from tests.support.servers.sandbox import ADA, CHARLES, MIRA
from tests.support.work import work

__all__ = ["_no_long_silence", "approved"]
pytestmark = pytest.mark.django_db(transaction=True)
# test_smtp.py has every answer and every moment of a drop, at the provider itself. Here one cell
# stands for a class: its way through the send, to the person.
LONG = pytest.mark.long


def test_approved_mail_leaves_once_and_is_copied_to_sent(
    api: Api, approved: str, world: World
) -> None:
    work()
    work()
    assert state(api, approved) == ("succeeded", None)
    (accepted,) = world.smtp.ledger
    assert (accepted.sender, accepted.recipients) == (ADA, (MIRA, CHARLES, "hidden@copy.example"))
    assert [message_id_of(copy) for copy in world.sent()] == message_ids(world)


# Nothing was sent


@pytest.mark.parametrize(
    ("early", "then"),
    [("451 4.3.0 Busy", "approved"), ("554 5.7.1 No", "failed"), ("250 OK", "approved")],
)
def test_answer_before_the_dot_is_none_to_it(
    api: Api, approved: str, world: World, early: str, then: str
) -> None:
    """The server would accept the mail after the dot, which it does not get."""
    world.smtp.reply(f"354 go ahead\r\n{early}", at="data")
    work()
    assert (state(api, approved)[0], world.smtp.ledger) == (then, [])
    now_it_is_time("not_before")
    work()
    assert len(world.smtp.ledger) == (then == "approved")


@pytest.mark.fault(40, 42, 43)
@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(drop("connect"), id="drop-at-connect"),
        pytest.param(drop("data"), id="drop-before-354"),
        pytest.param(reply("451 4.3.0 later", "dot"), id="451-after-the-dot"),
        pytest.param(
            reply("451 4.2.0 later", "rcpt", recipient=CHARLES), id="451-for-one-of-three"
        ),
        pytest.param(drop("auth"), id="drop-at-auth", marks=LONG),
        pytest.param(drop("rcpt"), id="drop-at-rcpt", marks=LONG),
        pytest.param(reply("421 4.3.2 closing", "dot"), id="421-after-the-dot", marks=LONG),
        pytest.param(reply("421 4.3.2 closing", "mail"), id="421-at-mail", marks=LONG),
    ],
)
def test_certainly_unsent_mail_is_retried_with_the_same_id(
    api: Api, approved: str, world: World, plan: Plan
) -> None:
    plan(world.smtp)
    before = timezone.now()
    work()
    action = PendingAction.objects.get()
    assert action.status == "approved"
    assert action.not_before is not None
    assert before + timedelta(seconds=3) < action.not_before < timezone.now() + timedelta(seconds=5)
    assert world.smtp.ledger == []

    work()  # it is not due yet
    assert action.attempts.count() == 1

    now_it_is_time("not_before")
    work()
    assert state(api, approved) == ("succeeded", None)
    assert message_ids(world) == [action.message_id]
    assert [attempt.verdict for attempt in action.attempts.all()] == ["not_sent", "accepted"]
    assert [message_id_of(copy) for copy in world.sent()] == [action.message_id]


@pytest.mark.fault(42)
def test_421_pauses_the_whole_mailbox(api: Api, approved: str, world: World) -> None:
    world.smtp.reply("421 4.3.2 closing", at="mail")
    work()
    rest = Rest.objects.get()
    assert rest.until > timezone.now() + timedelta(seconds=2)

    PendingAction.objects.update(not_before=timezone.now() - timedelta(seconds=1))
    work()

    assert state(api, approved) == ("approved", "smtp_421")
    assert world.smtp.ledger == []


@pytest.mark.fault(40)
def test_each_failure_waits_longer_than_the_last(api: Api, approved: str, world: World) -> None:
    world.smtp.drop(at="connect", times=4)
    waits = []
    for _ in range(4):
        before = timezone.now()
        work()
        not_before = PendingAction.objects.get().not_before
        assert not_before is not None
        waits.append((not_before - before).total_seconds())
        now_it_is_time("not_before")
    assert all(later > 1.5 * earlier for earlier, later in pairwise(waits))
    work()
    assert state(api, approved) == ("succeeded", None)
    assert len(world.smtp.ledger) == 1


@pytest.mark.fault(40)
def test_refused_password_waits_for_a_reconnect(api: Api, approved: str, world: World) -> None:
    world.smtp.reply("535 5.7.8 no", at="auth", times=None)
    work()
    now_it_is_time("not_before")
    work()
    assert Mailbox.objects.get().status == "needs_reauth"
    assert PendingAction.objects.get().attempts.count() == 1
    assert state(api, approved) == ("approved", "auth_error")

    world.smtp.heal()
    Mailbox.objects.update(status="active")
    work()
    assert state(api, approved) == ("succeeded", None)
    assert len(world.smtp.ledger) == 1


# Lost answers


@pytest.mark.fault(41)
@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(drop("accepted"), id="drop"),
        pytest.param(lambda smtp: smtp.reset(at="accepted"), id="reset", marks=LONG),
        pytest.param(lambda smtp: smtp.silence(at="accepted"), id="silence", marks=LONG),
    ],
)
def test_lost_answer_is_found_in_sent_if_the_server_saves(
    api: Api, approved: str, world: World, plan: Plan
) -> None:
    world.saves_what_it_accepts()
    plan(world.smtp)
    work()
    assert state(api, approved)[0] == "unknown"

    maintenance.reconcile()  # it is not due yet
    assert state(api, approved)[0] == "unknown"
    now_it_is_time("next_probe_at")
    maintenance.reconcile()

    assert state(api, approved) == ("succeeded", None)
    work()
    assert (len(world.smtp.ledger), world.smtp.data_commands) == (1, 1)
    assert [message_id_of(copy) for copy in world.sent()] == message_ids(world)
    assert Attempt.objects.get().evidence == "probe"


@pytest.mark.fault(41)
@pytest.mark.parametrize(
    ("plan", "ledger"),
    [
        pytest.param(drop("accepted"), 1, id="accepted-and-not-saved"),
        pytest.param(drop("dot"), 0, id="not-accepted", marks=LONG),
        pytest.param(reply("rubbish", "accepted"), 1, id="rubbish-as-answer", marks=LONG),
    ],
)
def test_answer_lost_without_trace_stays_unknown(
    api: Api, approved: str, world: World, reviewer: Reviewer, plan: Plan, ledger: int
) -> None:
    plan(world.smtp)
    work()
    for probe in range(1, len(PROBES) + 1):
        assert state(api, approved)[0] == "unknown"
        now_it_is_time()
        maintenance.sweep()
        work()
        assert PendingAction.objects.get().probes == probe
    now_it_is_time()
    maintenance.sweep()
    work()

    action = PendingAction.objects.get()
    assert (action.status, action.probes, action.next_probe_at) == ("unknown", len(PROBES), None)
    assert (len(world.smtp.ledger), world.smtp.data_commands) == (ledger, 1)
    assert world.sent() == []
    assert "That does not mean that it was not sent" in text_of(reviewer.page(approved))


def test_copy_that_a_person_orders_leaves_without_a_sent_folder(
    api: Api, approved: str, world: World, reviewer: Reviewer
) -> None:
    world.sandbox.signed_in(ADA).delete_folder("Sent")
    world.smtp.drop(at="dot")
    work()
    assert reviewer.decide(approved, "resolve", ruling="not_sent", fence="1").status_code == 302
    now_it_is_time("not_before")
    work()
    assert state(api, approved) == ("succeeded", None)
    assert len(world.smtp.ledger) == 1
    assert [message_id_of(copy) for copy in world.sent()] == message_ids(world)


@pytest.mark.fault(41)
def test_failed_lookup_is_no_evidence_and_the_next_finds_it(
    api: Api, approved: str, world: World
) -> None:
    world.saves_what_it_accepts()
    world.smtp.drop(at="accepted")
    work()
    world.imap_goes_down()
    now_it_is_time("next_probe_at")
    maintenance.reconcile()
    assert state(api, approved)[0] == "unknown"

    world.imap_comes_back()
    now_it_is_time("next_probe_at")
    maintenance.reconcile()
    assert state(api, approved)[0] == "succeeded"
    assert world.smtp.data_commands == 1


# The server gives it another Message-ID


@pytest.mark.fault(45)
def test_lost_answer_is_found_under_the_id_of_the_server(
    api: Api, approved: str, world: World
) -> None:
    world.renames_and_saves_what_it_accepts()
    world.smtp.drop(at="accepted")
    work()
    now_it_is_time("next_probe_at")
    maintenance.reconcile()
    work()

    assert state(api, approved) == ("succeeded", None)
    assert PendingAction.objects.get().message_id == message_id_of(world.smtp.ledger[0].content)
    assert Attempt.objects.get().reference == "<renamed@mail.example>"
    assert (len(world.smtp.ledger), len(world.sent())) == (1, 1)


# Definite refusals


@pytest.mark.fault(42, 43)
@pytest.mark.parametrize(
    ("plan", "code"),
    [
        pytest.param(reply("554 5.6.0 no", "dot"), "refused", id="554-after-the-dot"),
        pytest.param(
            reply("552 5.3.4 too big", "dot"), "too_large", id="552-after-the-dot", marks=LONG
        ),
        pytest.param(
            reply("553 5.7.1 not you", "mail"), "send_as_denied", id="553-at-mail", marks=LONG
        ),
        pytest.param(
            reply("550 5.1.1 who", "rcpt", recipient=CHARLES), "invalid_recipient", id="550-for-one"
        ),
    ],
)
def test_permanent_error_fails_the_action_with_its_code(
    api: Api, approved: str, world: World, plan: Plan, code: str
) -> None:
    plan(world.smtp)
    work()
    assert state(api, approved) == ("failed", code)
    now_it_is_time()
    maintenance.sweep()
    work()
    assert state(api, approved) == ("failed", code)
    assert world.smtp.ledger == []
    assert world.sent() == []
    assert PendingAction.objects.get().attempts.count() == 1


@pytest.mark.fault(43)
@pytest.mark.parametrize("answer", ["550 5.1.1 who", "450 4.2.0 later"])
def test_refused_address_is_shown_and_nobody_gets_the_mail(
    api: Api, approved: str, reviewer: Reviewer, world: World, answer: str
) -> None:
    world.smtp.reply(answer, at="rcpt", recipient=CHARLES)
    work()
    error = api.get(f"/actions/{approved}").json()["error"]
    assert CHARLES in error["detail"]
    assert MIRA not in error["detail"]
    assert CHARLES in reviewer.page(approved).content.decode()
    assert (world.smtp.ledger, world.smtp.data_commands) == ([], 0)
    assert Mailbox.objects.get().status == "active"  # the server answers


# Bcc


@pytest.mark.fault(55)
def test_bcc_is_not_in_the_headers_on_the_wire(api: Api, reviewer: Reviewer, world: World) -> None:
    wanted: dict[str, Any] = {
        "to": [MIRA],
        "subject": "Hello",
        "body": "x",
        "bcc": ["hidden@copy.example"],
    }
    shown = api.tool("send_email", **wanted).json()["preview"]
    assert shown["bcc"] == ["hidden@copy.example"]
    assert "hidden@copy.example" in shown["text"]

    action_id = api.propose(**wanted)
    assert "hidden@copy.example" in reviewer.page(action_id).content.decode()
    reviewer.decide(action_id, "approve")
    work()

    (accepted,) = world.smtp.ledger
    assert accepted.recipients == (MIRA, "hidden@copy.example")
    assert b"hidden@copy.example" not in world.smtp.raw_contents[0]
    # As a header: a Message-ID may hold these letters.
    assert b"\r\nbcc" not in world.smtp.raw_contents[0].lower()
    (copy,) = world.sent()
    assert message_from_bytes(copy, policy=policy.default)["Bcc"] == "hidden@copy.example"


# No content in a log


CANARIES = ("canary-subject", "canary-body", "canary-to", "canary-hidden", "canary-reply")


@pytest.mark.fault(56)
@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(lambda smtp: None, id="success"),
        pytest.param(reply("535 5.7.8 canary-reply", "auth"), id="535-at-auth"),
        pytest.param(reply("550 5.1.1 canary-reply", "rcpt"), id="550-at-rcpt"),
        pytest.param(reply("451 4.3.0 canary-reply", "dot"), id="451-after-the-dot"),
        pytest.param(reply("canary-reply", "accepted"), id="rubbish-after-the-dot"),
        pytest.param(drop("connect"), id="drop-at-connect", marks=LONG),
        pytest.param(reply("554 5.6.0 canary-reply", "dot"), id="554-after-the-dot", marks=LONG),
        pytest.param(drop("accepted"), id="drop-after-the-dot", marks=LONG),
    ],
)
def test_no_secret_or_content_is_in_log_error_or_audit(
    api: Api, reviewer: Reviewer, world: World, logged: io.StringIO, plan: Plan
) -> None:
    plan(world.smtp)
    action_id = api.propose(
        to=["canary-to@x.example"],
        bcc=["canary-hidden@x.example"],
        subject="canary-subject",
        body="canary-body",
    )
    reviewer.decide(action_id, "approve")
    work()
    world.imap_goes_down()
    for _ in range(2):
        now_it_is_time()
        maintenance.sweep()
        work()
    world.imap_comes_back()
    api.tool("list_emails")

    lines = logged.getvalue()
    assert "attempt_ended" in lines  # the test listened to the right handler
    for canary in (*CANARIES, world.sandbox.access(ADA).password):
        assert canary not in lines
    stored = json.dumps(
        [
            *PendingAction.objects.values_list("error"),
            *AuditEvent.objects.values_list("event", "data"),
        ]
    )
    for canary in ("canary-subject", "canary-body", "canary-reply"):
        assert canary not in stored
    for event in AuditEvent.objects.all():
        assert "canary" not in json.dumps([event.event, event.actor, event.data])
