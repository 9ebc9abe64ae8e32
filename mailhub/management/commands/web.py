from argparse import ArgumentParser
from typing import Any

import uvicorn
from django.core.management.base import BaseCommand

from approvals.audit import key_check
from mailhub.web_server import OPTIONS


class Command(BaseCommand):
    help = "Serves pages and the API over ASGI."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--port", type=int, default=8000)

    def handle(self, *args: Any, host: str, port: int, **options: Any) -> None:
        key_check.require()
        uvicorn.run("mailhub.asgi:application", host=host, port=port, **OPTIONS)
