"""The compose file: no service runs as root or writes where it may not, and its commands start.

No container engine is needed: the structure is checked, and the commands of the containers run as
plain processes.
"""

import json
import os
import re
import socket
import subprocess
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.contrib.staticfiles.finders import get_finders
from django.core.management import get_commands, load_command_class

from mailhub.environment import Environment
from mailhub.intake.rules import ANONYMOUS_BYTES, MAIL_BYTES
from tests.support.processes.person import request
from tests.support.processes.programs import (
    PROJECT,
    WorkerProcess,
    environment,
    until,
)
from tests.support.processes.template import KEYS, begin_migrated
from tests.support.servers.services import free_port
from tools.surfaces.openapi.document import build_document

FILE: dict[str, Any] = yaml.safe_load((PROJECT / "docker-compose.yml").read_text())
DOCKERFILE = (PROJECT / "Dockerfile").read_text()
SERVICES: dict[str, dict[str, Any]] = FILE["services"]
OURS = [name for name, service in SERVICES.items() if service["image"].startswith("mailhub")]
static = pytest.mark.static


@static
@pytest.mark.parametrize("name", SERVICES)
def test_container_gains_no_rights_and_writes_only_as_told(name: str) -> None:
    service = SERVICES[name]
    assert "no-new-privileges:true" in service["security_opt"]
    assert service.get("read_only") is True or name == "rabbitmq"
    if name in OURS:
        assert service["user"] == "10001:10001"
        assert service["cap_drop"] == ["ALL"]
        assert "ports" not in service
    assert "ports" not in service or name == "proxy"


@static
def test_default_queue_is_the_one_that_needs_no_server() -> None:
    assert SERVICES["web"]["environment"]["MAILHUB_QUEUE"] == "${MAILHUB_QUEUE:-database}"
    always = {name for name, service in SERVICES.items() if "profiles" not in service}
    assert not always & {"redis", "rabbitmq"}


@static
@pytest.mark.parametrize("name", SERVICES)
def test_container_cannot_use_up_the_machine(name: str) -> None:
    service = SERVICES[name]
    assert service["logging"]["options"].keys() == {"max-size", "max-file"}
    assert service["mem_limit"]
    assert service["pids_limit"]
    for mount in service.get("tmpfs", ()):
        assert re.search(r":(.*,)?size=\d+m", mount), mount


@static
@pytest.mark.parametrize("name", [name for name in SERVICES if name not in OURS])
def test_image_names_a_line_that_gets_corrections(name: str) -> None:
    # The versions of PostgreSQL have two numbers, so its line has one.
    line = r"17" if name == "postgres" else r"\d+\.\d+"
    assert re.fullmatch(rf"\$\{{[A-Z]+_IMAGE:-\w+:{line}-alpine\}}", SERVICES[name]["image"])


@static
def test_base_of_the_image_is_the_same_line_everywhere() -> None:
    (default,) = re.findall(r"^ARG PYTHON_IMAGE=(\S+)$", DOCKERFILE, re.MULTILINE)
    assert re.fullmatch(r"python:\d+\.\d+-slim", default)
    for name in ("web", "stream"):
        assert SERVICES[name]["build"]["args"]["PYTHON_IMAGE"] == f"${{PYTHON_IMAGE:-{default}}}"


@static
def test_pins_name_each_image_with_the_digest_of_today(tmp_path: Path) -> None:
    docker = tmp_path / "docker"
    docker.write_text(f"#!/bin/sh\n[ $1 = buildx ] && echo sha256:{'0' * 64}\n")
    docker.chmod(0o755)
    done = subprocess.run(
        [PROJECT / "bin/pin-images"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    pinned = dict(line.split("=", 1) for line in done.stdout.splitlines())
    text = (PROJECT / "docker-compose.yml").read_text()
    used = dict(re.findall(r"\$\{([A-Z]+_IMAGE):-([^}]+)\}", text))
    assert pinned == {name: f"{image}@sha256:{'0' * 64}" for name, image in used.items()}
    assert set(pinned) == {
        f"{name}_IMAGE" for name in "CADDY POSTGRES PYTHON RABBITMQ REDIS".split()
    }


@static
def test_each_container_runs_a_target_of_the_dockerfile() -> None:
    targets = set(re.findall(r"^FROM \S+ AS (\S+)$", DOCKERFILE, re.MULTILINE))
    built = {name: SERVICES[name]["build"]["target"] for name in OURS}
    assert set(built.values()) <= targets
    assert {name for name, target in built.items() if target == "stream"} == {"stream"}
    assert {SERVICES[name]["image"] for name in built if built[name] == "stream"} == {
        "mailhub-stream"
    }


@static
@pytest.mark.parametrize("name", OURS)
def test_every_setting_reaches_every_container(name: str) -> None:
    service = SERVICES[name]
    assert service["env_file"] == [{"path": ".env", "required": False}]
    # A value here overrides .env; only these belong to the container itself.
    ours = {"MAILHUB_HOME": "/data"}
    for variable, value in service["environment"].items():
        if variable in ours:
            assert value == ours[variable]
        elif not variable.endswith("_FILE"):  # a value in the environment overrides NAME_FILE
            assert re.fullmatch(rf"\$\{{{variable}:[-?].*\}}", value), variable
    shown = re.findall(r"^([A-Z][A-Z0-9_]*)=", (PROJECT / ".env.example").read_text(), re.MULTILINE)
    assert set(shown) == set(Environment.model_fields), "a setting is missing in .env.example"


@static
def test_proxy_limits_bodies_as_the_application_does() -> None:
    caddy = FILE["configs"]["caddyfile"]["content"]
    assert re.search(r"timeouts \{[^}]*read_header 10s\s+read_body 2m", caddy)
    assert int(re.findall(r"max_size (\d+)MB", caddy)[0]) * 1_000_000 > MAIL_BYTES
    assert int(re.findall(r"request_buffers (\d+)KiB", caddy)[0]) * 1024 > ANONYMOUS_BYTES


@static
def test_proxy_keeps_whole_what_strangers_may_read_slowly() -> None:
    caddy = FILE["configs"]["caddyfile"]["content"]
    room = int(re.findall(r"response_buffers (\d+)MiB", caddy)[0]) * 1024**2
    assert re.search(r"@sources path \*\.map\s+handle @sources \{\s+respond 404", caddy)
    sizes = {
        name: folder.size(name)
        for finder in get_finders()
        for name, folder in finder.list([])
        if not name.endswith(".map")
    }
    assert max(sizes.values()) < room, max(sizes, key=lambda name: sizes[name])
    assert len(json.dumps(build_document())) < room


@static
def test_redis_asks_for_a_password() -> None:
    redis = SERVICES["redis"]
    assert redis["command"][1:3] == ["--aclfile", "/run/secrets/redis_users"]
    assert redis["secrets"] == ["redis_users"]
    assert redis["networks"] == ["backend"]
    assert all("REDIS_URL" not in SERVICES[name]["environment"] for name in OURS)


@static
def test_image_has_no_root_and_installs_packages_by_hash() -> None:
    lines = DOCKERFILE.splitlines()
    assert "USER 10001:10001" in lines
    assert any("--require-hashes" in line for line in lines)
    ignored = (PROJECT / ".dockerignore").read_text().splitlines()
    assert ignored[1] == "*"
    copies = [line.split()[1:-1] for line in lines if re.match(r"COPY (?!--from)", line)]
    for copied in chain.from_iterable(copies):
        assert f"!{copied}" in ignored
        assert (PROJECT / copied).exists()


@static
@pytest.mark.parametrize("name", OURS)
def test_container_settings_are_those_that_mailhub_reads(name: str) -> None:
    service = SERVICES[name]
    for variable, value in service["environment"].items():
        assert variable.removesuffix("_FILE") in Environment.model_fields
        if variable.endswith("_FILE"):
            secret = value.removeprefix("/run/secrets/")
            assert secret in service["secrets"]
            # Only files that are not in the repository.
            assert FILE["secrets"][secret]["file"].startswith("var/")
        else:
            assert variable not in (
                "SECRET_KEY",
                "MAILHUB_ENCRYPTION_KEYS",
                "DATABASE_URL",
                "MAILHUB_METRICS_TOKEN",
            )


@static
def test_named_services_exist_and_have_health_checks() -> None:
    for name, service in SERVICES.items():
        for other, how in service.get("depends_on", {}).items():
            if how["condition"] == "service_healthy":
                assert "test" in SERVICES[other]["healthcheck"], (name, other)
            else:
                assert (how["condition"], SERVICES[other]["restart"]) == (
                    "service_completed_successfully",
                    "no",
                )
            # A service of an inactive profile must not block the others.
            assert how.get("required", True) is ("profiles" not in SERVICES[other])
        for kind in ("secrets", "networks"):
            assert set(service.get(kind, ())) <= FILE[kind].keys()
        assert {config["source"] for config in service.get("configs", ())} <= FILE["configs"].keys()
        named = {volume.split(":")[0] for volume in service.get("volumes", ())} - {
            "./var/secrets/more"
        }
        assert named <= FILE["volumes"].keys()


@static
@pytest.mark.parametrize(
    "name", [name for name in OURS if SERVICES[name]["command"][:2] == ["python", "manage.py"]]
)
def test_command_of_a_container_knows_its_options(name: str) -> None:
    _, program, command, *options = SERVICES[name]["command"]
    assert (PROJECT / program).exists()
    found = load_command_class(get_commands()[command], command)
    # An option that it does not know ends the program.
    found.create_parser(program, command).parse_args(options)


@pytest.mark.process
def test_web_container_answers_its_own_health_check(tmp_path: Path) -> None:
    port = free_port()
    web = SERVICES["web"]
    command = " ".join(web["command"]).replace("0.0.0.0", "127.0.0.1").replace("8000", str(port))
    process = subprocess.Popen(
        [sys.executable, *command.split()[1:]],
        env=environment(
            tmp_path,
            KEYS | {"DATABASE_URL": f"sqlite:///{tmp_path}/db"},
        ),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=PROJECT,
    )
    try:
        until(lambda: listens(port), seconds=30)
        assert request(f"http://127.0.0.1:{port}/healthz").status == 200
        check = [part.replace(":8000", f":{port}") for part in web["healthcheck"]["test"][1:]]
        assert subprocess.run([sys.executable, *check[1:]], timeout=30, check=False).returncode == 0
        process.terminate()
        _, said = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 0, said


@pytest.mark.process
def test_worker_container_is_well_while_its_worker_is(tmp_path: Path) -> None:
    begin_migrated(tmp_path)
    check = [
        sys.executable,
        *(
            part.replace("/tmp", str(tmp_path))
            for part in SERVICES["worker"]["healthcheck"]["test"][2:]
        ),
    ]
    assert "manage.py" not in check  # Django takes a second of processor time to start

    def is_well() -> bool:
        return not subprocess.run(check, capture_output=True, timeout=30, check=False).returncode

    assert not is_well()
    with WorkerProcess(tmp_path, **KEYS, TMPDIR=str(tmp_path)):
        until((tmp_path / "mailhub-worker").exists)
        assert is_well()
    os.utime(tmp_path / "mailhub-worker", (0, 0))
    assert not is_well()


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
