"""Requests that schemathesis makes from the OpenAPI document find no answer that it does not name."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mailhub.asgi import application
from tests.conformance.served import served
from tests.conftest import Api

# In the other tests `check_answer` compares each answer with the document.
pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(600),
    pytest.mark.long,
]
SCHEMATHESIS = Path(sys.executable).with_name("schemathesis")
# A schema cannot say all that a parameter must be, for example one of two ids or a usable host. So
# a valid request may get a 422.
LEFT_OUT = "positive_data_acceptance"


def test_requests_and_sequences_are_answered_as_it_says(
    api: Api, tmp_path: Path, settings: Any
) -> None:
    """Run schemathesis with a fixed seed; fail with its report if it found a defect."""
    settings.MAILHUB_PROPOSALS_PER_MINUTE = 100_000
    settings.MCP_M365_TOOLS = []
    with served(application) as url:
        done = subprocess.run(
            [
                *(str(SCHEMATHESIS), "--no-color", "run", f"{url}/api/v1/openapi.json"),
                *("--header", f"Authorization: Bearer {api.secret}"),
                *("--checks", "all", "--exclude-checks", LEFT_OUT, "--seed", "20261123"),
                *("--warnings", "off", "--continue-on-failure", "--max-examples", "12"),
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=570,
        )
    assert done.returncode == 0, done.stdout + done.stderr
