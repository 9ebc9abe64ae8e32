"""The prompts of the chat's purpose, from the browser's stream to the program `m365` and back."""

import json
from typing import Any

import pytest

from accounts.models import Mailbox
from approvals.models import PendingAction
from mailhub.agent.models import ToolCall
from tests.conftest import Reviewer
from tests.mailhub.agent.conftest import Chat
from tests.support.servers.m365 import M365
from tests.support.servers.memory import MemoryServer
from tests.support.servers.model import ModelServer, Says
from tests.tools.mcp_door import MAIL

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(120)]


@pytest.fixture
def operator(person: Chat, m365: M365, reviewer: Reviewer) -> Chat:
    reviewer.user.is_staff = True
    reviewer.user.save()
    return person


def run(command: str) -> Says:
    return Says(calls=(("m365_run_command", {"command": command}),))


def answering(words: str) -> Any:
    """Return a model that adds the tool's result to its own words."""
    return lambda request: Says(text=f"{words} {request['messages'][-1]['content']}")


def test_chat_shows_the_status(operator: Chat, model: ModelServer, m365: M365) -> None:
    m365.answers(
        status={"connectedAs": "ada@lovelace.example", "cloudType": "Public", "accessToken": "no"}
    )
    model.says(run("m365 status"), answering("Connected:"))
    answer = operator.ask("Status prüfen")
    assert "ada@lovelace.example" in answer.text
    assert "Public" in answer.text
    assert answer.kinds() == [("tool_start", "m365_run_command"), ("tool_end", "m365_run_command")]
    assert answer.events[0]["text"] == "🔧 running: m365_run_command m365 status …"
    assert len(json.dumps(model.requests[-1])) / 4 < 10_000


def test_chat_shows_the_newest_mail(
    operator: Chat, model: ModelServer, m365: M365, server: MemoryServer, mailbox: Mailbox
) -> None:
    server.deliver(mailbox.address, MAIL.replace("\n", "\r\n").encode())
    model.says(
        run("m365 outlook message list --folderName Inbox"),
        Says(calls=(("list_emails", {"max_results": 1}),)),
        answering("Here:"),
    )
    assert "Hej" in operator.ask("Zeig mir meine neueste Mail").text
    assert "Use the tools for mail" in model.tool_results()[0]
    assert m365.calls == []


@pytest.mark.parametrize(
    ("prompt", "command"),
    [
        (
            "Erstelle Termin heute 16-17 Uhr mit bob@lovelace.example",
            "m365 outlook event add --subject Termin",
        ),
        ("Lösche Team XYZ", "m365 teams team remove --name XYZ --force"),
    ],
)
def test_writing_command_is_blocked_and_explained(
    operator: Chat, model: ModelServer, m365: M365, prompt: str, command: str
) -> None:
    model.says(run(command), answering("That is blocked:"))
    answer = operator.ask(prompt)
    assert "policy_blocked" in answer.text
    assert "only reads Microsoft 365" in answer.text
    assert answer.kinds()[-1] == ("tool_error", "m365_run_command")
    assert m365.calls == []
    assert not PendingAction.objects.exists()


def test_server_killed_during_a_call_is_replaced(
    operator: Chat, model: ModelServer, m365: M365
) -> None:
    m365.answers(teams_team_list={"kill": True}, status={"connectedAs": "ada@lovelace.example"})
    model.says(run("m365 teams team list"), Says(text="I could not look, but I can tell you this."))
    answer = operator.ask("Zeig mir alle Teams")
    assert answer.kinds()[-1] == ("tool_error", "m365_run_command")
    assert answer.text == "I could not look, but I can tell you this."
    model.says(run("m365 status"), answering("Connected:"))
    assert "ada@lovelace.example" in operator.ask("Status prüfen").text


def test_chat_answers_without_the_server(operator: Chat, model: ModelServer, settings: Any) -> None:
    settings.MCP_M365_START_CMD = "/nowhere/to/be/found"
    model.says(run("m365 status"), Says(text="I cannot reach it."))
    answer = operator.ask("Status prüfen")
    assert answer.kinds()[-1] == ("tool_error", "m365_run_command")
    assert answer.text == "I cannot reach it."
    assert ToolCall.objects.get().status == "transient"


def test_sign_in_of_the_server_is_offered_to_operators_only(
    person: Chat, model: ModelServer, m365: M365
) -> None:
    model.says(run("m365 status"))
    assert person.ask("Status prüfen").kinds()[-1] == ("tool_error", "m365_run_command")
    assert "m365_run_command" not in model.tools(0)
    assert m365.calls == []
