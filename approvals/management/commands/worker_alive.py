from typing import Any

from django.core.management.base import BaseCommand, CommandError

from approvals.queues.workers import host_name
from approvals.worker import heartbeats


class Command(BaseCommand):
    help = "Succeeds if a worker on this host was seen lately: the health check of a container."
    requires_system_checks = []

    def handle(self, *args: Any, **options: Any) -> None:
        if not any(worker.startswith(f"{host_name()}:") for worker in heartbeats.alive()):
            raise CommandError(f"No worker of {host_name()} was seen lately.")
