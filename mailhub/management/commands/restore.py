import time
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser

from approvals.audit import key_check
from approvals.gate.pauses import restored
from approvals.management.commands.after_restore import Leaving, add_revoke_tokens
from mailhub.operations import backups

LONGEST_LEASE_SECONDS = 300


class Command(BaseCommand):
    help = (
        "Replaces the database by a backup, adds the files that the home lacks, and goes on as `after_restore`: nothing"
        " that may have been sent leaves without a new approval."
    )
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("folder", type=Path)
        parser.add_argument("--yes", action="store_true", help="do not ask")
        add_revoke_tokens(parser)

    def handle(
        self, *args: Any, folder: Path, yes: bool, revoke_tokens: bool, **options: Any
    ) -> None:
        manifest = backups.read_manifest(folder)
        self.stdout.write(f"The backup of {manifest['began']} is whole, and its keys are here.")
        question = "Replace the database? What happened since then is lost. [y/N] "
        if not yes and input(question).strip().lower() != "y":
            self.stdout.write("Nothing was changed.")
            return
        backups.restore_database(folder)
        call_command("migrate", verbosity=0, interactive=False)
        key_check.require()
        restored.pause_for("operator")
        copied = backups.restore_home(folder)
        self.stdout.write(f"The database is restored. Files added to the home: {len(copied)}.")
        deadline = time.monotonic() + LONGEST_LEASE_SECONDS
        while True:
            try:
                call_command(
                    "after_restore",
                    force=True,
                    yes=yes,
                    revoke_tokens=revoke_tokens,
                    stdout=self.stdout,
                )
                return
            except Leaving as error:  # the copy was made while mail left
                if time.monotonic() > deadline:
                    raise CommandError(
                        "Mail still leaves. Stop the workers, then run `manage.py after_restore --force`."
                    ) from error
                revoke_tokens = False  # that is done by now
                self.stdout.write(
                    "Some mail was leaving in the copy. Waiting for the end of its lease."
                )
                time.sleep(5)
