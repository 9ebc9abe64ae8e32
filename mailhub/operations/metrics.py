"""/metrics for Prometheus: states come from the database, counters from each process."""

import hmac
import os
from collections.abc import Iterator

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry, generate_latest, multiprocess
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from approvals.queues.metrics import COUNTED, figures
from mailhub.operations import health


class Database(Collector):
    """Figures from the database. Labels are states and verdicts, never an address or an id."""

    def collect(self) -> Iterator[Metric]:
        system = health.look()
        parts = GaugeMetricFamily(
            "mailhub_part_ok", "1 if a part of /statusz is as it should be", labels=["part"]
        )
        for part, there in system.found.items():
            parts.add_metric([part], there)
        yield parts
        yield GaugeMetricFamily(
            "mailhub_oldest_due_age_seconds",
            "Since when the oldest mail could leave that nothing holds back on purpose",
            value=system.oldest_due_seconds,
        )
        yield GaugeMetricFamily(
            "mailhub_home_free_bytes",
            "Room on the disk of MAILHUB_HOME",
            value=health.free_bytes(settings.MAILHUB_HOME),
        )
        if not system.found["database"]:
            return
        now = figures()
        paused = GaugeMetricFamily(
            "mailhub_pauses", "Pauses of everything, and of one mailbox", labels=["of"]
        )
        for of, number in now.pauses.items():
            paused.add_metric([of], number)
        yield paused
        mailboxes = GaugeMetricFamily("mailhub_mailboxes", "Mailboxes by state", labels=["state"])
        for state, number in now.mailboxes.items():
            mailboxes.add_metric([state], number)
        yield mailboxes
        counts = GaugeMetricFamily(
            "mailhub_actions",
            f"Actions in an open state, counted up to {COUNTED}",
            labels=["state"],
        )
        for state, number in now.counts.items():
            counts.add_metric([state], number)
        yield counts
        oldest = GaugeMetricFamily(
            "mailhub_oldest_action_age_seconds",
            "How long the oldest action has been in its state",
            labels=["state"],
        )
        for state, seconds in now.oldest_seconds.items():
            oldest.add_metric([state], seconds)
        yield oldest
        attempts = CounterMetricFamily(
            "mailhub_attempts", "Ended attempts by what came of them", labels=["verdict"]
        )
        for verdict, number in now.attempts.items():
            attempts.add_metric([verdict], number)
        yield attempts
        yield GaugeMetricFamily("mailhub_workers", "Workers seen lately", value=system.workers)
        yield GaugeMetricFamily(
            "mailhub_dead_letters",
            "Actions that the sweeper cannot work on and has set aside",
            value=now.dead_letters,
        )
        overdue = GaugeMetricFamily(
            "mailhub_overdue_work_age_seconds",
            "Since when the oldest lookup, copy to Sent or clean-up is overdue",
            labels=["work"],
        )
        for work, seconds in system.overdue_seconds.items():
            overdue.add_metric([work], seconds)
        yield overdue
        if now.heartbeat_seconds is not None:
            yield GaugeMetricFamily(
                "mailhub_worker_heartbeat_age_seconds",
                "Since any worker was seen",
                value=now.heartbeat_seconds,
            )


REGISTRY = CollectorRegistry(auto_describe=False)  # describing would query the database at import
REGISTRY.register(Database())


def _collect_processes() -> CollectorRegistry:
    """Return the counters of all processes if PROMETHEUS_MULTIPROC_DIR is set, else of this one."""
    if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        # Imported here because the provider loads its HTTP library, and many servers have no Gmail
        # mailbox.
        from tools.providers.gmail.metrics import REGISTRY as GMAIL

        return GMAIL
    together = CollectorRegistry()
    multiprocess.MultiProcessCollector(together)  # type: ignore[no-untyped-call]
    return together


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Return the figures; 404 if no token is configured, 401 without the token."""
    token = settings.MAILHUB_METRICS_TOKEN
    if not token:
        return HttpResponse(status=404)
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not hmac.compare_digest(
        given.strip().encode(), token.encode()
    ):
        return HttpResponse(status=401, headers={"WWW-Authenticate": "Bearer"})
    text = generate_latest(REGISTRY) + generate_latest(_collect_processes())
    return HttpResponse(text, content_type=CONTENT_TYPE_LATEST)
