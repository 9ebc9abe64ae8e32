"""The send path in one process, through REST and the review page, on the in-memory mail server."""

from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db.models.functions import Now
from django.utils import timezone

from approvals.gate import overdue
from approvals.gate.execute import execute
from approvals.models import PendingAction
from tests.conftest import HELLO, Api, Reviewer
from tests.support.servers.memory import MemoryServer
from tests.support.work import work

pytestmark = pytest.mark.django_db(transaction=True)


def test_approved_mail_is_sent_once_and_reported(
    api: Api, reviewer: Reviewer, server: MemoryServer
) -> None:
    action_id = api.propose()
    work()
    assert server.ledger == []

    assert reviewer.decide(action_id, "approve").status_code == 302
    work()
    work()

    assert [envelope.recipients for envelope in server.ledger] == [("mira@northwind.example",)]
    action: dict[str, Any] = api.get(f"/actions/{action_id}").json()
    assert action["state"] == "succeeded"
    assert action["receipt"]["recipient_count"] == 1
    assert set(action["receipt"]) == {"at", "recipient_count", "provider"}
    assert len(server.folder("alice@lovelace.example", "sent")) == 1
    assert PendingAction.objects.get().attempts.count() == 1


def test_preview_stores_nothing_and_names_everything(api: Api, server: MemoryServer) -> None:
    answer = api.tool(
        "send_email", **HELLO, cc=["bob@lovelace.example"], bcc=["eve@lovelace.example"]
    )

    assert answer.status_code == 200
    result = answer.json()
    preview = result["preview"]
    assert result["status"] == "preview"
    assert (preview["to"], preview["cc"], preview["bcc"]) == (
        ["mira@northwind.example"],
        ["bob@lovelace.example"],
        ["eve@lovelace.example"],
    )
    assert preview["subject"] == "Hello"
    assert preview["body_excerpt"] == HELLO["body"]
    assert preview["body_chars"] == len(HELLO["body"])
    for said in (
        "3 recipients",
        "mira@northwind.example",
        "bob@lovelace.example",
        "eve@lovelace.example",
        "Hello",
    ):
        assert said in preview["text"]
    assert preview["text"].endswith("Nothing has been sent.")
    assert len(preview["digest"]) == 64
    assert not PendingAction.objects.exists()
    assert server.ledger == []


def test_proposal_is_accepted_with_a_status_address(api: Api) -> None:
    answer = api.tool("send_email", **HELLO, confirm=True)

    assert answer.status_code == 202
    action = answer.json()["action"]
    assert answer["Location"] == f"/api/v1/actions/{action['id']}"
    assert int(answer["Retry-After"]) > 0
    assert answer.json()["status"] == action["state"] == "pending"
    assert action["review_url"].startswith("http://")
    assert action["next"].startswith("A person has not decided yet.")
    assert api.get(f"/actions/{action['id']}").json() == action


def test_rejected_mail_never_leaves_and_agent_sees_the_reason(
    api: Api, reviewer: Reviewer, server: MemoryServer
) -> None:
    action_id = api.propose()

    assert reviewer.decide(action_id, "reject", note="Not this week.").status_code == 302
    work()

    assert server.ledger == []
    action = api.get(f"/actions/{action_id}").json()
    assert action["state"] == "rejected"
    assert action["review"] == {"by": "Alice", "verdict": "rejected", "note": "Not this week."}


def test_undone_approval_must_be_given_again(
    api: Api, reviewer: Reviewer, server: MemoryServer, settings: Any
) -> None:
    settings.MAILHUB_UNDO_SECONDS = 60
    action_id = api.propose()
    reviewer.decide(action_id, "approve")
    work()
    assert server.ledger == []

    assert reviewer.decide(action_id, "undo").status_code == 302
    assert api.get(f"/actions/{action_id}").json()["state"] == "pending"
    work()
    assert server.ledger == []

    settings.MAILHUB_UNDO_SECONDS = 0
    reviewer.decide(action_id, "approve")
    work()
    assert len(server.ledger) == 1


def test_cancelled_mail_cannot_be_approved(
    api: Api, reviewer: Reviewer, server: MemoryServer
) -> None:
    action_id = api.propose()

    assert api.post(f"/actions/{action_id}/cancel").json()["state"] == "cancelled"
    assert api.post(f"/actions/{action_id}/cancel").status_code == 200
    assert reviewer.decide(action_id, "approve").status_code == 409
    work()

    assert server.ledger == []


def test_sent_mail_cannot_be_cancelled(api: Api, reviewer: Reviewer) -> None:
    action_id = api.propose()
    reviewer.decide(action_id, "approve")
    work()

    assert api.post(f"/actions/{action_id}/cancel").status_code == 409
    assert api.get(f"/actions/{action_id}").json()["state"] == "succeeded"


def test_unreachable_mailbox_is_transient_and_marked(
    api: Api, reviewer: Reviewer, server: MemoryServer
) -> None:
    server.reachable = False

    answer = api.tool("list_emails")

    assert answer.status_code == 503
    assert answer.json()["code"] == "transient"
    assert int(answer["Retry-After"]) == answer.json()["retry_after"]
    assert "cannot be reached" in reviewer.client.get("/mailboxes/").content.decode()
    server.reachable = True
    assert api.tool("list_emails").status_code == 200
    assert "cannot be reached" not in reviewer.client.get("/mailboxes/").content.decode()


def test_refused_sign_in_is_an_auth_error_without_retry(api: Api, server: MemoryServer) -> None:
    server.accepts_login = False
    assert api.tool("list_emails").status_code == 424
    server.accepts_login = True

    answer = api.tool("list_emails")

    assert (answer.status_code, answer.json()["code"]) == (424, "auth_error")


def test_mail_for_a_mailbox_that_is_down_leaves_once_later(
    api: Api, reviewer: Reviewer, server: MemoryServer
) -> None:
    action_id = api.propose()
    server.reachable = False
    reviewer.decide(action_id, "approve")
    work()
    assert api.get(f"/actions/{action_id}").json()["state"] == "approved"

    server.reachable = True
    PendingAction.objects.update(not_before=Now())
    work()

    assert api.get(f"/actions/{action_id}").json()["state"] == "succeeded"
    assert len(server.ledger) == 1


def test_scheduled_mail_waits_and_does_not_expire_early(
    api: Api, reviewer: Reviewer, server: MemoryServer
) -> None:
    moment = timezone.now() + timedelta(days=3)
    action_id = api.propose(send_at=moment.isoformat())
    reviewer.decide(action_id, "approve")
    action = PendingAction.objects.get()
    work()
    assert not execute(action.pk, worker="test")  # as after a notification that is too early
    overdue.expire()
    assert server.ledger == []

    action.refresh_from_db()
    assert action.not_before == moment
    assert action.expires_at > moment
    PendingAction.objects.update(not_before=timezone.now() - timedelta(seconds=1))
    work()
    assert len(server.ledger) == 1


def test_time_too_far_in_the_future_is_refused(api: Api) -> None:
    answer = api.tool(
        "send_email",
        **HELLO,
        send_at=(timezone.now() + timedelta(days=31)).isoformat(),
        confirm=True,
    )
    assert answer.json()["errors"][0]["field"] == "send_at"


def test_paused_mailbox_is_reported_and_its_mail_waits(
    api: Api, reviewer: Reviewer, server: MemoryServer
) -> None:
    action_id = api.propose()
    reviewer.decide(action_id, "approve")
    call_command("pause", "--mailbox", "alice@lovelace.example", stdout=StringIO())
    work()
    assert server.ledger == []
    assert api.tool("list_mailboxes").json()["mailboxes"][0]["status"] == "paused"

    call_command("resume", "--mailbox", "alice@lovelace.example", stdout=StringIO())
    work()
    assert len(server.ledger) == 1
    assert api.tool("list_mailboxes").json()["mailboxes"][0]["status"] == "active"
