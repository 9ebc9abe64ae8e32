"""The protocol's own conformance suite passes on all features that we offer.

It comes from the npm registry.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mailhub.asgi import application
from tests.conformance.npm import CONFORMANCE, install
from tests.conformance.served import served
from tests.conftest import Api

pytestmark = [
    pytest.mark.long,
    pytest.mark.process,
    pytest.mark.timeout(600),
    pytest.mark.django_db(transaction=True),
]

ERAS = ("2025-11-25", "2026-07-28")
SCENARIO_SECONDS = 60

OFFERED = (
    "server-initialize", "server-stateless", "ping", "tools-list", "tools-call-simple-text",
    "tools-call-error", "server-sse-polling", "server-sse-multiple-streams", "dns-rebinding-protection", "caching",
    "http-header-validation", "sep-2164-resource-not-found", "input-required-result-missing-input-response",
    "input-required-result-unsupported-methods", "input-required-result-ignore-extra-params",
    "input-required-result-validate-input",
)  # fmt: skip
# These scenarios also check features that we do not offer: a tool of the suite that asks the client
# for input, prompts and resources.
NOT_OFFERED_CHECKS = {
    "server-stateless": {
        "sep-2575-server-rejects-undeclared-capability",
        "sep-2575-missing-capability-http-400",
    },
    "caching": {
        "sep-2549-prompts-list-caching-hints",
        "sep-2549-resources-list-caching-hints",
        "sep-2549-resources-templates-list-caching-hints",
        "sep-2549-resources-read-caching-hints",
    },
}
# Prefixes of names: features that we do not offer, and tools that only the suite's own server has.
NOT_OFFERED = (
    "server-session-lifecycle",
    "logging-", "completion-", "resources-", "prompts-", "elicitation-", "tasks-", "sep-2640-skills-",
    "tools-call-image", "tools-call-audio", "tools-call-embedded-resource", "tools-call-mixed-content",
    "tools-call-with-logging", "tools-call-with-progress", "tools-call-sampling", "tools-call-elicitation",
    "json-schema-2020-12", "http-custom-header-server-validation",
    "input-required-result-basic-", "input-required-result-request-state", "input-required-result-multi",
    "input-required-result-non-tool-request", "input-required-result-result-type",
    "input-required-result-tampered-state", "input-required-result-capability-check",
)  # fmt: skip


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the command line of the suite, installed in a temporary folder."""
    modules = install(tmp_path_factory.mktemp("npm"), CONFORMANCE)
    return [
        str(modules / ".bin/node"),
        str(modules / "@modelcontextprotocol/conformance/dist/index.js"),
    ]


@pytest.fixture(scope="module")
def scenarios(suite: list[str]) -> dict[str, tuple[str, ...]]:
    """Return the server scenarios of the suite, each with those of our protocol versions that it
    covers.
    """
    listed = listed_scenarios(suite, "Server scenarios")
    return {
        name: tuple(era for era in ERAS if era in versions) for name, versions in listed.items()
    }


def listed_scenarios(suite: list[str], section: str) -> dict[str, list[str]]:
    """Return the scenarios in a section of the suite's list, each with its versions."""
    listed = re.split(rf"^{section}", run(suite, "list").stdout, flags=re.MULTILINE)[1]
    found = re.findall(r"^\s+- (\S+) \[(.*)\]$", listed.partition("\n\n")[0], re.MULTILINE)
    return {name: versions.split(",") for name, versions in found}


@pytest.fixture
def url(api: Api) -> Iterator[str]:
    """Serve the application with the token added to each request, because the suite cannot send
    one.
    """

    async def with_token(scope: Any, receive: Any, send: Any) -> None:
        headers = [*scope["headers"], (b"authorization", f"Bearer {api.secret}".encode())]
        await application({**scope, "headers": headers}, receive, send)

    with served(with_token) as address:
        yield f"{address}/mcp"


def run(suite: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*suite, *arguments], capture_output=True, text=True, timeout=SCENARIO_SECONDS, check=False
    )


def test_every_scenario_is_run_or_about_a_missing_feature(
    scenarios: dict[str, tuple[str, ...]],
) -> None:
    assert set(OFFERED) <= set(scenarios)
    assert [
        name for name in scenarios if name not in OFFERED and not name.startswith(NOT_OFFERED)
    ] == []


@pytest.mark.parametrize("name", OFFERED)
def test_scenario_passes(
    suite: list[str], scenarios: dict[str, tuple[str, ...]], url: str, tmp_path: Path, name: str
) -> None:
    assert scenarios[name]
    for era in scenarios[name]:
        folder = tmp_path / era
        done = run(
            suite,
            "server",
            "--url",
            url,
            "--scenario",
            name,
            "--spec-version",
            era,
            "--output-dir",
            str(folder),
        )
        checks = [
            check for file in folder.rglob("checks.json") for check in json.loads(file.read_text())
        ]
        failed = {
            check["id"]: check.get("errorMessage")
            for check in checks
            if check["status"] == "FAILURE"
        }

        assert {check["status"] for check in checks} & {"SUCCESS", "WARNING"}, (
            done.stdout + done.stderr
        )
        assert {
            id_: why for id_, why in failed.items() if id_ not in NOT_OFFERED_CHECKS.get(name, ())
        } == {}
