from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from accounts.infra.problems import Problem
from accounts.management.lookup import find_mailbox
from approvals.gate.pauses import switch


class Command(BaseCommand):
    help = "Ends what `pause` began. A pause of everything and one of a mailbox are two: each ends by itself."
    requires_system_checks = []  # a person waits; the servers have run them

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--mailbox",
            help="the address or id of one mailbox; the pause of everything when left out",
        )
        parser.add_argument("--dry-run", action="store_true", help="say what would happen")

    def handle(self, *args: Any, mailbox: str | None, dry_run: bool, **options: Any) -> None:
        named = find_mailbox(mailbox) if mailbox else None
        waiting, _ = switch.count_under_way(named)
        if dry_run:
            self.stdout.write(
                f"Would end the pause of {named or 'everything'}: {waiting} approved may leave."
            )
            return
        try:
            ended = switch.resume(mailbox=named, actor="command")
        except Problem as problem:
            raise CommandError(problem.detail) from None
        self.stdout.write(
            f"{named or 'Everything'} {'may leave again' if ended else 'was not paused'}: {waiting} approved."
        )
