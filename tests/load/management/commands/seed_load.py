import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from tests.load.content import make_mail
from tests.load.fill import AlreadyInUseError, Shape, fill
from tests.load.people import domain_of


class Command(BaseCommand):
    help = (
        "Fills an empty database with made-up mailboxes, people and actions, to try mailhub at any size."
        " Nothing of it can leave: the mailboxes have no access data, and no approval is signed."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--actions", type=int, default=10_000)
        parser.add_argument("--mailboxes", type=int, default=100)
        parser.add_argument("--seed", type=int, default=1, help="the same seed, the same load")
        parser.add_argument("--pending", type=int, help="how many actions wait for a person")
        parser.add_argument("--held", type=int, help="how many approved ones a pause holds back")
        parser.add_argument("--scheduled", type=int, help="how many approved ones leave tomorrow")
        parser.add_argument(
            "--beside-others",
            action="store_true",
            help="fills a database that already has people; nothing of it is changed",
        )

    def handle(self, *args: Any, beside_others: bool, **options: Any) -> None:
        names = ("actions", "mailboxes", "seed", "pending", "held", "scheduled")
        shape = Shape(**{name: options[name] for name in names})
        if shape.mailboxes < 1 or min(shape.open_counts.values()) < 0:
            raise CommandError("It takes at least one mailbox, and no number below zero.")
        started = time.monotonic()
        try:
            fill(shape, make_mail, beside_others=beside_others, report=self._report)
        except AlreadyInUseError as error:
            raise CommandError(
                f"{error} Use an empty database, or another --seed with --beside-others."
            ) from None
        self.stdout.write(
            f"{shape.actions} actions of {shape.mailboxes} mailboxes in {time.monotonic() - started:.0f} s."
            f" Sign in as everything@{domain_of(shape.seed)}: manage.py sign_in_link prints a link."
        )

    def _report(self, done: int) -> None:
        self.stderr.write(f"{done} actions")
