from argparse import ArgumentParser
from typing import Any

import uvicorn
from django.core.management.base import BaseCommand

STREAMS_END_SECONDS = 2  # without a limit, an open stream prevents the end of the server


class Command(BaseCommand):
    help = "Serves pages and the API over ASGI."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--port", type=int, default=8000)

    def handle(self, *args: Any, host: str, port: int, **options: Any) -> None:
        uvicorn.run(
            "mailhub.asgi:application",
            host=host,
            port=port,
            lifespan="off",
            log_config=None,  # mailhub.logs instead: uvicorn's access log would hold one-time links
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=STREAMS_END_SECONDS,
        )
