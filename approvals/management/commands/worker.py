from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.utils.module_loading import import_string

from approvals.audit import key_check
from approvals.checks import GATE
from approvals.queues.database import Worker
from approvals.queues.slots import PROCESSES, THREADS


class Command(BaseCommand):
    help = "Carries out approved actions and sweeps, for the queue that is set; ends after the sends under way."
    requires_system_checks = [GATE]

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--threads", type=int, help="how many sends at once (8; with Celery 4)")

    def handle(self, *args: Any, threads: int | None, **options: Any) -> None:
        key_check.require()
        match settings.MAILHUB_QUEUE:
            case "rq":
                call_command("rqworker")  # with its own defaults
            case "celery":
                app = import_string(settings.MAILHUB_CELERY_APP)
                app.worker_main(
                    [
                        "worker",
                        "--without-mingle",
                        "--without-gossip",
                        f"--concurrency={max(threads or PROCESSES, 1)}",
                    ]
                )
            case _:
                Worker(threads=max(threads or THREADS, 1)).run()
