from argparse import ArgumentParser
from collections import Counter
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from approvals.core.states import Status
from approvals.models import PendingAction
from approvals.pauses import journal, restored
from approvals.worker import restore

WORDS = {
    "in_sent": "found in Sent, closed as sent",
    "not_in_sent": "not found in Sent, waits for a person",
    "not_looked_at": "Sent could not be looked at, waits for a person",
    "journal": "handed over according to the send journal, waits for a person",
}


class Command(BaseCommand):
    help = (
        "After a restored backup, a rolled-back volume or a promoted replica: compares what was approved with Sent, "
        "then lets mail leave again. Nothing that may have been sent leaves without a new approval."
    )
    requires_system_checks = []  # a person waits; the servers have run them

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--dry-run", action="store_true", help="say what differs, and change nothing"
        )
        parser.add_argument(
            "--yes", action="store_true", help="do not ask before mail may leave again"
        )
        parser.add_argument(
            "--force",
            action="store_true",
            help="go through it even if mailhub has found no difference by itself",
        )

    def handle(self, *args: Any, dry_run: bool, yes: bool, force: bool, **options: Any) -> None:
        if force and not dry_run:
            restored.pause_for("operator")
        differs = restored.compare() or bool(restored.reason())
        missing = restored.find_missing(journal.entries())
        waiting = PendingAction.objects.filter(status=Status.APPROVED).count()
        self.stdout.write(restored.reason() or "Nothing differs.")
        self.stdout.write(
            f"{waiting} approved. The journal names {len(missing)} sends that the database does not know."
        )
        if dry_run or not differs:
            return
        leaving = PendingAction.objects.filter(status=Status.EXECUTING).count()
        if leaving:
            raise CommandError(
                f"{leaving} are leaving now or were when the copy was made. Run this again in a minute."
            )
        tally: Counter[str] = Counter()
        for each in restore.reconcile_after_restore():
            tally[each.found] += 1
            self.stdout.write(f"{each.action_id}: {WORDS[each.found]}")
        self.stdout.write(
            "\n".join(f"{count} {WORDS[found]}" for found, count in sorted(tally.items()))
            or "Nothing to do."
        )
        if not yes and input("Let mail leave again? [y/N] ").strip().lower() != "y":
            self.stdout.write("Everything stays paused. Run this again when you are ready.")
            return
        restored.begin_anew()
        self.stdout.write("Mail may leave again.")
