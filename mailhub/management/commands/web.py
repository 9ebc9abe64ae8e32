from argparse import ArgumentParser
from contextlib import suppress
from typing import Any

import uvicorn
from django.core.management.base import BaseCommand
from uvicorn.supervisors import Multiprocess

from approvals.audit import key_check
from mailhub.web_server import OPTIONS, STREAMS_END_SECONDS, find_given_sockets


class Command(BaseCommand):
    help = "Serves pages and the API over ASGI."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--port", type=int, default=8000)
        parser.add_argument("--workers", type=int, default=1, help="how many processes serve")
        parser.add_argument(
            "--grace",
            type=int,
            default=STREAMS_END_SECONDS,
            help="how many seconds requests have at its end; an open stream takes all of them",
        )

    def handle(
        self, *args: Any, host: str, port: int, workers: int, grace: int, **options: Any
    ) -> None:
        key_check.require()
        config = uvicorn.Config(
            "mailhub.asgi:application",
            host=host,
            port=port,
            workers=workers,
            **OPTIONS | {"timeout_graceful_shutdown": grace},
        )
        with suppress(KeyboardInterrupt):  # it has ended in order
            if workers > 1:
                Multiprocess(config, find_given_sockets() or [config.bind_socket()]).run()
            else:
                uvicorn.Server(config).run(sockets=find_given_sockets() or None)
