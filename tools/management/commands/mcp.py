import os
import signal
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from accounts.access.auth import caller_of_token
from accounts.infra.problems import Problem
from tools.surfaces.mcp import serve_stdio, toolsets_of


class Command(BaseCommand):
    help = "Serves the tools to a desktop client over standard input and output; the token stands in MAILHUB_TOKEN."
    # a person waits for the client to start, and the web server has run the checks
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--toolsets", help="which tools to show, comma-separated: mail,send")

    def handle(self, *args: Any, toolsets: str | None, **options: Any) -> None:
        secret = _secret()
        if not secret:
            raise CommandError("MAILHUB_TOKEN is not set; it takes an API token (mh_YOUR_TOKEN).")
        try:
            shown = toolsets_of(toolsets)
            caller_of_token(secret, surface="mcp")
        except Problem as problem:
            where = "MAILHUB_TOKEN: " if problem.code == "unauthenticated" else ""
            raise CommandError(f"{where}{problem.detail}") from None
        # A thread waits in a read of standard input, and Python would wait for that thread. Ending
        # the process at once leaves nothing half done, because each call writes in one transaction.
        for signum in (signal.SIGINT, signal.SIGTERM):
            signal.signal(signum, signal.SIG_DFL)
        serve_stdio(secret=secret, toolsets=shown)


def _secret() -> str:
    """Return `MAILHUB_TOKEN`, or the content of the file that `MAILHUB_TOKEN_FILE` names."""
    path = os.environ.get("MAILHUB_TOKEN_FILE")
    if "MAILHUB_TOKEN" in os.environ or not path:
        return os.environ.get("MAILHUB_TOKEN", "").strip()
    try:
        return Path(path).read_text().strip()
    except OSError as error:
        raise CommandError(f"MAILHUB_TOKEN_FILE cannot be read: {error.strerror}.") from None
