from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from accounts.audit_hook import record_event
from accounts.oauth import programs


class Command(BaseCommand):
    help = "Adds a program that may ask people for access, and prints its client_id."
    requires_system_checks = []  # a person waits, and the servers have run them

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--name", required=True, help="as people read it")
        parser.add_argument(
            "--redirect", required=True, action="append", help="where it returns to; repeatable"
        )

        parser.add_argument("--device", action="store_true", help="it may ask for device codes")

    def handle(
        self, *args: Any, name: str, redirect: list[str], device: bool, **options: Any
    ) -> None:
        if not name.strip():
            raise CommandError("A program needs a name.")
        try:
            with transaction.atomic():
                client = programs.add(name, redirect, device=device)
                record_event("program_added", person=None, program=client.pk)
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from None
        self.stdout.write(client.pk)
