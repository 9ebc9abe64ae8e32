from typing import Any

from django.core.management.base import BaseCommand, CommandError

from approvals.audit import proof
from approvals.models import AuditChain


class Command(BaseCommand):
    help = "Checks every audit chain and names what was altered, removed, cut at the end or rewritten; then anchors."

    def handle(self, *args: Any, **options: Any) -> None:
        findings = proof.verify()
        for found in findings:
            self.stdout.write(f"{found.chain} event {found.sequence} {found.wrong}: {found.detail}")
        if findings:
            raise CommandError(f"The audit is not what it was: {len(findings)} findings.")
        proof.anchor()
        lengths = list(AuditChain.objects.values_list("length", flat=True))
        self.stdout.write(f"{sum(lengths)} events in {len(lengths)} chains are what they were.")
