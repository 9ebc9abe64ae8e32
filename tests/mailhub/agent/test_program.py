"""The chat of a signed-in person is a program: what it sees, withdraws and leaves in the audit."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.db.models.signals import post_save
from django.utils import timezone

from accounts.models import SCOPES, ApiToken, Mailbox, Membership, Role, User
from approvals.models import AuditEvent, PendingAction
from mailhub.agent.models import ToolCall
from tests.conftest import HELLO, Api, Reviewer
from tests.mailhub.agent.conftest import Chat
from tests.support.people.browser import browser
from tests.support.people.programs import Program
from tests.support.servers.model import ModelServer, Says

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(90)]
DRAFT: dict[str, Any] = {"to": ["mira@northwind.example"], "subject": "Draft", "body": "Hello"}


def use(chat: Chat, model: ModelServer, tool: str, mode: str = "safeWrite", **given: Any) -> Any:
    """Let the model call one tool; return what the tool answers."""
    model.says(Says(calls=((tool, given),)), Says(text="Done."))
    chat.ask("Do it", mode=mode)
    return json.loads(model.tool_results()[-1])


def test_chat_sees_and_withdraws_only_what_it_proposed(
    person: Chat, model: ModelServer, agent_api: Api
) -> None:
    """Also a token of the same person is another program."""
    foreign = agent_api.propose()
    model.says(Says(calls=(("send_email", {**HELLO, "subject": "Mine", "confirm": True}),)))
    person.ask("Write to Mira", mode="safeWrite")
    own = str(PendingAction.objects.exclude(pk=foreign).get().pk)

    assert [row["id"] for row in use(person, model, "list_actions")["items"]] == [own]
    assert use(person, model, "get_action", action_id=foreign)["code"] == "not_found"
    assert use(person, model, "cancel_action", action_id=foreign)["code"] == "not_found"
    assert use(person, model, "cancel_action", action_id=own)["state"] == "cancelled"
    assert agent_api.get(f"/actions/{foreign}").json()["state"] == "pending"
    assert agent_api.get(f"/actions/{own}").status_code == 404


def test_program_named_as_the_chat_is_another_program(
    person: Chat, model: ModelServer, alice: User, mailbox: Mailbox
) -> None:
    draft = use(person, model, "create_draft", **DRAFT)["id"]
    given = {**HELLO, "confirm": True, "idempotency_key": "k"}
    model.says(Says(calls=(("send_email", given),)))
    person.ask("Write to Mira", mode="safeWrite")
    own = str(PendingAction.objects.get().pk)
    other = Program.registered(name="chat").api(alice, mailbox)

    assert other.tool("delete_draft", draft_id=draft).status_code == 202
    assert other.tool("send_email", **given).json()["action"]["id"] != own
    assert other.get(f"/actions/{own}").status_code == 404


def test_audit_and_pages_name_the_chat_as_the_actor(
    person: Chat, model: ModelServer, reviewer: Reviewer
) -> None:
    model.says(Says(calls=(("send_email", {**HELLO, "confirm": True}),)))
    person.ask("Write to Mira", mode="safeWrite")
    own = str(PendingAction.objects.get().pk)
    answer = use(person, model, "cancel_action", action_id=own)

    assert answer["next"].startswith("Its proposer withdrew it")
    events = AuditEvent.objects.filter(action_id=own)
    assert set(events.values_list("actor", flat=True)) == {f"chat:{reviewer.user.pk}"}
    window = browser(reviewer.user)
    said = f"the chat of {reviewer.user.email}"
    for query in (f"who={reviewer.user.email}", "kind=token"):
        assert said in window.get(f"/audit/?{query}").content.decode()
    assert (
        f"the chat of {reviewer.user}"
        in window.get(f"/actions/{own}/?view=history").content.decode()
    )


def test_chat_without_a_role_sees_no_action_of_its_own(
    person: Chat, model: ModelServer, mailbox: Mailbox, reviewer: Reviewer, bob: User
) -> None:
    Membership.objects.filter(mailbox=mailbox, user=bob).update(role=Role.MANAGER)
    model.says(Says(calls=(("send_email", {**HELLO, "confirm": True}),)))
    person.ask("Write to Mira", mode="safeWrite")
    Membership.objects.filter(mailbox=mailbox, user=reviewer.user).delete()
    assert use(person, model, "list_actions")["items"] == []


ALL = list(SCOPES)
TAKERS: dict[str, Callable[[], Any]] = {
    "revoked": lambda: ApiToken.objects.update(revoked_at=timezone.now()),
    "expired": lambda: ApiToken.objects.update(expires_at=timezone.now()),
    "narrowed": lambda: ApiToken.objects.update(scopes=["agent:chat"]),
    "no chat": lambda: ApiToken.objects.update(scopes=[s for s in ALL if s != "agent:chat"]),
    "closed": lambda: User.objects.update(is_active=False),
}


@pytest.mark.parametrize(("who", "how"), [*(("chat", how) for how in TAKERS), ("person", "closed")])
def test_turn_reads_and_proposes_nothing_after_its_right_ended(
    request: pytest.FixtureRequest, model: ModelServer, who: str, how: str
) -> None:
    def take(**_: Any) -> None:
        TAKERS[how]()

    chat: Chat = request.getfixturevalue(who)
    tools = [("list_emails", {}), ("list_emails", {}), ("send_email", {**HELLO, "confirm": True})]
    model.says(*(Says(calls=(call,)) for call in tools), Says(text="Done."))
    post_save.connect(take, sender=ToolCall)  # after the first call
    try:
        chat.ask("Read, then write to Mira", mode="safeWrite")
    finally:
        post_save.disconnect(take, sender=ToolCall)

    first, *others = map(json.loads, model.tool_results())
    code = "forbidden" if how in ("narrowed", "no chat") else "unauthenticated"
    assert "emails" in first
    assert [answer.get("code") for answer in others] == [code, code]
    assert not PendingAction.objects.exists()


@pytest.mark.parametrize("tool", ["update_draft", "delete_draft"])
def test_mode_that_may_not_propose_stores_no_change_of_a_draft(
    person: Chat, model: ModelServer, api: Api, tool: str
) -> None:
    """These tools have no parameter that says if they propose: a draft of another program does."""
    draft = api.tool("create_draft", **DRAFT).json()["id"]
    given = {**DRAFT, "draft_id": draft} if tool == "update_draft" else {"draft_id": draft}
    assert use(person, model, tool, mode="default", **given)["code"] == "policy_blocked"
    assert set(ToolCall.objects.values_list("status", flat=True)) == {"policy_blocked"}
    assert not PendingAction.objects.exists()
    model.says(Says(calls=((tool, given),)))
    assert "waits for your approval" in person.ask("Do it", mode="safeWrite").text


def test_chat_runs_commands_only_for_staff(
    person: Chat, model: ModelServer, reviewer: Reviewer
) -> None:
    assert use(person, model, "m365_run_command", command="m365 status")["code"] == "forbidden"
    reviewer.user.is_staff = True
    reviewer.user.save()
    assert use(person, model, "m365_run_command", command="m365 status")["code"] != "forbidden"
