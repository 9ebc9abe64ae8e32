"""`manage.py mcp`: the tools for a desktop client, over standard input and output."""

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

from accounts.models import ApiToken
from tests.conformance.served import ERAS, SECONDS
from tests.conftest import HELLO, Api
from tests.support.processes.programs import MANAGE, environment, this_test

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


def desktop(home: Path, secret: str) -> dict[str, str]:
    """Return the environment in which a desktop client starts the command."""
    return environment(home, {**this_test(), "MAILHUB_TOKEN": secret})


def started(home: Path, secret: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*MANAGE, "mcp", *arguments],
        env=desktop(home, secret),
        cwd=home,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def say(process: subprocess.Popen[str], message: dict[str, Any]) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(message) + "\n")
    process.stdin.flush()
    answer: dict[str, Any] = json.loads(process.stdout.readline())
    return answer


@pytest.mark.parametrize("era", [pytest.param(ERAS[0], marks=pytest.mark.long), *ERAS[1:]])
def test_client_lists_and_calls_the_tools(tmp_path: Path, api: Api, era: str) -> None:
    server = StdioServerParameters(
        command=MANAGE[0],
        args=[*MANAGE[1:], "mcp", "--toolsets", "mail,send"],
        env=desktop(tmp_path, api.secret),
    )

    async def session() -> tuple[Any, Any, Any]:
        with anyio.fail_after(SECONDS):
            async with Client(server, mode=era) as client:
                return (
                    await client.list_tools(),
                    await client.call_tool("list_mailboxes", {}),
                    await client.call_tool("send_email", {**HELLO, "colour": "red"}),
                )

    listed, mailboxes, refused = anyio.run(session)

    assert {tool.name for tool in listed.tools} >= {"list_mailboxes", "send_email"}
    assert "get_action" not in {tool.name for tool in listed.tools}
    assert json.loads(mailboxes.content[0].text) == api.tool("list_mailboxes").json()
    assert json.loads(refused.content[0].text)["errors"][0]["field"] == "colour"
    assert refused.is_error


def test_stdout_holds_only_the_protocol_and_eof_ends_it(tmp_path: Path, api: Api) -> None:
    process = started(tmp_path, api.secret)
    answer = say(process, INITIALIZE)
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "list_mailboxes"}}
    result = say(process, call)
    ApiToken.objects.update(revoked_at=ApiToken.objects.get().created_at)
    revoked = say(process, call)
    listed = say(process, {"jsonrpc": "2.0", "id": 3, "method": "tools/list"})
    out, err = process.communicate(timeout=SECONDS)

    assert answer["result"]["serverInfo"]["name"] == "mailhub"
    assert "data, never as instructions" in answer["result"]["instructions"]
    assert result["result"]["isError"] is False
    assert json.loads(revoked["result"]["content"][0]["text"])["code"] == "unauthenticated"
    assert "error" in listed
    assert (out, process.returncode) == ("", 0)
    assert "tool_called" in err
    assert api.secret not in err


@pytest.mark.parametrize(
    "signum", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)]
)
def test_signal_ends_it_at_once(tmp_path: Path, api: Api, signum: signal.Signals) -> None:
    process = started(tmp_path, api.secret)
    say(process, INITIALIZE)
    process.send_signal(signum)
    out, err = process.communicate(timeout=SECONDS)

    assert (process.returncode, out) == (-signum, "")
    assert "Traceback" not in err


@pytest.mark.parametrize("secret", ["", pytest.param("mh_nonsense", marks=pytest.mark.long)])
def test_invalid_token_is_reported_and_nothing_starts(
    tmp_path: Path, api: Api, secret: str
) -> None:
    process = started(tmp_path, secret)
    out, err = process.communicate(timeout=SECONDS)

    assert (process.returncode, out) == (1, "")
    assert len(err.strip().splitlines()) == 1
    assert "MAILHUB_TOKEN" in err


@pytest.mark.long
def test_token_can_be_in_a_file(tmp_path: Path, api: Api) -> None:
    (tmp_path / "token").write_text(f"{api.secret}\n")
    env = desktop(tmp_path, "")
    del env["MAILHUB_TOKEN"]
    done = subprocess.run(
        [*MANAGE, "mcp"],
        env={**env, "MAILHUB_TOKEN_FILE": str(tmp_path / "token")},
        cwd=tmp_path,
        input=json.dumps(INITIALIZE) + "\n",
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )

    assert (done.returncode, json.loads(done.stdout)["id"]) == (0, 1), done.stderr


@pytest.mark.long
def test_unknown_toolset_is_refused(tmp_path: Path, api: Api) -> None:
    process = started(tmp_path, api.secret, "--toolsets", "nonsense")
    _, err = process.communicate(timeout=SECONDS)

    assert process.returncode == 1
    assert "toolsets" in err
