from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import Sum

from approvals.audit import proof, verified
from approvals.models import AuditChain


class Command(BaseCommand):
    help = "Checks every audit chain and names what was altered, removed, cut at the end or rewritten; then anchors."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--continue",
            action="store_true",
            dest="only_new",
            help="check only what was added since the last verification without findings",
        )

        parser.add_argument(
            "--archive",
            action="store_true",
            help="check the archived events too, in MAILHUB_AUDIT_ARCHIVE",
        )

    def handle(
        self, *args: Any, only_new: bool = False, archive: bool = False, **options: Any
    ) -> None:
        before = verified.load() if only_new else None
        if only_new and before is None:
            self.stderr.write("No earlier verification with our signature: all events are checked.")
        done = proof.examine(before, archive=archive)
        for found in done.findings:
            self.stdout.write(f"{found.chain} event {found.sequence} {found.wrong}: {found.detail}")
        if done.findings:
            raise CommandError(f"The audit is not what it was: {len(done.findings)} findings.")
        proof.anchor()
        verified.store(done.verified)
        chains = AuditChain.objects.count()
        archived = AuditChain.objects.aggregate(number=Sum("archived"))["number"]
        which = "new events" if before else "events"
        self.stdout.write(f"{done.looked_at} {which} in {chains} chains are what they were.")
        if archived and not archive:
            self.stdout.write(
                f"{archived} older events are in the archive. Check them with --archive."
            )
