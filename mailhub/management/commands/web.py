import warnings
from argparse import ArgumentParser
from contextlib import suppress
from typing import Any

import uvicorn
from django.core.management.base import BaseCommand

from approvals.audit import key_check
from mailhub.web_server import OPTIONS, find_given_sockets


class Command(BaseCommand):
    help = "Serves pages and the API over ASGI."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--port", type=int, default=8000)

    def handle(self, *args: Any, host: str, port: int, **options: Any) -> None:
        key_check.require()
        # WhiteNoise yields a file synchronously, which Django handles in a thread.
        warnings.filterwarnings("ignore", message="StreamingHttpResponse must consume")
        config = uvicorn.Config("mailhub.asgi:application", host=host, port=port, **OPTIONS)
        with suppress(KeyboardInterrupt):  # it has ended in order
            uvicorn.Server(config).run(sockets=find_given_sockets() or None)
