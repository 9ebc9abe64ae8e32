from typing import Any

from django.core.management.base import BaseCommand

from approvals import maintenance


class Command(BaseCommand):
    help = "One sweep: expire, end dead leases, look for lost answers, settle, purge, ring for what is due."

    def handle(self, *args: Any, **options: Any) -> None:
        maintenance.sweep()
