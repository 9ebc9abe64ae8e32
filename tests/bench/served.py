"""The web server of the benchmarks, started as docker-compose.yml does."""

import http.client
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.approvals.queues.conftest import Site, Worker
from tests.support.processes.proc import proc
from tests.support.processes.programs import PROJECT, SECONDS, until
from tests.support.servers.services import free_port


class Web(Worker):
    """One web server of mailhub on its own port."""

    def __init__(self, home: Path, *, workers: int, **changes: object) -> None:
        self.port = free_port()
        self._kept: list[http.client.HTTPConnection] = []
        home.mkdir(parents=True, exist_ok=True)
        options = f"web --port={self.port} --workers={workers}"
        command = [sys.executable, str(PROJECT / "manage.py"), *options.split()]
        super().__init__(home, command, PYTHONPATH=PROJECT, **changes)

    def client(self, path: str, token: str = "") -> Callable[[Any], bytes]:
        """Return a call that posts to one path over a kept connection."""
        kept = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        self._kept.append(kept)
        headers = {
            "Content-Type": "application/json",
            "Authorization": f"Bearer {token}",
        }

        def post(body: Any) -> bytes:
            return _exchange(kept, "POST", path, json.dumps(body), headers)

        return post

    def browser(self, cookies: dict[str, str]) -> Callable[..., bytes]:
        """Return a call that gets a page, or posts a form, over a kept connection."""
        kept = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        self._kept.append(kept)
        headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())}

        def ask(path: str, form: dict[str, Any] | None = None) -> bytes:
            if form is None:
                return _exchange(kept, "GET", path, "", headers)
            kind = {"Content-Type": "application/x-www-form-urlencoded"}
            return _exchange(kept, "POST", path, urlencode(form), headers | kind)

        return ask

    def answers(self, path: str) -> bool:
        try:
            self.client(path)({})
        except OSError:
            return False
        except AssertionError:  # it answers, even if with a refusal
            return True
        return True

    def kill(self) -> None:
        for kept in self._kept:
            kept.close()
        super().kill()


def _exchange(
    kept: http.client.HTTPConnection, method: str, path: str, body: str, headers: dict[str, str]
) -> bytes:
    kept.request(method, path, body, headers)
    answer = kept.getresponse()
    said = answer.read()
    assert answer.status < 400, (answer.status, said[:300])
    # A page that asks for a sign-in is not the measured one.
    assert "/account/" not in answer.getheader("Location", ""), answer.getheader("Location")
    return said


def cpu_of(pid: int) -> float:
    """Return the CPU seconds that a process has used."""
    fields = proc(pid, "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def ours(site: Site, *, workers: int, **changes: object) -> Iterator[Web]:
    """Serve mailhub on the database of the site, without limits for its clients."""
    settings = {name: value for name, value in site.environment.items() if name != "PYTHONPATH"}
    settings |= {"ALLOWED_HOSTS": "127.0.0.1", "MAILHUB_PROPOSALS_PER_MINUTE": 1_000_000}
    settings |= {"MAILHUB_REQUESTS_PER_MINUTE": 1_000_000, "MAILHUB_PENDING_PROPOSALS": 100_000}
    settings |= {"MAILHUB_SECOND_FACTOR": "optional"}
    with Web(site.home / "web", workers=workers, **(settings | changes)) as web:
        until(lambda: web.answers("/api/v1/tools/list_mailboxes"), say=web.log)
        yield web
