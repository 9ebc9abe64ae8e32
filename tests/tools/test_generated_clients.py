"""Clients that generators make from the OpenAPI document propose, wait, read and understand errors."""

import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mailhub.asgi import application
from tests.conformance.served import served
from tests.conftest import Api, Reviewer
from tests.support.servers.memory import MemoryServer
from tests.support.work import work
from tools.surfaces.openapi.document import build_document

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
MAIL = {"to": "mira@northwind.example", "subject": "From a generated client", "body": "Hello."}
PACKAGES = ("openapi-typescript@7.13.0", "openapi-fetch@0.17.0", "typescript@5.9.3")
SOURCE = Path(__file__).with_name("generated_client.ts")


@pytest.fixture
def document(tmp_path: Path) -> Path:
    path = tmp_path / "openapi.json"
    path.write_text(json.dumps(build_document()))
    return path


@pytest.fixture
def generated(document: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of a package that openapi-python-client has made."""
    name = "mailhub_generated"
    folder = document.parent
    (folder / "config.yml").write_text("post_hooks: []\n")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "openapi_python_client", "generate", "--fail-on-warning"),
            *("--path", str(document), "--output-path", str(folder / name), "--meta", "none"),
            *("--config", str(folder / "config.yml")),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    monkeypatch.syspath_prepend(str(folder))
    return name


def test_python_client_proposes_waits_and_reads(
    generated: str, api: Api, reviewer: Reviewer, server: MemoryServer
) -> None:
    def part(path: str) -> Any:
        return importlib.import_module(f"{generated}.{path}")

    models: ModuleType = part("models")
    with served(application) as url:
        client = part("client").AuthenticatedClient(base_url=url, token=api.secret)
        wanted = models.SendEmail.from_dict({**MAIL, "confirm": True, "metadata": {"ticket": "7"}})
        call = part("api.tools.send_email")
        answer = call.sync_detailed(client=client, body=wanted, idempotency_key="one")
        again = call.sync(client=client, body=wanted, idempotency_key="one")
        assert (answer.status_code, type(answer.parsed)) == (202, models.ProposalResult)
        action_id = answer.parsed.action.id
        assert again.action.id == action_id
        assert answer.headers["Location"].endswith(action_id)

        reviewer.decide(action_id, "approve")
        work()
        action = part("api.actions.actions_get").sync(action_id, client=client)
        assert (action.state, action.receipt.recipient_count) == (models.Status.SUCCEEDED, 1)
        assert action.metadata.to_dict() == {"ticket": "7"}
        listed = part("api.actions.actions_list").sync(client=client, limit=1)
        assert [each.id for each in listed.items] == [action_id]
        sent = part("api.tools.list_emails").sync(
            client=client, body=models.ListEmails(folder="sent")
        )
        assert [card.subject for card in sent.emails] == [MAIL["subject"]]

        file = part("types").File(payload=b"plan", file_name="plan.txt", mime_type="text/plain")
        kept = part("api.attachments.attachments_upload").sync(
            client=client, body=models.AttachmentsUploadBody(file=file)
        )
        assert (kept.name, kept.size) == ("plan.txt", 4)
        problem = part("api.mailboxes.mailboxes_get").sync("none", client=client)
        assert (type(problem), problem.code) == (models.ProblemDocument, "not_found")
        client.get_httpx_client().close()
    assert len(server.ledger) == 1


@pytest.fixture
def program(document: Path) -> Path:
    """Return a program on a client that openapi-typescript has made, checked and compiled."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed (bin/system-packages)")
    folder = document.parent
    shutil.copy(SOURCE, folder / "program.ts")
    binaries = folder / "node_modules" / ".bin"
    options = ["--no-audit", "--no-fund", "--no-save", "--prefix", str(folder)]
    # In the style that openapi-typescript recommends.
    strict = ["--strict", "--noUncheckedIndexedAccess", "--skipLibCheck", "--target", "es2022"]
    modules = ["--module", "esnext", "--moduleResolution", "bundler", "--types", "node"]
    for command in (
        [npm, "install", *options, *PACKAGES, "@types/node@22.19.1"],
        [str(binaries / "openapi-typescript"), str(document), "-o", str(folder / "schema.ts")],
        [str(binaries / "tsc"), *strict, *modules, str(folder / "program.ts")],
    ):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stdout + done.stderr
    (folder / "package.json").write_text('{"type": "module"}')
    return folder / "program.js"


@pytest.mark.long
def test_typescript_client_proposes_waits_and_reads(
    program: Path, api: Api, reviewer: Reviewer, server: MemoryServer
) -> None:
    with served(application) as url:
        environment = {"PATH": os.environ["PATH"], "URL": url, "TOKEN": api.secret}
        with subprocess.Popen(
            ["node", str(program)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            action_id = process.stdout.readline().strip()
            reviewer.decide(action_id, "approve")
            work()
            said, wrong = process.communicate(timeout=60)
    assert process.returncode == 0, wrong
    assert json.loads(said) == {
        "recipients": 1,
        "listed": [action_id],
        "subjects": ["From a generated client"],
        "refused": "not_found",
    }
    assert len(server.ledger) == 1
