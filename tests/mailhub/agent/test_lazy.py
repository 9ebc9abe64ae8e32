"""The chat costs nothing while nobody uses it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes.mailhub import Mailhub
from tests.support.processes.person import request
from tests.support.processes.proc import proc
from tests.support.processes.programs import PROJECT
from tests.support.servers.model import ModelServer, Says

pytestmark = [pytest.mark.static, pytest.mark.timeout(120)]

HEAVY = (
    "langchain",
    "langchain_core",
    "langgraph",
    "langchain_openai",
    "openai",
    "anthropic",
    "mcp",
    "tiktoken",
)
# The imports of a web process that has answered for every page and the API.
BEFORE = """
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
from mailhub.asgi import application
from django.urls import resolve
for path in ("/agent/", "/ai/agent/stream", "/api/v1/tools", "/"):
    resolve(path)
"""


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=PROJECT, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_agent_libraries_load_only_when_somebody_chats() -> None:
    loaded = run(f"{BEFORE}\nprint(*[name for name in {HEAVY!r} if name in sys.modules])").split()
    assert loaded == []


@pytest.mark.long
@pytest.mark.process
def test_first_use_costs_a_web_process_70_megabytes_at_most(tmp_path: Path) -> None:
    """With a tool and an answer over the wire, in a process that has shown its pages before."""
    with (
        ModelServer() as model,
        Mailhub(tmp_path, AGENT_MODEL="openai:m", OPENAI_BASE_URL=model.url) as mailhub,
    ):
        for path in ("/", "/actions/", "/mailboxes/", "/agent/"):
            assert mailhub.person().get(path).status == 200
        assert mailhub.rest("POST", "/tools/list_emails", {}).status == 200
        before = resident(mailhub.children()["web"])
        model.says(Says(calls=(("list_emails", {}),)), Says(text="Two mails."))
        headers = {"Authorization": f"Bearer {mailhub.sandbox['api_token']}"}
        answer = request(
            f"{mailhub.url}/ai/agent/stream",
            "POST",
            body=b'{"prompt": "What is new?"}',
            headers=headers,
        )
        assert "Two mails." in answer.text
        megabytes = resident(mailhub.children()["web"]) - before
        assert len(model.tool_results()) == 1
    assert megabytes <= 70, megabytes


def resident(pid: int) -> float:
    """Return the resident memory in MB, including pages shared with other processes."""
    status = proc(pid, "status").read_text()
    return (
        int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])
        / 1024
    )
