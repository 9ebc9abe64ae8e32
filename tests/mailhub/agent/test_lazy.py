"""The chat costs nothing where nobody chats."""

import subprocess
import sys

import pytest

from tests.processes import PROJECT

pytestmark = [pytest.mark.static, pytest.mark.timeout(120)]

HEAVY = ("langchain", "langchain_core", "langgraph", "langchain_openai", "openai", "anthropic", "mcp", "tiktoken")
# What a web process has imported once it has answered for every page and the API.
BEFORE = """
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
from mailhub.asgi import application
from django.urls import resolve
for path in ("/agent/", "/ai/agent/stream", "/api/v1/tools", "/"):
    resolve(path)
def resident():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmRSS")).split()[1]) / 1024
"""
FIRST_USE = """
before = resident()
from django.conf import settings
settings.AGENT_MODEL, settings.OPENAI_BASE_URL = "openai:m", "http://127.0.0.1:9/v1"
from mailhub.agent import answering
answering.chat_model()
print(resident() - before)
"""


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], cwd=PROJECT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_web_process_imports_none_of_the_agents_libraries_before_somebody_chats() -> None:
    loaded = run(f"{BEFORE}\nprint(*[name for name in {HEAVY!r} if name in sys.modules])").split()
    assert loaded == []


@pytest.mark.long
def test_the_first_use_costs_less_than_70_megabytes() -> None:
    """What LangGraph and the OpenAI library weigh; docs/agent.md says what was measured."""
    megabytes = float(run(BEFORE + FIRST_USE).split()[-1])
    assert megabytes < 70, megabytes
