"""Web servers of the benchmark: mailhub and a bare Django, under WSGI and ASGI."""

import http.client
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.approvals.queues.conftest import Worker
from tests.support.processes.proc import proc
from tests.support.processes.programs import PROJECT, SECONDS, session_of, this_test, until
from tests.support.servers.services import free_port

ASKED: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "list_mailboxes", "arguments": {}},
}

# gunicorn as in docker-compose.yml but with one process, and uvicorn as `manage.py run` starts it.
SERVERS = {
    "wsgi": [
        "gunicorn",
        "--config=python:mailhub.gunicorn_settings",
        "--workers=1",
        "--keep-alive=60",
        "--bind=127.0.0.1:{port}",
    ],
    "asgi": ["uvicorn", "--host=127.0.0.1", "--no-access-log", "--port={port}"],
}


class Web(Worker):
    """One web server of mailhub, or of the bare application, on its own port."""

    def __init__(self, home: Path, package: str, door: str, **changes: object) -> None:
        self.port = free_port()
        self._kept: list[http.client.HTTPConnection] = []
        home.mkdir(parents=True, exist_ok=True)
        options = [each.format(port=self.port) for each in SERVERS[door]]
        command = [sys.executable, "-m", *options, f"{package}.{door}:application"]
        super().__init__(home, command, PYTHONPATH=PROJECT, **changes)

    def client(self, path: str, token: str = "") -> Callable[[Any], bytes]:
        """Return a call that posts to one path over a kept connection."""
        kept = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        self._kept.append(kept)
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Authorization": f"Bearer {token}",
        }

        def post(body: Any) -> bytes:
            kept.request("POST", path, json.dumps(body), headers)
            answer = kept.getresponse()
            said = answer.read()
            assert answer.status < 300, (answer.status, said[:300])
            return said

        return post

    def answers(self, path: str) -> bool:
        try:
            post = self.client(path)
            post(ASKED | {"subject": "x", "body": "x"})
        except OSError:
            return False
        except AssertionError:  # it answers, even if with a refusal
            return True
        return True

    def kill(self) -> None:
        for kept in self._kept:
            kept.close()
        super().kill()

    def memory(self) -> int:
        """Return the bytes of its one worker: the private ones, and its share of the shared
        ones.
        """
        assert self.process is not None
        worker = max(session_of(self.pid))
        lines = proc(worker, "smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024


@contextmanager
def bare(home: Path, door: str) -> Iterator[Web]:
    database = str(this_test()["DATABASE_URL"])
    with Web(home / f"bare-{door}", "tests.bench.bare", door, BARE_DATABASE=database) as web:
        until(lambda: web.answers("/view"), say=web.log)
        yield web
