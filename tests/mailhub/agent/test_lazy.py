"""The chat costs nothing while nobody uses it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.model_server import ModelServer, Says
from tests.processes import PROJECT, Mailhub, request

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
# The origin of each name of a package, with the packages read as Python would, or on demand.
NAMES = """
import ast, sys
from importlib import import_module
from pathlib import Path
if {on_demand}:
    from mailhub.agent import on_demand
    on_demand.install()
for package in {packages!r}:
    module = import_module(package)
    tree = ast.parse(Path(module.__file__).read_text())
    named = [each.asname or each.name for node in tree.body if isinstance(node, ast.ImportFrom) for each in node.names]
    for name in sorted({{*named, *getattr(module, "__all__", [])}} - {{"annotations"}}):
        value = getattr(module, name)
        print(package, name, getattr(value, "__module__", ""), getattr(value, "__qualname__", value))
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


def test_package_name_is_unchanged_and_loaded_on_demand() -> None:
    program = """
import sys
from mailhub.agent import on_demand
on_demand.install()
import langgraph_sdk
from langgraph_sdk import Auth
print(Auth.__module__, "langgraph_sdk.client" in sys.modules, "Auth" in langgraph_sdk.__all__)
try:
    from langgraph_sdk import nothing
except ImportError:
    print("no such name")
"""
    assert run(program).splitlines() == ["langgraph_sdk.auth False True", "no such name"]


@pytest.mark.long
def test_every_package_name_is_the_same_on_demand() -> None:
    packages = [
        "openai.types",
        "openai.types.chat",
        "openai.types.responses",
        "anthropic.types",
        "anthropic.resources",
    ]
    packages += ["langsmith.types", "langchain_openai", "langchain_anthropic", "langgraph_sdk"]
    ordinary, here = (
        run(NAMES.format(on_demand=each, packages=packages)) for each in (False, True)
    )
    assert len(ordinary.splitlines()) > 1000
    assert here == ordinary


@pytest.mark.long
@pytest.mark.process
def test_first_use_costs_a_web_process_40_megabytes_at_most(tmp_path: Path) -> None:
    """Chat with a tool and an answer over the wire, in a process that has served its pages
    before.
    """
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
    assert megabytes <= 40, megabytes


def resident(pid: int) -> float:
    """Return the resident memory in MB, including pages shared with other processes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return (
        int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])
        / 1024
    )
