"""Signs of life of workers of all queues."""

from datetime import timedelta

from django.db.models import Max
from django.db.models.functions import Now
from django.utils import timezone

from approvals.models import Heartbeat

FRESH = timedelta(seconds=30)  # a worker beats every 10 seconds
FORGOTTEN = timedelta(days=1)


def beat(worker: str) -> None:
    """Record a sign of life with one UPDATE, if the worker is known."""
    if not Heartbeat.objects.filter(worker=worker).update(seen_at=timezone.now()):
        Heartbeat.objects.update_or_create(worker=worker, defaults={"seen_at": timezone.now()})
        Heartbeat.objects.filter(seen_at__lt=timezone.now() - FORGOTTEN).delete()


def forget_worker(worker: str) -> None:
    Heartbeat.objects.filter(worker=worker).delete()


def forget() -> None:
    """Forget all workers, because all of them are started again."""
    Heartbeat.objects.all().delete()


def alive() -> list[str]:
    """Return the workers seen lately, by the database's clock."""
    return list(
        Heartbeat.objects.filter(seen_at__gt=Now() - FRESH).values_list("worker", flat=True)
    )


def seconds_since_last() -> float | None:
    """Return the seconds since any worker was seen; None if no worker is recorded."""
    last = Heartbeat.objects.aggregate(last=Max("seen_at"))["last"]
    return max((timezone.now() - last).total_seconds(), 0.0) if last else None
