from typing import Any

from django.core.management.base import BaseCommand

from approvals.pauses import restored


class Command(BaseCommand):
    help = "Lets the workers of a new home send for this database. Use it for one more machine, not for a copy."
    requires_system_checks = []  # a person waits; the servers have run them

    def handle(self, *args: Any, **options: Any) -> None:
        restored.adopt_home()
        self.stdout.write(f"{restored.identity_file()} belongs to this database now.")
