"""The bundle for Claude Desktop and the entry for the MCP registry describe the client."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import anyio
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

from tests.conftest import Api
from tests.support.processes.programs import PROJECT
from tests.support.processes.shared import UV
from tests.support.servers.m365 import npm_folder

FOLDER = PROJECT / "clients/python"
PACKER = "@anthropic-ai/mcpb@2"
SECONDS = 120


def read(name: str) -> Any:
    return json.loads((FOLDER / name).read_text())


def test_versions_and_names_agree() -> None:
    project = tomllib.loads((FOLDER / "pyproject.toml").read_text())["project"]
    bundle, entry = read("manifest.json"), read("server.json")
    (package,) = entry["packages"]
    versions = {bundle["version"], entry["version"], package["version"]}
    assert versions == {project["version"]}
    assert package["identifier"] == project["name"]
    (command,) = project["scripts"]
    assert bundle["server"]["mcp_config"]["args"][-1] == command
    assert [each["value"] for each in package["packageArguments"]] == [command]
    assert {each["name"] for each in package["environmentVariables"]} == set(
        bundle["server"]["mcp_config"]["env"]
    )
    # The registry looks for this in the package's description to know its owner.
    assert f"mcp-name: {entry['name']}" in (FOLDER / "README.md").read_text()


@pytest.mark.long
@pytest.mark.process
@pytest.mark.timeout(600)
@pytest.mark.django_db(transaction=True)
def test_bundle_of_the_official_packer_connects(
    tmp_path: Path, request: pytest.FixtureRequest, door: str, api: Api
) -> None:
    packages = npm_folder(
        request.config, "install", "--no-audit", "--no-fund", "--no-save", "--prefix", ".", PACKER
    )
    packed = tmp_path / "mailhub.mcpb"
    done = subprocess.run(
        [packages / "node_modules/.bin/mcpb", "pack", FOLDER, packed],
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout.decode()
    with ZipFile(packed) as archive:
        archive.extractall(tmp_path / "bundle")

    started = read("manifest.json")["server"]["mcp_config"]
    filled = {"${user_config.url}": door, "${user_config.token}": api.secret}
    bundle = StdioServerParameters(
        command=str(UV),
        args=[each.replace("${__dirname}", str(tmp_path / "bundle")) for each in started["args"]],
        env={
            **os.environ,
            **{name: filled[value] for name, value in started["env"].items()},
            "UV_PYTHON": sys.executable,
        },
    )

    async def listed() -> set[str]:
        with anyio.fail_after(SECONDS):
            async with Client(bundle) as client:
                return {tool.name for tool in (await client.list_tools()).tools}

    assert "send_email" in anyio.run(listed)
