"""The units of systemd are valid, start commands that exist, and leave services few rights."""

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class

from mailhub.environment import Environment
from tests.support.processes.programs import ACTIVATE, PROJECT, SECONDS, environment
from tests.support.processes.template import KEYS, begin_migrated

pytestmark = pytest.mark.static
UNITS = PROJECT / "deploy" / "systemd"
SERVICES = sorted(UNITS.glob("*.service"))
COMMON = (UNITS / "mailhub-.service.d" / "common.conf").read_text()


def command_of(unit: Path) -> str:
    parser = ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(unit)
    return parser["Service"]["ExecStart"]


@pytest.mark.parametrize("unit", SERVICES, ids=lambda unit: unit.stem)
def test_unit_starts_a_command_with_options_that_it_knows(unit: Path) -> None:
    started = command_of(unit)
    found = re.search(r"manage\.py (\w+)([^'\"]*)", started)
    assert found is not None
    name, options = found[1], found[2].split()
    command = load_command_class(get_commands()[name], name)
    command.create_parser("manage.py", name).parse_args(
        [*options, *(["folder"] if name == "backup" else [])]
    )


def test_secrets_are_files_and_settings_exist() -> None:
    given = re.findall(r"(?<=[ =])([A-Z_]+)=(\S+)", COMMON)
    for variable, value in given:
        if variable.endswith("_FILE"):
            credential = value.removeprefix("%d/")
            assert f"LoadCredential={credential}:/etc/mailhub/secrets/{credential}\n" in COMMON
        if variable != "PYTHONUNBUFFERED":
            assert variable.removesuffix("_FILE") in Environment.model_fields
    assert {"SECRET_KEY_FILE", "MAILHUB_ENCRYPTION_KEYS_FILE"} <= {name for name, _ in given}


@pytest.mark.process
@pytest.mark.parametrize("service", ["web", pytest.param("stream", marks=pytest.mark.long)])
def test_request_waits_at_the_socket_of_a_service(tmp_path: Path, service: str) -> None:
    """Send a request before the server is there, as while an update replaces it."""
    unit = UNITS / f"mailhub-{service}.service"
    assert f"Requires=mailhub-migrate.service mailhub-{service}.socket\n" in unit.read_text()
    command = command_of(unit).replace("/opt/mailhub/.venv/bin", str(Path(sys.executable).parent))
    begin_migrated(tmp_path)
    with (
        socket.create_server(("127.0.0.1", 0)) as port,
        socket.create_connection(port.getsockname(), SECONDS) as client,
    ):
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        activate = [sys.executable, "-c", ACTIVATE, str(port.fileno())]
        process = subprocess.Popen(
            [*activate, *shlex.split(command)],
            env=environment(tmp_path, KEYS),
            cwd=PROJECT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[port.fileno()],
        )
        try:
            assert client.recv(100).startswith(b"HTTP/1.1 200 OK")
        finally:
            process.terminate()
            process.wait(SECONDS)


@pytest.mark.long
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="this system has no systemd")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    shutil.copytree(UNITS, tmp_path / "units")
    for unit in (tmp_path / "units").rglob("*.*"):
        if unit.is_file():  # the programs of this checkout
            text = unit.read_text().replace(
                "/opt/mailhub/.venv/bin", str(Path(sys.executable).parent)
            )
            unit.write_text(text.replace("/opt/mailhub", str(PROJECT)))
    names = sorted(str(path) for path in (tmp_path / "units").glob("mailhub*.*") if path.is_file())
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--generators=no", *names],
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}/units:"},
        capture_output=True,
        text=True,
        check=False,
    )
    ours = [line for line in done.stderr.splitlines() if "mailhub" in line]
    assert (done.returncode, ours) == (0, []), done.stderr
