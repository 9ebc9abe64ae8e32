from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django_rq.management.commands import rqworker

from approvals.audit import key_check
from approvals.checks import GATE
from approvals.queues.rq import keep_working


class Command(rqworker.Command):
    """django-rq's own command.

    Its app is not installed: it would bring an admin page that can run jobs.
    """

    help = "Carries out approved actions (MAILHUB_QUEUE=rq) and sweeps; ends on SIGTERM after the send under way."
    requires_system_checks = [GATE]

    def handle(self, *args: Any, **options: Any) -> None:
        if settings.MAILHUB_QUEUE != "rq":
            raise CommandError(f"MAILHUB_QUEUE is {settings.MAILHUB_QUEUE}, not rq.")
        key_check.require()
        once = bool(options["burst"] or options["max_jobs"] or options["max_idle_time"])
        keep_working(lambda: super(Command, self).handle(*args, **options), once=once)  # type: ignore[no-untyped-call]
