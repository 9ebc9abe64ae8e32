"""m365_run_command over REST and MCP: reads are run and shortened, writes wait for a person or are
blocked.
"""

import json
import logging
import os
import re
import shlex
import signal
import sys
import tarfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client

from accounts.access.auth import find_caller
from accounts.models import ApiToken, Mailbox, User
from approvals.gate import send_back
from approvals.gate.pauses import switch
from approvals.models import PendingAction
from mailhub.asgi import application
from tests.approvals.notifications.conftest import Post, post, prove
from tests.conformance.served import Door, served
from tests.conftest import Api, Reviewer, make_api, problem_of
from tests.support.people.browser import browser
from tests.support.people.programs import Program
from tests.support.processes.programs import until
from tests.support.servers import m365 as m365_servers
from tests.support.servers.m365 import M365, NPM_CLI, npm_folder
from tests.support.work import work
from tools.m365.client import M365Client
from tools.m365.commands import FILE, format_commands
from tools.sending.held_commands import Unreachable

__all__ = ["post"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(120)]
TEAM = {"id": "1", "displayName": "Offer", "description": "p" * 500}
EVENT = "m365 outlook event add --subject Talk --attendees bob@lovelace.example,eve@out.example"


@pytest.fixture
def writes(settings: Any) -> None:
    settings.MCP_M365_STRICT_READONLY = False


def run(api: Api, command: str, **more: Any) -> Any:
    return api.tool("m365_run_command", command=command, **more)


def test_reading_command_runs_and_its_output_is_short(runner: Api, m365: M365) -> None:
    m365.answers(teams_channel_list=[TEAM] * 50)
    answer = run(runner, 'm365 teams channel list --teamName "Sales team"')
    assert answer.status_code == 200, answer.content
    result = answer.json()
    assert len(result["output"]) < 4100
    (call,) = m365.calls
    assert call[:5] == ["teams", "channel", "list", "--teamName", "Sales team"]
    assert result["command"] == "m365 teams channel list --teamName 'Sales team'"


def test_answer_that_cannot_be_read_is_none(
    runner: Api, m365: M365, settings: Any, tmp_path: Path
) -> None:
    server = (Path(m365_servers.__file__).parent / "m365_server.py").read_text()
    odd = server.replace('[{"type": "text", "text": text}]', "text")
    assert odd != server
    (tmp_path / "odd.py").write_text(odd)
    settings.MCP_M365_START_CMD = shlex.join([sys.executable, str(tmp_path / "odd.py")])
    answer = run(runner, "m365 status")
    assert (answer.status_code, answer["Retry-After"]) == (503, "30")
    assert "gave no answer" in answer.json()["detail"]


def test_token_of_former_staff_runs_no_command(
    runner: Api, alice: User, m365: M365, mailbox: Mailbox
) -> None:
    """Neither as it is, nor with a new secret, nor as a sign-in of a program."""
    m365.answers(status={"connectedAs": "ada@lovelace.example"})
    alice.refresh_from_db()
    connected = Program.registered().api(alice, mailbox, scope="m365:run", scopes="m365:run")
    assert [run(each, "m365 status").status_code for each in (runner, connected)] == [200, 200]
    User.objects.filter(pk=alice.pk).update(is_staff=False)
    answer = browser(alice).post(f"/tokens/{ApiToken.objects.get(name='runner').pk}/rotate/")
    rotated = Api(secret=re.findall(r"mh_[\w-]{43}", answer.content.decode())[0])

    for each in (rotated, connected):
        assert problem_of(run(each, "m365 status"))["code"] == "forbidden"
    grants = ApiToken.objects.values_list("pk", flat=True)
    found = [find_caller(alice.pk, token_id) for token_id in grants]
    assert [caller and caller.may("m365:run") for caller in found] == [False, False]
    assert len(m365.calls) == 2


def test_log_has_only_size_and_hash_of_output(
    runner: Api, m365: M365, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    m365.answers(teams_team_list=[TEAM] * 50)
    run(runner, "m365 teams team list")
    line = next(record.msg for record in caplog.records if "m365_command" in str(record.msg))
    assert isinstance(line, dict)
    assert line["raw_bytes"] > 10_000
    assert line["slim_bytes"] < 4100
    assert len(line["sha256"]) == 64
    assert "Offer" not in caplog.text
    assert "ppp" not in caplog.text
    loaded = next(record.msg for record in caplog.records if "m365_tools_loaded" in str(record.msg))
    assert isinstance(loaded, dict)
    assert (loaded["tool"], loaded["count"]) == ("m365_run_command", 1)


def test_secret_in_an_output_is_masked(runner: Api, m365: M365) -> None:
    m365.answers(
        entra_app_get={
            "appId": "31359c7f",
            "secret": "hunter22",
            "note": "Bearer abcdefghijklmnop1234",
        }
    )
    output = json.loads(run(runner, "m365 entra app get --appId 31359c7f").json()["output"])
    assert output == {"appId": "31359c7f", "secret": "[redacted]", "note": "[redacted]"}


def test_command_that_ends_with_an_error_is_a_problem(runner: Api, m365: M365) -> None:
    m365.answers(teams_team_get={"exit": "The specified team does not exist"})
    problem = problem_of(run(runner, "m365 teams team get --id 1"))
    assert problem["code"] == "invalid_input"
    assert "The specified team does not exist" in problem["detail"]


@pytest.mark.parametrize(
    "command",
    [
        "m365 teams team remove --id 1",
        "m365 login",
        "m365 request --url x",
        "m365 teams team get --id @/etc/passwd",
        "m365 outlook message list --folderName Inbox",
        "m365 outlook event get --id ../messages",
    ],
)
def test_blocked_command_is_not_run(runner: Api, m365: M365, command: str) -> None:
    for confirm in (False, True):
        problem = problem_of(run(runner, command, confirm=confirm))
        assert (problem["code"], problem["status"]) == ("policy_blocked", 403)
    assert m365.calls == []
    assert not PendingAction.objects.exists()


@pytest.mark.usefixtures("writes")
def test_write_runs_once_after_its_exact_approval(
    runner: Api, reviewer: Reviewer, m365: M365
) -> None:
    preview = run(runner, EVENT)
    assert preview.status_code == 200
    assert preview.json()["preview"]["text"].endswith("Nothing has been sent.")
    assert not PendingAction.objects.exists()

    answer = run(runner, EVENT, confirm=True, idempotency_key="k")
    assert answer.status_code == 202, answer.content
    assert (
        run(runner, EVENT, confirm=True, idempotency_key="k").headers["Idempotency-Replayed"]
        == "true"
    )
    action_id = answer.json()["action"]["id"]
    page = reviewer.page(action_id).content.decode()
    for shown in (
        "m365 outlook event add",
        "attendees",
        "eve@out.example",
        "bob@lovelace.example",
        "Approve and run",
    ):
        assert shown in page
    assert "<small>command" in reviewer.client.get("/").content.decode()
    work()
    assert m365.calls == []

    switch.pause(mailbox=None, actor="test")
    assert reviewer.decide(action_id, "approve").status_code == 302
    work()
    assert m365.calls == []
    assert "Approved, on hold" in reviewer.page(action_id).content.decode()
    switch.resume(mailbox=None, actor="test")
    work()
    work()
    (call,) = m365.calls
    assert call == [*EVENT.split()[1:], "--output", "json"]
    assert runner.get(f"/actions/{action_id}").json()["state"] == "succeeded"
    ended = reviewer.client.get(f"/actions/{action_id}/?view=history").content.decode()
    assert "Command ran" in ended
    for of_mail in ("Sent</h1>", "recipient", "mail server", "Ended:</b> sent"):
        assert of_mail not in ended, of_mail


@pytest.mark.usefixtures("writes")
@pytest.mark.both
def test_half_a_letter_in_an_answer_costs_no_outcome(
    runner: Api, reviewer: Reviewer, m365: M365
) -> None:
    """A name that another program has cut in the middle of an emoji."""
    m365.answers(outlook_event_add={"subject": "Talk \ud83d"}, teams_channel_list=["\ud83d\0"])
    action_id = run(runner, EVENT, confirm=True).json()["action"]["id"]
    reviewer.decide(action_id, "approve")
    work()
    told = runner.get(f"/actions/{action_id}").json()
    assert (told["state"], told["result"]["output"]) == ("succeeded", '{"subject":"Talk ?"}')
    answer = run(runner, "m365 teams channel list --teamName Sales")
    assert answer.json()["output"] == '["?\\u0000"]', answer.content


@pytest.mark.usefixtures("writes")
def test_server_death_in_a_write_is_unknown_and_not_repeated(
    runner: Api, reviewer: Reviewer, m365: M365
) -> None:
    m365.answers(outlook_event_add={"kill": True})
    action_id = run(runner, EVENT, confirm=True).json()["action"]["id"]
    reviewer.decide(action_id, "approve")
    work()
    work()
    assert runner.get(f"/actions/{action_id}").json()["state"] == "unknown"
    assert len(m365.calls) == 1
    page = reviewer.page(action_id).content.decode()
    assert "Not known whether the command ran" in page
    assert "Sent folder" not in page


@pytest.mark.usefixtures("writes")
def test_notification_calls_no_command_a_mail(
    runner: Api, reviewer: Reviewer, m365: M365, post: Post
) -> None:
    prove(reviewer.user)
    m365.answers(outlook_event_add={"kill": True})
    reviewer.decide(run(runner, EVENT, confirm=True).json()["action"]["id"], "approve")
    work()
    post.sweep()
    post.sweep(after=timedelta(minutes=11))

    said = "Nobody knows whether a proposal was carried out"
    assert said in str(post.mails[-1]["Subject"])
    assert said in reviewer.client.get("/notifications/").content.decode()


@pytest.mark.usefixtures("writes")
def test_write_is_a_high_risk_that_only_staff_approve(
    runner: Api, reviewer: Reviewer, m365: M365
) -> None:
    proposal = run(runner, EVENT, confirm=True).json()
    User.objects.filter(pk=reviewer.user.pk).update(is_staff=False)
    action_id = proposal["action"]["id"]
    assert [warning["code"] for warning in proposal["warnings"]] == ["m365_write"]
    assert (
        "Only staff of this server may approve this." in reviewer.page(action_id).content.decode()
    )

    assert reviewer.decide(action_id, "approve").status_code == 403
    assert runner.get(f"/actions/{action_id}").json()["state"] == "pending"
    assert m365.calls == []


@pytest.mark.usefixtures("writes")
@pytest.mark.parametrize("came_back", [False, True])
def test_approved_write_returns_if_its_approver_left_staff(
    runner: Api, reviewer: Reviewer, m365: M365, came_back: bool
) -> None:
    action_id = run(runner, EVENT, confirm=True).json()["action"]["id"]
    assert reviewer.decide(action_id, "approve").status_code == 302
    for is_staff in (False, True)[: 1 + came_back]:
        person = User.objects.get(pk=reviewer.user.pk)
        person.is_staff = is_staff
        person.save()

    work()
    send_back.send_back()

    assert runner.get(f"/actions/{action_id}").json()["state"] == "pending"
    assert m365.calls == []


@pytest.mark.usefixtures("writes")
@pytest.mark.parametrize(
    "change", [{"MCP_M365_STRICT_READONLY": True}, {"MCP_M365_TOOLS": []}], ids=["strict", "off"]
)
def test_write_that_is_no_longer_allowed_does_not_run(
    runner: Api, reviewer: Reviewer, m365: M365, settings: Any, change: dict[str, Any]
) -> None:
    action_id = run(runner, EVENT, confirm=True).json()["action"]["id"]
    reviewer.decide(action_id, "approve")
    for name, value in change.items():
        setattr(settings, name, value)
    work()
    told = runner.get(f"/actions/{action_id}").json()
    assert told["state"] == "failed"
    assert "may have changed something" in told["next"]
    assert m365.calls == []
    assert "Command failed" in reviewer.page(action_id).content.decode()


@pytest.mark.usefixtures("writes", "m365")
def test_page_of_a_command_says_what_holds_it_back(
    runner: Api, reviewer: Reviewer, mailbox: Mailbox
) -> None:
    switch.pause(mailbox=mailbox, actor="test")
    action_id = run(runner, EVENT, confirm=True).json()["action"]["id"]
    assert "This mailbox is paused." in reviewer.page(action_id).content.decode()


@pytest.mark.usefixtures("writes")
def test_words_of_a_failed_command_prove_nothing(
    runner: Api, reviewer: Reviewer, m365: M365
) -> None:
    for error in ("Log in to Microsoft 365 first", "m365: not found", "socket hang up"):
        m365.answers(outlook_event_add={"exit": error})
        action_id = run(runner, f"{EVENT} --body '{error}'", confirm=True).json()["action"]["id"]
        reviewer.decide(action_id, "approve")
        work()
        assert runner.get(f"/actions/{action_id}").json()["state"] == "unknown", error


def test_server_that_dies_during_a_call_is_restarted(runner: Api, m365: M365) -> None:
    m365.answers(status={"connectedAs": "ada@lovelace.example"}, teams_team_list={"kill": True})
    assert run(runner, "m365 status").status_code == 200
    problem = problem_of(run(runner, "m365 teams team list"))
    assert problem["code"] == "transient"
    assert json.loads(run(runner, "m365 status").json()["output"]) == {
        "connectedAs": "ada@lovelace.example"
    }


@pytest.fixture
def vain() -> Iterator[M365Client]:
    client = M365Client(["/bin/false"], health_seconds=1)
    yield client
    client.close()


def test_server_that_cannot_start_fails_fast_after_two_tries(vain: M365Client) -> None:
    for _ in range(3):
        with pytest.raises(Unreachable):
            vain.run("m365 status")


def test_server_that_stops_by_itself_is_restarted(
    runner: Api, m365: M365, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    settings.MCP_M365_HEALTH_INTERVAL_MS = 100
    m365.answers(teams_team_list={"server": True})
    os.kill(
        json.loads(run(runner, "m365 teams team list").json()["output"])["server"], signal.SIGKILL
    )
    until(lambda: caplog.text.count("m365_tools_loaded") == 2)
    assert run(runner, "m365 status").status_code == 200


def test_missing_start_command_names_the_setting(runner: Api, settings: Any) -> None:
    settings.MCP_M365_START_CMD = ""
    problem = problem_of(run(runner, "m365 status"))
    assert (problem["status"], "MCP_M365_START_CMD" in problem["detail"]) == (503, True)


def test_tool_needs_its_scope_and_is_hidden_without_it(
    alice: User, mailbox: Mailbox, m365: M365, foreign_api: Api
) -> None:
    User.objects.update(is_staff=True)
    reader = make_api(alice, mailbox, name="reader", scopes=["mail:read"])
    assert problem_of(run(reader, "m365 status"))["code"] == "forbidden"
    assert "m365" not in reader.get("/tools").content.decode()
    assert (
        problem_of(run(foreign_api, "m365 status", mailbox=mailbox.address))["code"] == "not_found"
    )
    assert m365.calls == []


def test_tool_is_a_toolset_of_its_own_over_mcp(runner: Api, m365: M365) -> None:
    m365.answers(status={"connectedAs": "ada@lovelace.example"})

    async def work(client: Client) -> tuple[list[str], str]:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        result = await client.call_tool("m365_run_command", {"command": "m365 status"})
        return tools, result.content[0].text  # type: ignore[union-attr]

    with served(application) as url:
        door = Door(url=url, secret=runner.secret)
        tools, text = door.session(work, query="?toolsets=m365")
        assert tools == ["m365_run_command"]
        assert json.loads(json.loads(text)["output"]) == {"connectedAs": "ada@lovelace.example"}
        listed = door.session(lambda client: client.list_tools())
        assert "m365_run_command" not in [tool.name for tool in listed.tools]


@pytest.mark.long
def test_list_of_commands_is_that_of_the_npm_package(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    folder = npm_folder(request.config, "pack", NPM_CLI)
    with tarfile.open(next(folder.glob("pnp-cli-microsoft365-*.tgz"))) as archive:
        archive.extractall(tmp_path, filter="data")
    assert format_commands(tmp_path / "package") == FILE.read_text()
