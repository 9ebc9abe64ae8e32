"""The same key always leads to the same action; another request with that key is refused."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from accounts.models import Mailbox, User
from approvals.gate import overdue
from approvals.models import AuditEvent, IdempotencyRecord, PendingAction
from tests.conftest import HELLO, Api, Reviewer, make_api, make_mailbox, problem_of
from tests.support.concurrently import all_at_once
from tests.support.servers.memory import MemoryServer
from tests.support.work import work

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]
ASK: dict[str, Any] = {**HELLO, "confirm": True}


@pytest.mark.fault(1)
def test_sixteen_calls_with_one_key_make_one_action(api: Api) -> None:
    answers = all_at_once([lambda: Api(secret=api.secret).tool("send_email", key="k", **ASK)] * 16)

    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["action"]["id"] for answer in answers}) == 1
    assert sum(answer.get("Idempotency-Replayed") == "true" for answer in answers) == 15
    assert PendingAction.objects.count() == 1
    assert AuditEvent.objects.filter(event="created").count() == 1


@pytest.mark.fault(2)
def test_same_key_with_another_request_is_refused(api: Api) -> None:
    action_id = api.propose(key="k")
    before = PendingAction.objects.values().get()

    answer = api.tool("send_email", key="k", **{**ASK, "body": "Something else"})

    assert answer.status_code == 422
    assert problem_of(answer)["code"] == "idempotency_mismatch"
    assert PendingAction.objects.values().get() == before
    assert str(before["id"]) == action_id


@pytest.mark.fault(3)
@pytest.mark.parametrize("key", ["", "k" * 256, "a\tb", "a\nb", "a\x01b", "schlüssel"])
def test_invalid_key_is_refused(api: Api, key: str) -> None:
    answer = api.tool("send_email", **ASK, idempotency_key=key)

    assert answer.status_code == 400
    assert problem_of(answer)["code"] == "invalid_input"
    assert not PendingAction.objects.exists()


@pytest.mark.fault(3)
@pytest.mark.parametrize("key", ["", "k" * 256])
def test_invalid_key_header_is_refused(api: Api, key: str) -> None:
    assert api.tool("send_email", key=key, **ASK).status_code == 400
    assert not PendingAction.objects.exists()


@pytest.mark.fault(3)
def test_header_and_body_must_not_disagree(api: Api) -> None:
    assert api.tool("send_email", key="a", **ASK, idempotency_key="b").status_code == 400
    assert not PendingAction.objects.exists()
    assert api.tool("send_email", key="a", **ASK, idempotency_key="a").status_code == 202


@pytest.mark.fault(3)
def test_proposals_without_a_key_are_new_and_warned_about(api: Api) -> None:
    assert api.propose() != api.propose()
    PendingAction.objects.update(created_at=timezone.now() - timedelta(hours=1))

    warnings = api.tool("send_email", **HELLO).json()["warnings"]

    assert "possible_duplicate" in {warning["code"] for warning in warnings}


def test_quoted_key_is_the_same_key(api: Api) -> None:
    first = api.tool("send_email", key='"8e03978e"', **ASK).json()["action"]["id"]
    assert api.tool("send_email", key="8e03978e", **ASK).json()["action"]["id"] == first


@pytest.mark.fault(4)
def test_key_is_separate_for_proposer_mailbox_and_token(
    api: Api, foreign_api: Api, alice: User, mailbox: Mailbox, server: MemoryServer
) -> None:
    second_mailbox = make_mailbox("sales@lovelace.example", server, alice)
    others = [
        foreign_api,
        make_api(alice, second_mailbox, name="agent 2"),
        make_api(alice, mailbox, name="another agent"),
    ]
    first = api.propose(key="k")

    for other in others:
        answer = other.tool("send_email", key="k", **{**ASK, "body": "Not the same at all"})
        assert answer.status_code == 202
        assert "Idempotency-Replayed" not in answer
        assert answer.json()["action"]["id"] != first


def test_rotated_token_keeps_its_keys(api: Api, alice: User) -> None:
    first = api.propose(key="k")

    answer = Api(secret=alice.tokens.get().rotate()).tool("send_email", key="k", **ASK)

    assert answer.json()["action"]["id"] == first


@pytest.mark.fault(5)
@pytest.mark.parametrize("ending", ["sent", "rejected", "expired", "purged"])
def test_key_answers_with_the_current_state(
    api: Api, reviewer: Reviewer, server: MemoryServer, ending: str
) -> None:
    action_id = api.propose(key="k")
    match ending:
        case "rejected":
            reviewer.decide(action_id, "reject")
        case "expired":
            PendingAction.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
            overdue.expire()
        case "sent" | "purged":
            reviewer.decide(action_id, "approve")
            work()
    if ending == "purged":
        PendingAction.objects.update(finished_at=timezone.now() - timedelta(days=400))
        overdue.purge()
        assert PendingAction.objects.get().current.payload == {}

    answer = api.tool("send_email", key="k", **ASK)
    work()

    assert answer.status_code == 200
    assert answer["Idempotency-Replayed"] == "true"
    assert answer.json()["action"]["id"] == action_id
    assert answer.json()["status"] == {"sent": "succeeded", "purged": "succeeded"}.get(
        ending, ending
    )
    told = {"rejected": "Already rejected by a person", "expired": "Already expired"}
    assert answer.json()["action"]["message"] == told.get(ending, "Already executed")
    assert PendingAction.objects.count() == IdempotencyRecord.objects.count() == 1
    assert len(server.ledger) == (1 if ending in ("sent", "purged") else 0)


@pytest.mark.fault(6)
def test_same_mail_with_a_new_key_is_accepted_and_flagged(api: Api, reviewer: Reviewer) -> None:
    first = {
        **ASK,
        "to": ["mira@northwind.example", "jo@northwind.example"],
        "body": "x" * 200 + " first",
    }
    again = {**first, "to": first["to"][::-1], "subject": "HELLO", "body": "x" * 200 + " second"}
    api.tool("send_email", key="1", **first)

    answer = api.tool("send_email", key="2", **again)

    assert answer.status_code == 202
    assert "possible_duplicate" in {warning["code"] for warning in answer.json()["warnings"]}
    assert "Possible duplicate" in reviewer.page(answer.json()["action"]["id"]).content.decode()


@pytest.mark.fault(6)
def test_duplicate_flag_ends_with_the_window(api: Api, reviewer: Reviewer) -> None:
    reviewer.decide(api.propose(key="1"), "approve")
    work()
    PendingAction.objects.update(created_at=timezone.now() - timedelta(seconds=121))

    answer = api.tool("send_email", key="2", **ASK)

    assert "possible_duplicate" not in {warning["code"] for warning in answer.json()["warnings"]}


def test_other_subject_recipient_or_start_is_no_duplicate(api: Api) -> None:
    api.propose()
    for change in (
        {"subject": "Hello!"},
        {"to": ["jo@northwind.example"]},
        {"body": "Another beginning"},
    ):
        answer = api.tool("send_email", **{**ASK, **change})
        assert "possible_duplicate" not in {
            warning["code"] for warning in answer.json()["warnings"]
        }, change
