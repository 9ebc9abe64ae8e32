import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from mailhub.sandbox.server import run


class Command(BaseCommand):
    help = (
        "The mail server of the first run: IMAP and SMTP on loopback, with three seeded mailboxes."
    )
    requires_system_checks = []

    def handle(self, *args: Any, **options: Any) -> None:
        sys.exit(run(settings.MAILHUB_HOME))
