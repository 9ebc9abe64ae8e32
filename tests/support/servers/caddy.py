"""Caddy with the configuration of the compose file, in front of two servers of this machine."""

import re
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.support.servers.services import Service, ServiceError

COMPOSE = Path(__file__).resolve().parents[3] / "docker-compose.yml"


class Caddy(Service):
    """The proxy of the compose file, on loopback and without TLS."""

    name = "caddy"

    def __init__(self, *, web: int, stream: int) -> None:
        """Take the ports of the two servers."""
        super().__init__()
        self._ports = {"web:8000": web, "stream:8000": stream}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def prepare(self) -> None:
        file: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
        text = str(file["configs"]["caddyfile"]["content"])
        text = text.replace("{$$MAILHUB_PUBLIC_URL}", self.url)
        for name, port in self._ports.items():
            text = text.replace(name, f"127.0.0.1:{port}")
        # Debian's Caddy 2.6.2 knows the options by their old names, with one size for both.
        text = re.sub(r"request_buffers \w+", "buffer_requests", text)
        text = re.sub(r"response_buffers (\w+)", r"buffer_responses\n max_buffer_size \1", text)
        (self.folder / "Caddyfile").write_text("{\n admin off\n" + text.lstrip().removeprefix("{"))

    def command(self) -> Sequence[str | Path]:
        program = shutil.which("caddy")
        if program is None:
            raise ServiceError("caddy is not installed (Debian: apt-get install caddy)")
        places = [f"{name}={self.folder}" for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME")]
        config = self.folder / "Caddyfile"
        return ["env", *places, program, "run", "--config", config, "--adapter", "caddyfile"]

    def is_ready(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True
