"""The send path in Firefox, driven by Puppeteer over WebDriver BiDi: Playwright's Firefox is another program."""

import json
import shutil
import subprocess
import uuid
from pathlib import Path

import pytest

from tests.conformance.npm import install
from tests.support.processes.mailhub import Mailhub

pytestmark = [
    pytest.mark.long,
    pytest.mark.browser,
    pytest.mark.process,
    pytest.mark.timeout(600),
]
SCRIPT = Path(__file__).parent / "firefox.mjs"
PUPPETEER = "puppeteer-core@25.16.0"
SECONDS = 300


def test_person_approves_and_edits_in_firefox(mailhub: Mailhub, tmp_path: Path) -> None:
    firefox = shutil.which("firefox-esr") or shutil.which("firefox")
    assert firefox, "Firefox is not installed. Run bin/system-packages long."
    modules = install(tmp_path, PUPPETEER)
    approved, edited = (mailhub.propose(f"Mail {uuid.uuid4().hex}")["id"] for _ in range(2))
    pages = [f"{mailhub.url}/actions/{each}/" for each in (approved, edited)]

    done = subprocess.run(
        [modules / ".bin/node", shutil.copy(SCRIPT, tmp_path), firefox, mailhub.new_link(), *pages],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["errors"], told["wider"]) == ([], 0), told  # nothing to scroll on a phone
    assert mailhub.action(approved)["state"] == "succeeded"
    review = mailhub.action(edited)["review"]
    assert (review["verdict"], review["changed"]) == ("edited", ["subject"])
