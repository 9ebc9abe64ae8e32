"""The example programs, each with the model that it scripts itself, against the served application."""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from approvals.models import PendingAction
from tests.conftest import Api, Reviewer
from tests.support.processes.programs import PROJECT, until
from tests.support.processes.shared import UV
from tests.support.servers.memory import MemoryServer
from tests.support.work import work

pytestmark = [
    pytest.mark.long,
    pytest.mark.process,
    pytest.mark.timeout(600),
    pytest.mark.django_db(transaction=True),
]
EXAMPLES = PROJECT / "clients/examples"
SECONDS = 60
INSTALL_SECONDS = 300
# Their packages are installed beside the project's, which must not depend on them.
ELSEWHERE = {
    "pydantic_ai_deferred.py": "pydantic-ai-slim[openai]==2.68.0",
    "openai_agents_mcp.py": "openai-agents==0.24.0",
}
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY")


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the Python of an environment in which all other packages are installed."""
    folder = tmp_path_factory.mktemp("examples") / "environment"
    for arguments in (
        ["venv", "--python", sys.executable, str(folder)],
        ["pip", "install", "--python", str(folder), "httpx", *ELSEWHERE.values()],
    ):
        done = subprocess.run(
            [UV, *arguments], capture_output=True, timeout=INSTALL_SECONDS, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
    return str(folder / "bin/python")


@pytest.fixture
def python(request: pytest.FixtureRequest, example: str) -> str:
    """Return the Python that has the packages of the example."""
    return request.getfixturevalue("elsewhere") if example in ELSEWHERE else sys.executable


def run(python: str, example: str, door: str, api: Api, installed: Path) -> str:
    """Return the output of an example; raise AssertionError with its errors."""
    kept = {name: value for name, value in os.environ.items() if name not in KEYS}
    added = {"MAILHUB_URL": door, "MAILHUB_TOKEN": api.secret, "PYTHONPATH": str(installed)}
    done = subprocess.run(
        [python, EXAMPLES / example],
        env={**kept, **added, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def shown(output: str) -> list[str]:
    """Return the lines of an output, with the address of the README."""
    written = re.sub(r"https?://\S+/actions/\S+", "https://mailhub.example/actions/0b0f…/", output)
    return written.strip().splitlines()


@pytest.mark.parametrize("example", ["langgraph_interrupt.py", "anthropic_tools.py", *ELSEWHERE])
@pytest.mark.parametrize("verdict", ["approve", "reject"])
def test_example_gives_the_decision_to_its_model(
    python: str,
    example: str,
    verdict: str,
    door: str,
    api: Api,
    installed: Path,
    reviewer: Reviewer,
    server: MemoryServer,
) -> None:
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, python, example, door, api, installed)
        until(lambda: PendingAction.objects.exists() or running.done())
        assert PendingAction.objects.exists(), running.result()
        reviewer.decide(str(PendingAction.objects.get().pk), verdict)
        work()
        output = shown(running.result(SECONDS))
    assert PendingAction.objects.count() == 1
    assert len(server.ledger) == (1 if verdict == "approve" else 0)
    printed = re.search(r"```\n(.*?)```", (EXAMPLES / "README.md").read_text(), re.S)
    assert printed
    if verdict == "approve":
        assert output == printed[1].strip().splitlines()
    else:
        assert output[1].startswith("mailhub: A person rejected it"), output
