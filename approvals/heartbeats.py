"""Signs of life of workers, whichever queue they serve."""

from datetime import timedelta

from django.db.models.functions import Now
from django.utils import timezone

from approvals.models import Heartbeat

FRESH = timedelta(seconds=20)


def beat(worker: str) -> None:
    Heartbeat.objects.update_or_create(worker=worker, defaults={"seen_at": timezone.now()})
    Heartbeat.objects.filter(seen_at__lt=timezone.now() - timedelta(days=1)).delete()


def gone(worker: str) -> None:
    Heartbeat.objects.filter(worker=worker).delete()


def alive() -> list[str]:
    """The workers seen within the last 20 seconds, by the database's clock."""
    return list(Heartbeat.objects.filter(seen_at__gt=Now() - FRESH).values_list("worker", flat=True))
