import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from accounts.infra.problems import Problem
from mailhub.operations import personal_data


class Command(BaseCommand):
    help = "Exports what mailhub keeps of an address as JSON, or erases it and says what stays and why."
    requires_system_checks = []  # a person waits; the servers have run them

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("what", choices=["export", "erase"])
        parser.add_argument("address", help="of an approver, or of a correspondent")
        parser.add_argument("--yes", action="store_true", help="do not ask before erasing")

    def handle(self, *args: Any, what: str, address: str, yes: bool, **options: Any) -> None:
        if "@" not in address:
            raise CommandError("Name an e-mail address.")
        if what == "export":
            text = json.dumps(personal_data.export(address), indent=2, ensure_ascii=False)
            self.stdout.write(text)
            return
        question = f"Erase {address}? This cannot be undone. [y/N] "
        if not yes and input(question).strip().lower() != "y":
            self.stdout.write("Nothing was changed.")
            return
        try:
            for sentence in personal_data.erase(address):
                self.stdout.write(sentence)
        except Problem as error:
            raise CommandError(f"Nothing was changed. {error.detail}") from None
