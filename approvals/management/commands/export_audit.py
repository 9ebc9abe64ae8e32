import os
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from approvals.audit.export import write_audit


class Command(BaseCommand):
    help = "Writes all audit events to a new file of JSON lines; `verify_audit --file` says if the file is whole."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", metavar="FILE", help="the new file, or - for standard output")

    def handle(self, *args: Any, file: str, **options: Any) -> None:
        try:
            if file == "-":
                write_audit(self.stdout)
                return
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="ascii") as lines:
                count = write_audit(lines)
        except OSError as error:
            raise CommandError(f"{file}: {error.strerror}.") from error
        self.stdout.write(f"{count} events are in {file}.")
