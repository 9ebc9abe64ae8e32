from typing import Any

from django.core.management.base import BaseCommand

from approvals.queues.database import Worker


class Command(BaseCommand):
    help = "Carries out approved actions (database queue) and sweeps; ends on SIGTERM after the send under way."

    def handle(self, *args: Any, **options: Any) -> None:
        Worker().run()
