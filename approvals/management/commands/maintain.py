import signal
from argparse import ArgumentParser
from types import FrameType
from typing import Any

from django.core.management.base import BaseCommand

from approvals.audit import key_check
from approvals.checks import GATE
from approvals.queues.sweeper import Sweeper
from approvals.worker import maintenance


class Command(BaseCommand):
    help = "One sweep: expire, end dead leases, look for lost answers, settle, purge, notify for what is due, tell."
    requires_system_checks = [GATE]

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--every", type=float, metavar="SECONDS", help="stay, and sweep so often, until SIGTERM"
        )

    def handle(self, *args: Any, every: float | None, **options: Any) -> None:
        key_check.require()
        if every is None:
            maintenance.sweep()
            return
        sweeper = Sweeper(worker=None, every=every)

        def stop(number: int, frame: FrameType | None) -> None:
            sweeper.stop()

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop)
        sweeper.run()
