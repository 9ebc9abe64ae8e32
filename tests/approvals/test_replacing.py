"""A reviewer requests changes, and the proposer replaces the proposal."""

from collections.abc import Callable

import pytest

from accounts.infra.problems import Problem
from accounts.models import Mailbox, Membership, Role, User
from approvals.gate import decide
from approvals.models import ApprovalPolicy, PendingAction
from tests.approvals.conftest import approve
from tests.approvals.revisions import ask_back, edit, review
from tests.conftest import HELLO, Api, make_api, problem_of
from tests.support.people.office import letter
from tests.support.servers.memory import MemoryServer
from tests.support.work import work

pytestmark = pytest.mark.django_db(transaction=True)


def test_agent_reads_the_note_and_proposes_a_replacement(
    api: Api, alice: User, server: MemoryServer
) -> None:
    first = api.propose()
    ask_back(first, alice, "Say Friday, please.")
    assert review(api, first) == {
        "by": str(alice),
        "verdict": "changes_requested",
        "note": "Say Friday, please.",
    }
    assert PendingAction.objects.get().status == "pending"

    second = api.propose(body="Until Friday.", replaces=first)

    old = api.get(f"/actions/{first}").json()
    assert (old["state"], old["superseded_by"]) == ("superseded", second)
    assert old["review"]["note"] == "Say Friday, please."
    assert api.get(f"/actions/{second}").json()["state"] == "pending"
    approve(second, alice)
    work()
    assert len(server.ledger) == 1
    assert b"Friday" in server.ledger[0].source


def test_question_needs_a_note_and_voids_approvals(
    api: Api, mailbox: Mailbox, bob: User, charlie: User
) -> None:
    ApprovalPolicy.objects.create(mailbox=mailbox, approvals_needed=2)
    Membership.objects.create(mailbox=mailbox, user=charlie, role=Role.APPROVER)
    action_id = api.propose()
    approve(action_id, bob)
    with pytest.raises(Problem) as refused:
        ask_back(action_id, charlie, " ")
    assert [error.field for error in refused.value.errors] == ["note"]

    ask_back(action_id, charlie, "Who is that?")

    assert PendingAction.objects.get().approvals_given == 0
    approve(action_id, charlie)
    assert PendingAction.objects.get().status == "pending"


def test_repeated_replacement_with_its_key_is_one_action(api: Api) -> None:
    first = api.propose()
    answers = [
        api.tool(
            "send_email",
            key="again",
            **{**HELLO, "body": "Better.", "confirm": True, "replaces": first},
        )
        for _ in range(2)
    ]

    assert [answer.status_code for answer in answers] == [202, 202]
    assert len({answer.json()["action"]["id"] for answer in answers}) == 1
    assert PendingAction.objects.count() == 2


@pytest.mark.parametrize("confirm", [True, False])
@pytest.mark.parametrize("whose", ["unknown", "malformed", "foreign", "other-token"])
def test_foreign_proposal_cannot_be_replaced(
    api: Api, foreign_api: Api, alice: User, mailbox: Mailbox, whose: str, confirm: bool
) -> None:
    others: dict[str, Callable[[], str]] = {
        "unknown": lambda: "6ad3ff86-1f03-4f0c-9b9e-2a9b2b2f9b7e",
        "malformed": lambda: "no-id",
        "foreign": foreign_api.propose,
        "other-token": lambda: make_api(alice, mailbox, name="another").propose(),
    }
    other = others[whose]()
    before = PendingAction.objects.count()

    answer = api.tool("send_email", **{**HELLO, "confirm": confirm, "replaces": other})

    assert (answer.status_code, problem_of(answer)["code"]) == (404, "not_found")
    assert PendingAction.objects.count() == before
    assert not PendingAction.objects.exclude(status="pending").exists()


def test_refused_answer_names_where_its_action_is_found(
    api: Api, mailbox: Mailbox, server: MemoryServer
) -> None:
    server.deliver(mailbox.address, letter(to=mailbox.address).as_bytes())
    (mail,) = api.tool("list_emails").json()["emails"]
    given = {"message_id": mail["id"], "comment": "Yes.", "confirm": True, "replaces": mail["id"]}
    detail = problem_of(api.tool("reply_email", **given))["detail"]
    assert ("list_actions" in detail, "message_id" in detail) == (True, False)


@pytest.mark.parametrize("ending", ["rejected", "cancelled", "sent", "edited"])
def test_decided_proposal_cannot_be_replaced(api: Api, alice: User, ending: str) -> None:
    action_id = api.propose()
    match ending:
        case "rejected":
            decide.reject(action_id=PendingAction.objects.get().pk, person=alice)
        case "cancelled":
            api.post(f"/actions/{action_id}/cancel")
        case "sent":
            approve(action_id, alice)
            work()
        case "edited":
            edit(action_id, alice, subject="Changed")

    answer = api.tool("send_email", **{**HELLO, "confirm": True, "replaces": action_id})

    assert (answer.status_code, problem_of(answer)["code"]) == (409, "conflict")
    assert PendingAction.objects.count() == 1


def test_edit_with_a_question_can_be_replaced(api: Api, alice: User, bob: User) -> None:
    action_id = api.propose()
    edit(action_id, bob, subject="Changed")
    ask_back(action_id, alice, "Neither.")

    assert api.propose(replaces=action_id, body="Third try.")
