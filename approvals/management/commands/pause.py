from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from accounts.management.lookup import find_mailbox
from approvals.gate.pauses import switch


class Command(BaseCommand):
    help = "The kill switch: no approved mail leaves until `resume`. Mail that is leaving now is not stopped."
    requires_system_checks = []  # a person waits; the servers have run them

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--mailbox", help="the address or id of one mailbox; everything when left out"
        )
        parser.add_argument("--dry-run", action="store_true", help="say what would happen")

    def handle(self, *args: Any, mailbox: str | None, dry_run: bool, **options: Any) -> None:
        named = find_mailbox(mailbox) if mailbox else None
        waiting, leaving = switch.count_under_way(named)
        if dry_run:
            self.stdout.write(
                f"Would pause {named or 'everything'}: {waiting} approved would wait."
            )
            return
        new = switch.pause(mailbox=named, actor="command")
        self.stdout.write(
            f"{named or 'Everything'} {'is' if new else 'was'} paused: {waiting} approved wait, {leaving} leaving now."
        )
