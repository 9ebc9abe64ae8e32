"""The workflow for n8n, checked and computed by n8n's own package, against the served application."""

import json
import subprocess
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from approvals.models import PendingAction
from tests.conformance.npm import install
from tests.conftest import Api, Reviewer
from tests.support.loopback import EveryServer
from tests.support.processes.programs import PROJECT, until
from tests.support.servers.memory import MemoryServer
from tests.support.work import work

pytestmark = [
    pytest.mark.long,
    pytest.mark.process,
    pytest.mark.timeout(600),
    pytest.mark.django_db(transaction=True),
]
WORKFLOW = PROJECT / "clients/examples/n8n_workflow.json"
RUNNER = Path(__file__).parent / "run_workflow.mjs"
ENGINE = "n8n-workflow@2.41.0"
NODES = "n8n-nodes-base@2.41.2"
DESCRIPTIONS = "package/dist/types/nodes.json"
SECONDS = 60


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return a command line that takes a workflow, the address of mailhub and a token."""
    folder = tmp_path_factory.mktemp("npm")
    modules = install(folder, "--ignore-scripts", ENGINE)
    packed = subprocess.run(
        ["npm", "pack", "--silent", NODES], cwd=folder, capture_output=True, check=True, text=True
    )
    # The nodes themselves need a hundred packages; their descriptions are one file.
    with tarfile.open(folder / packed.stdout.strip()) as archive:
        archive.extract(DESCRIPTIONS, folder, filter="data")
    return ["node", str(RUNNER), str(modules), str(folder / DESCRIPTIONS)]


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)


@pytest.mark.parametrize("verdict", ["approve", "reject"])
def test_workflow_waits_for_the_decision(
    command: list[str],
    verdict: str,
    door: str,
    api: Api,
    reviewer: Reviewer,
    server: MemoryServer,
    settings: Any,
) -> None:
    settings.MAILHUB_LOOPBACK_FOR_PEOPLE = EveryServer()  # the workflow waits on a port of its own
    assert api.post("/webhooks", {"callbacks": True}).status_code == 201
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, [*command, str(WORKFLOW), door, api.secret])
        until(lambda: PendingAction.objects.exists() or running.done())
        assert PendingAction.objects.exists(), running.result().stderr
        reviewer.decide(str(PendingAction.objects.get().pk), verdict)
        work()
        until(lambda: call_command("maintain") or running.done())
        done = running.result()
    assert done.returncode == 0, done.stderr
    steps = [json.loads(line) for line in done.stdout.splitlines()]
    assert steps[-1]["node"] == "Ended"
    assert steps[-1]["json"]["state"] == ("succeeded" if verdict == "approve" else "rejected")
    assert len(server.ledger) == (1 if verdict == "approve" else 0)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"url"', '"uri"', "URL"),
        ("n8n-nodes-base.wait", "n8n-nodes-base.pause", "no such node"),
        ('"node": "Look"', '"node": "See"', "See"),
    ],
)
def test_check_finds_a_broken_workflow(
    command: list[str], tmp_path: Path, old: str, new: str, says: str
) -> None:
    broken = tmp_path / "workflow.json"
    broken.write_text(WORKFLOW.read_text().replace(old, new))
    done = run([*command, str(broken), "http://127.0.0.1:9", "mh_x"])
    assert done.returncode == 1
    assert says in done.stderr
