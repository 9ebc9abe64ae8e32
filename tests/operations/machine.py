"""A machine with mailhub on it as docs/operate/deploy.md says, its services as child processes, and
the Prometheus of another machine.
"""

import contextlib
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from tests.support.processes.person import request
from tests.support.processes.programs import ACTIVATE, KEPT, PROJECT, session_of
from tests.support.servers.services import Service as Server
from tests.support.servers.services import free_port

DEPLOY = PROJECT / "deploy"
RESTART_SECONDS = 2.0  # RestartSec of the units
STOP_SECONDS = 120.0
HOME_BYTES = 700_000_000  # more than MailhubHomeNearlyFull asks for


class Service:
    """A service that is started again after each end, as `Restart=always` does."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        env: Mapping[str, str],
        log: Path,
        port: socket.socket | None,
    ) -> None:
        self._files = [port.fileno()] if port else []
        activate = [sys.executable, "-c", ACTIVATE, str(self._files[0])] if port else []
        self._command, self._folder, self._env, self._log = [*activate, *command], folder, env, log
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()

    def _keep(self) -> None:
        while True:
            with self._lock, self._log.open("ab") as log:
                if self._ended.is_set():
                    return
                self._process = subprocess.Popen(
                    self._command,
                    cwd=self._folder,
                    env=self._env,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    pass_fds=self._files,
                )
            self._process.wait()
            self._ended.wait(RESTART_SECONDS)

    def kill(self) -> None:
        """Kill all of its processes at once; it is started again, unless it was told to end."""
        if self._process is not None:
            for pid in session_of(self._process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def tell_to_end(self, signum: signal.Signals = signal.SIGTERM) -> None:
        with self._lock:
            self._ended.set()
            if self._process is not None and self._process.poll() is None:
                self._process.send_signal(signum)

    def wait(self) -> None:
        self._thread.join(STOP_SECONDS)
        self.kill()  # what is left of its control group


class Machine:
    """Folders in the places of /opt, /etc, /var/lib and /var/backups, and the services on them."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        self.folder = folder
        self.code, self.home = folder / "mailhub", folder / "home"  # the code is a link
        self.backups, self.log = folder / "backups", folder / "log"
        self._secrets = folder / "secrets"
        for each in (self.backups, self.log, self._secrets):
            each.mkdir(mode=0o700, parents=True)
        self.settings = dict(settings)
        self.web_port, self.stream_port = free_port(), free_port()
        self._ports: dict[str, socket.socket] = {}
        self.services: dict[str, Service] = {}

    def mount(self) -> None:
        """Give it an empty home on a disk of its own."""
        self.home.mkdir(mode=0o700, exist_ok=True)
        options = f"size={HOME_BYTES},mode=700"
        mount = ["mount", "-t", "tmpfs", "-o", options, "mailhub", str(self.home)]
        subprocess.run(mount, check=True)

    def unmount(self) -> None:
        subprocess.run(["umount", "--lazy", self.home], check=True)

    def link(self, code: Path) -> None:
        self.code.unlink(missing_ok=True)
        self.code.symlink_to(code)

    def secret(self, name: str, value: str) -> None:
        (self._secrets / name).write_text(value)

    def environment(self) -> dict[str, str]:
        """Return what the units give: common.conf, the drop-in for RQ, and mailhub.env."""
        text = (DEPLOY / "systemd/mailhub-.service.d/common.conf").read_text()
        lines = re.findall(r"^Environment=(.*)$", text, re.MULTILINE)
        given = dict(pair.split("=", 1) for line in lines for pair in line.split())
        given |= {"REDIS_URL_FILE": "%d/redis_url", "MAILHUB_QUEUE": "rq"}
        places = {"%d": str(self._secrets), "/var/lib/mailhub": str(self.home)}
        for here, there in places.items():
            given = {name: value.replace(here, there) for name, value in given.items()}
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        return kept | given | self.settings

    def commands(self, service: str) -> list[list[str]]:
        """Return the commands of a unit, or of the compose file if the release has no units."""
        units = self.code / "deploy/systemd"
        if units.exists():
            unit = (units / f"mailhub-{service}.service").read_text()
            text = "\n".join(re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE))
            text = text.replace("8000", str(self.web_port)).replace("8001", str(self.stream_port))
            text = text.replace("%%", "%").replace("/var/backups/mailhub", str(self.backups))
        else:
            compose = yaml.safe_load((self.code / "docker-compose.yml").read_text())
            port = self.stream_port if service == "stream" else self.web_port
            text = shlex.join(compose["services"][service]["command"])
            text = f"/opt/mailhub/.venv/bin/{text}".replace("0.0.0.0", "127.0.0.1")
            text = text.replace("8000", str(port))
        text = text.replace("/opt/mailhub", str(self.code))
        return [shlex.split(line) for line in text.splitlines()]

    def run(self, service: str) -> None:
        """Run a unit of the type oneshot."""
        for command in self.commands(service):
            self._finish(command, "")

    def manage(self, *arguments: str, stdin: str = "") -> str:
        program = [str(self.code / ".venv/bin/python"), "manage.py", *arguments]
        return self._finish(program, stdin)

    def _finish(self, command: Sequence[str], stdin: str) -> str:
        done = subprocess.run(
            command,
            cwd=self.code,
            env=self.environment(),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def start(self, *services: str) -> None:
        for name in services:
            [command] = self.commands(name.partition("-")[0])  # worker-2 is a copy of the unit
            log = self.log / f"{name}.log"
            env = self.environment()
            self.services[name] = Service(command, self.code, env, log, self._ports.get(name))

    def listen(self, **ports: int) -> None:
        """Open the ports of these services for good, as their socket units do."""
        for name, port in ports.items():
            self._ports[name] = socket.create_server(("127.0.0.1", port), backlog=4096)

    def close_ports(self) -> None:
        while self._ports:
            self._ports.popitem()[1].close()

    def stop(self, *services: str, signum: signal.Signals = signal.SIGTERM) -> None:
        ended = [self.services.pop(name) for name in services or [*self.services]]
        for service in ended:
            service.tell_to_end(signum)
        if signum == signal.SIGKILL:
            for service in ended:
                service.kill()
        for service in ended:
            service.wait()

    def logged(self, event: str) -> int:
        """Return how many lines of all logs have this event."""
        needle = f'"event": "{event}"'
        return sum(path.read_text(errors="replace").count(needle) for path in self.log.iterdir())


class Prometheus(Server):
    """A Prometheus with the alarms and the scrape of deploy/prometheus."""

    name = "prometheus"

    def __init__(self, mailhub: str, token: str) -> None:
        super().__init__()
        self._mailhub, self._token = mailhub, token

    def prepare(self) -> None:
        config = yaml.safe_load((DEPLOY / "prometheus/scrape.yml").read_text())
        config["rule_files"] = [str(DEPLOY / "prometheus/mailhub.rules.yml")]
        (job,) = config["scrape_configs"]
        job |= {"scheme": "http", "static_configs": [{"targets": [self._mailhub]}]}
        job["authorization"]["credentials_file"] = str(self.folder / "token")
        (self.folder / "token").write_text(self._token)
        (self.folder / "prometheus.yml").write_text(yaml.safe_dump(config))

    def command(self) -> Sequence[str | Path]:
        options = {
            "config.file": self.folder / "prometheus.yml",
            "storage.tsdb.path": self.folder / "data",
            "web.listen-address": f"127.0.0.1:{self.port}",
            "log.level": "warn",
        }
        return ["prometheus", *(f"--{name}={value}" for name, value in options.items())]

    def is_ready(self) -> bool:
        try:
            return request(f"http://127.0.0.1:{self.port}/-/ready").status == 200
        except OSError:
            return False

    def firing(self) -> set[str]:
        """Return the names of the alarms that fire."""
        answer = request(f"http://127.0.0.1:{self.port}/api/v1/alerts").content
        alarms = json.loads(answer)["data"]["alerts"]
        return {each["labels"]["alertname"] for each in alarms if each["state"] == "firing"}
