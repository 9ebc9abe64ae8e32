from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from approvals.audit import anchors, given_up, proof, verified
from approvals.audit.export import ExportedAudit
from approvals.audit.findings import Finding
from approvals.models import AuditChain


class Command(BaseCommand):
    help = "Checks every audit chain and names what was altered, removed, cut at the end or rewritten; then anchors."

    def add_arguments(self, parser: CommandParser) -> None:
        which = parser.add_mutually_exclusive_group()
        which.add_argument(
            "--continue",
            action="store_true",
            dest="only_new",
            help="check only what was added since the last verification without findings",
        )
        which.add_argument("--file", help="check only this file of export_audit")

    def handle(
        self, *args: Any, only_new: bool = False, file: str | None = None, **options: Any
    ) -> None:
        if file is not None:
            self._check_file(file)
            return
        before = verified.load() if only_new else None
        if only_new and before is None:
            self.stderr.write("No earlier verification with our signature: all events are checked.")
        done = proof.examine(before)
        for at, lost in given_up.read():
            self.stdout.write(
                f"A restore that was acknowledged at {at:%Y-%m-%d %H:%M:%S %Z} gave up events of {len(lost)} chains:"
                " they are no finding."
            )
        for found in done.findings:
            self._say(found)
        if done.findings:
            raise CommandError(f"The audit is not what it was: {len(done.findings)} findings.")
        anchors.anchor()
        verified.store(done.verified)
        chains = AuditChain.objects.count()
        which = "new events" if before else "events"
        self.stdout.write(f"{done.looked_at} {which} in {chains} chains are what they were.")

    def _check_file(self, file: str) -> None:
        count = 0
        try:
            with Path(file).open(encoding="ascii", errors="replace", newline="\n") as lines:
                exported = ExportedAudit(lines)
                for count, found in enumerate(exported.check(), start=1):  # noqa: B007
                    self._say(found)
        except OSError as error:
            raise CommandError(f"{file}: {error.strerror}.") from error
        if count:
            raise CommandError(f"The file is not what mailhub wrote: {count} findings.")
        self.stdout.write(
            f"{exported.events} events in {exported.chains} chains are what they were."
        )

    def _say(self, found: Finding) -> None:
        self.stdout.write(f"{found.chain} event {found.sequence} {found.wrong}: {found.detail}")
