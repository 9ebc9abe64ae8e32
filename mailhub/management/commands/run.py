import shlex
import socket
import sys
import time
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from approvals.audit import key_check
from approvals.checks import GATE
from approvals.queues.slots import PROCESSES
from approvals.worker import heartbeats
from mailhub.first_run.prepare import prepare
from mailhub.first_run.supervisor import POLL_SECONDS, Supervisor
from mailhub.sandbox.server import Sandbox, load_state
from mailhub.sandbox.state import SANDBOX
from mailhub.settings import ENV

MANAGE = [sys.executable, str(Path(sys.argv[0]).resolve())]
SANDBOX_SECONDS = 20.0
WEB_SECONDS = 20.0


class Command(BaseCommand):
    help = "The whole of mailhub in the foreground: web server, worker, and the sandbox mail server on loopback."
    requires_system_checks = [GATE]  # the others load all pages; the web server makes them

    def handle(self, *args: Any, **options: Any) -> None:
        if _answers(ENV.HOST, ENV.PORT):
            raise CommandError(
                f"Port {ENV.PORT} on {ENV.HOST} is in use; choose another with PORT=…"
            )
        self.stderr.write(
            "Preparing the database and the servers …",
            style_func=str,  # not in red, because it is no error
        )
        supervisor = Supervisor()
        try:
            # In parallel, because each takes a second to load. The worker comes last, because
            # /statusz needs one: so sandbox.json is complete before /statusz says ok.
            with_sandbox = SANDBOX in settings.MAILHUB_LOOPBACK_SERVERS
            if with_sandbox:
                supervisor.start("sandbox", [*MANAGE, "sandbox"])
            call_command("migrate", verbosity=0, interactive=False)
            key_check.require()
            heartbeats.forget()
            supervisor.start("web", [*MANAGE, "web", "--host", ENV.HOST, "--port", str(ENV.PORT)])
            sandbox = self._sandbox(supervisor) if with_sandbox else None
            if supervisor.stopping:
                return
            prepared = prepare(sandbox) if sandbox else None
            # An RQ worker sends one mail at a time; a worker of another queue sends as many itself.
            for number in range(PROCESSES if settings.MAILHUB_QUEUE == "rq" else 1):
                supervisor.start(f"worker-{number}" if number else "worker", [*MANAGE, "worker"])
            _wait_for_web(supervisor)
            if not supervisor.stopping:
                self._welcome(prepared)
            supervisor.watch()
        finally:
            supervisor.end()

    def _sandbox(self, supervisor: Supervisor) -> Sandbox | None:
        deadline = time.monotonic() + SANDBOX_SECONDS
        while time.monotonic() < deadline and not supervisor.stopping:
            state = load_state(settings.MAILHUB_HOME)
            if (
                state
                and _answers(state.host, state.imap_port)
                and _answers(state.host, state.smtp_port)
            ):
                return state
            time.sleep(POLL_SECONDS / 4)
        if supervisor.stopping:
            return None
        raise CommandError("The sandbox mail server did not start.")

    def _welcome(self, prepared: dict[str, Any] | None) -> None:
        lines = [f"mailhub   {settings.MAILHUB_PUBLIC_URL}"]
        if prepared:
            lines.append(f"sign in   {prepared['sign_in_url']}  (once)")
            lines.append(
                f"try it    {settings.MAILHUB_PUBLIC_URL}/welcome/  (five steps; `{_make_link()}` prints another link)"
            )
            lines.append(f"sandbox   {settings.MAILHUB_HOME / 'sandbox.json'}")
        else:
            lines.append(
                "sign in   manage.py create_user --email …, then manage.py sign_in_link --user …"
            )
            lines.append("sandbox   none: it is only for a server on loopback")
        self.stdout.write("\n".join([*lines, "Ctrl-C ends it."]))
        self.stdout.flush()


def _make_link() -> str:
    """Return the command for another link, as it works in a new terminal."""
    home = Path(settings.MAILHUB_HOME)
    if home == Path(settings.BASE_DIR) / "var":
        return "make link"
    return f"MAILHUB_HOME={shlex.quote(str(home))} make link"


def _wait_for_web(supervisor: Supervisor) -> None:
    """Wait until the web server answers, so that nobody opens the printed address too early.

    After WEB_SECONDS the address is printed anyway: the log says what is wrong.
    """
    deadline = time.monotonic() + WEB_SECONDS
    while time.monotonic() < deadline and not supervisor.stopping:
        if _answers(ENV.HOST, ENV.PORT):
            return
        time.sleep(POLL_SECONDS / 4)


def _answers(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=1):
            return True
    except OSError:
        return False
