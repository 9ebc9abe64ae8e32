"""A mail that may have been sent is never called unsent, and a second copy needs an order."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now
from django.utils import timezone

from accounts.access.auth import find_caller
from accounts.infra.problems import Problem
from accounts.models import Mailbox, Membership, User
from approvals.core.types import BEFORE_WIRE, ApprovedAction, LeaseLost, Outcome
from approvals.gate import decide, overdue, rulings
from approvals.gate.execute import execute
from approvals.gate.outcome import record_outcome
from approvals.models import ApprovalPolicy, Attempt, PendingAction, Webhook, WebhookDelivery
from approvals.outbound.webhooks import outbox
from approvals.outbound.webhooks.events import body_of
from approvals.worker import maintenance
from tests.approvals.conftest import approve
from tests.approvals.kinds import NOT_NOW, Script
from tests.approvals.lost_answers import ACCEPTED, lost, order_again, sent_and_not_heard, text_of
from tests.conftest import Api, Reviewer
from tests.support.loopback import on_ports
from tests.support.servers.memory import MemoryServer
from tests.support.work import work
from tools.providers.errors import Unavailable

__all__ = ["lost"]
pytestmark = pytest.mark.django_db(transaction=True)


# Messages


def withdrawn(action: PendingAction, api: Api, reviewer: Reviewer, script: Script) -> None:
    assert api.post(f"/actions/{action.pk}/cancel").status_code == 200


def rejected(action: PendingAction, api: Api, reviewer: Reviewer, script: Script) -> None:
    decide.undo(action_id=action.pk, person=reviewer.user)
    assert reviewer.decide(str(action.pk), "reject").status_code == 302


def refused(action: PendingAction, api: Api, reviewer: Reviewer, script: Script) -> None:
    PendingAction.objects.update(not_before=Now())
    script.instead = lambda approved: Outcome(
        verdict="refused", proof=BEFORE_WIRE, code="refused", detail="No."
    )
    work()


def expired(action: PendingAction, api: Api, reviewer: Reviewer, script: Script) -> None:
    PendingAction.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    maintenance.sweep()


@pytest.mark.parametrize(
    ("end", "state"),
    [(withdrawn, "cancelled"), (rejected, "rejected"), (refused, "failed"), (expired, "expired")],
)
def test_ruled_mail_may_have_been_sent_in_every_end_state(
    lost: PendingAction,
    bob: User,
    api: Api,
    reviewer: Reviewer,
    script: Script,
    settings: Any,
    end: Callable[..., None],
    state: str,
) -> None:
    settings.MAILHUB_UNDO_SECONDS = 60
    order_again(lost, bob)

    end(lost, api, reviewer, script)

    told = api.get(f"/actions/{lost.pk}").json()
    assert told["state"] == state
    assert told["may_have_been_sent_at"] == Attempt.objects.get(
        fence=1
    ).wire_started_at.isoformat().replace(  # type: ignore[union-attr]
        "+00:00", "Z"
    )
    page = text_of(reviewer.page(str(lost.pk)))
    assert "May have been sent (" in page
    for lie in ("Not sent", "Nothing was sent", "Nobody received it", "sent nothing"):
        assert lie not in page
    assert "not sent" not in told["next"]
    peek = text_of(reviewer.client.get(f"/actions/{lost.pk}/peek/"))
    assert "May have been sent (" in peek
    late = reviewer.decide(str(lost.pk), "reject")  # the answer to those who come too late
    for said in (peek, text_of(late), api.post(f"/actions/{lost.pk}/cancel").content.decode()):
        assert "not sent" not in said
    by_tool = api.tool("get_action", action_id=str(lost.pk)).json()
    assert by_tool["may_have_been_sent_at"] == told["may_have_been_sent_at"]


def test_mail_in_doubt_is_not_called_unsent_before_a_retry(
    lost: PendingAction, bob: User, api: Api, reviewer: Reviewer, script: Script
) -> None:
    order_again(lost, bob)
    script.instead = lambda approved: NOT_NOW
    work()

    told = api.get(f"/actions/{lost.pk}").json()
    assert (told["state"], "may_have_been_sent_at" in told) == ("approved", True)
    for said in (told["next"], text_of(reviewer.page(str(lost.pk)))):
        assert "not sent" not in said


def test_program_does_not_shed_the_doubt_by_a_new_proposal(
    lost: PendingAction, bob: User, api: Api, reviewer: Reviewer, settings: Any
) -> None:
    settings.MAILHUB_UNDO_SECONDS = 60
    settings.DUPLICATE_WINDOW_SECONDS = 0
    order_again(lost, bob)
    assert api.post(f"/actions/{lost.pk}/cancel").status_code == 200

    again = api.propose()

    page = text_of(reviewer.page(again))
    assert "An earlier proposal of the same may have been carried out." in page
    assert "Approve and send anyway" in page


def test_webhook_says_that_it_may_have_been_sent(
    lost: PendingAction, bob: User, api: Api, settings: Any
) -> None:
    settings.MAILHUB_UNDO_SECONDS = 60
    settings.MAILHUB_LOOPBACK_FOR_PEOPLE = on_ports(9)
    assert api.post("/webhooks", {"url": "http://127.0.0.1:9/hook"}).status_code == 201
    order_again(lost, bob)
    PendingAction.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    overdue.expire()
    outbox.gather()

    delivery = WebhookDelivery.objects.get(event="action.expired")
    listener = find_caller(delivery.webhook.token.user_id, delivery.webhook.token_id)
    assert listener is not None
    before = body_of(delivery, listener)
    assert "may_have_been_sent_at" in json.loads(before)["data"]
    record_outcome(lost.pk, 1, ACCEPTED, evidence="answer")
    assert body_of(delivery, listener) == before
    assert Webhook.objects.count() == 1


def test_next_approver_sees_the_lost_attempt(
    lost: PendingAction, bob: User, reviewer: Reviewer, settings: Any
) -> None:
    settings.MAILHUB_UNDO_SECONDS = 60
    before = (lost.digest, lost.revision)
    order_again(lost, bob)
    decide.undo(action_id=lost.pk, person=bob)

    page = text_of(reviewer.page(str(lost.pk)))
    assert "It may have been sent already" in page
    assert "the recipients get it twice" in page
    with pytest.raises(Problem) as refused:  # a page from before the loss approves nothing
        decide.approve(
            action_id=lost.pk, person=reviewer.user, digest=before[0], revision=before[1]
        )
    assert refused.value.code == "conflict"


def test_never_handed_over_mail_is_not_sent(api: Api, reviewer: Reviewer) -> None:
    action_id = api.propose()
    reviewer.decide(action_id, "reject")
    assert "may_have_been_sent_at" not in api.get(f"/actions/{action_id}").json()
    assert "Nothing was sent." in text_of(reviewer.page(action_id))


# Reconciliation before a second copy


def test_mail_found_in_sent_is_not_sent_again(
    lost: PendingAction, bob: User, script: Script, server: MemoryServer
) -> None:
    order_again(lost, bob)
    script.called.clear()
    script.look = lambda approved: ACCEPTED
    work()

    lost.refresh_from_db()
    assert (lost.status, len(server.ledger)) == ("succeeded", 1)
    assert script.called == ["reconcile"], "nothing is prepared at the provider for a second copy"
    assert Attempt.objects.get(fence=1).evidence == "probe"


def test_nothing_is_resent_if_sent_is_unreadable(
    lost: PendingAction, bob: User, script: Script, server: MemoryServer
) -> None:
    def fails(approved: ApprovedAction) -> None:
        raise Unavailable("unreachable")

    order_again(lost, bob)
    script.look = fails
    work()

    lost.refresh_from_db()
    assert (lost.status, (lost.error or {})["code"], len(server.ledger)) == (
        "approved",
        "not_looked_at",
        1,
    )


@pytest.mark.parametrize("raised", [LeaseLost, RuntimeError])
def test_exception_after_wire_started_is_unknown(
    approved: Callable[..., PendingAction],
    script: Script,
    server: MemoryServer,
    raised: type[Exception],
) -> None:
    def sends_then_fails(approved: ApprovedAction) -> Outcome:
        approved.wire_started()
        server.ledger.append(approved)  # type: ignore[arg-type]
        raise raised

    action = approved()
    script.instead = sends_then_fails
    execute(action.pk, worker="test")
    script.instead = None
    PendingAction.objects.update(not_before=Now())
    work()

    action.refresh_from_db()
    assert (action.status, len(server.ledger)) == ("unknown", 1)


# Permission to order another copy


def test_ruling_about_an_earlier_attempt_is_a_conflict(
    lost: PendingAction, bob: User, script: Script, reviewer: Reviewer, server: MemoryServer
) -> None:
    stale = {"fence": str(lost.fence), "ruling": "not_sent"}
    order_again(lost, bob)
    script.instead = sent_and_not_heard(server)
    work()
    lost.refresh_from_db()
    assert (lost.status, lost.fence) == ("unknown", 2)

    for form in (stale, {"ruling": "not_sent"}, {**stale, "ruling": "sent"}):
        assert reviewer.decide(str(lost.pk), "resolve", **form).status_code == 409
    work()

    assert len(server.ledger) == 2


def test_author_who_cannot_approve_orders_no_second_copy(
    api: Api,
    alice: User,
    bob: User,
    mailbox: Mailbox,
    script: Script,
    server: MemoryServer,
    reviewer: Reviewer,
) -> None:
    ApprovalPolicy.objects.create(mailbox=mailbox, self_approval=False)
    action = approve(api.propose(), bob)
    script.instead = sent_and_not_heard(server)
    execute(action.pk, worker="test")
    script.instead = None

    with pytest.raises(Problem) as refused:
        rulings.resolve(action_id=action.pk, person=alice, ruling="not_sent", fence=1)

    assert refused.value.code == "forbidden"
    page = text_of(reviewer.page(str(action.pk)))
    assert "You cannot send it again." in page
    assert "send it again" not in page.replace("cannot send it again", "")
    assert (
        rulings.resolve(action_id=action.pk, person=bob, ruling="not_sent", fence=1).status
        == "approved"
    )


def test_second_copy_needs_a_manager_if_approval_does(
    lost: PendingAction, bob: User, mailbox: Mailbox
) -> None:
    ApprovalPolicy.objects.create(mailbox=mailbox, approver_role=ApprovalPolicy.Approvers.MANAGER)
    with pytest.raises(Problem) as refused:
        order_again(lost, bob)
    assert refused.value.code == "forbidden"


def test_second_copy_needs_as_many_approvals_as_the_first(
    lost: PendingAction, bob: User, charlie: User, mailbox: Mailbox, server: MemoryServer
) -> None:
    ApprovalPolicy.objects.create(mailbox=mailbox, approvals_needed=2)
    Membership.objects.create(mailbox=mailbox, user=charlie, role="approver")

    ruled = order_again(lost, bob)
    assert (ruled.status, ruled.approvals_given) == ("pending", 1)
    work()
    assert len(server.ledger) == 1
    assert approve(lost.pk, charlie).status == "approved"
    work()
    assert len(server.ledger) == 2
