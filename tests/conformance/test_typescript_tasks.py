"""The official TypeScript SDK proposes by a task of 2025-11-25, and gets the decision."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mailhub.asgi import application
from tests.conformance.npm import SDK, install
from tests.conformance.running import SECONDS, Running
from tests.conformance.served import served
from tests.conftest import Api, Reviewer
from tests.support.work import work

pytestmark = [
    pytest.mark.long,
    pytest.mark.process,
    pytest.mark.timeout(600),
    pytest.mark.django_db(transaction=True),
]
CLIENT = Path(__file__).parent / "typescript_tasks.mjs"
QUERY = "?toolsets=send,actions,tasks"


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("npm"), SDK)


@pytest.fixture
def desk(modules: Path, api: Api) -> Iterator[Running]:
    program = str(shutil.copy(CLIENT, modules.parent))
    with served(application) as url:
        command = [str(modules / ".bin/node"), program, f"{url}/mcp{QUERY}", api.secret]
        with Running(command) as running:
            yield running


def told(desk: Running, name: str) -> Any:
    """Return what the program tells next, which must be this step."""
    line = json.loads(desk.line())
    assert line["step"] == name, line
    return line["value"]


def test_task_of_the_typescript_sdk_ends_with_the_receipt(
    desk: Running, reviewer: Reviewer
) -> None:
    assert told(desk, "capability") == {"cancel": {}, "requests": {"tools": {"call": {}}}}
    task = told(desk, "taskCreated")
    assert task["status"] == "working"
    reviewer.decide(task["taskId"], "approve")
    work()
    result = told(desk, "result")
    assert json.loads(result["content"][0]["text"])["state"] == "succeeded"
    assert desk.process.wait(SECONDS) == 0
