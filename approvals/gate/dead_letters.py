"""Processing of rows one after the other: a row that fails is set aside, and the others go on."""

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import structlog
from django.db import close_old_connections, transaction
from django.db.models import Exists, F, OuterRef, QuerySet
from django.db.models.functions import Now

from accounts.infra.database import is_unavailable
from approvals.models import DeadLetter, PendingAction

log = structlog.get_logger(__name__)

AT_FIRST = timedelta(minutes=5)  # doubles with each failure
AT_MOST = timedelta(days=1)


def process_each(
    chore: str, rows: QuerySet[PendingAction], act: Callable[[UUID], object], *, limit: int
) -> None:
    """Call `act` for each of the first rows, each in its own transaction.

    A row that fails is set aside, so that it neither ends this round nor takes a place in the next
    ones. It is retried after five minutes, then less often. Raises the
    error of a database that is away, and of a row that another process keeps locked.
    """
    letters = DeadLetter.objects.filter(chore=chore)
    aside = letters.filter(action=OuterRef("pk"), again_at__gt=Now())
    waiting = list(rows.filter(~Exists(aside)).values_list("pk", flat=True)[:limit])
    failed_before = set(letters.values_list("action", flat=True)) if waiting else set()
    for action_id in waiting:
        try:
            with transaction.atomic():
                act(action_id)
        except Exception as error:
            if is_unavailable(error):
                raise
            log.exception("set_aside", process=chore, action=str(action_id))
            close_old_connections()
            _set_aside(chore, action_id, type(error).__name__)
        else:
            if action_id in failed_before:
                letters.filter(action=action_id).delete()


def _set_aside(chore: str, action_id: UUID, error: str) -> None:
    letter, new = DeadLetter.objects.get_or_create(
        chore=chore, action_id=action_id, defaults={"error": error, "again_at": Now() + AT_FIRST}
    )
    if not new:
        wait = min(AT_FIRST * 2 ** min(letter.failures, 10), AT_MOST)
        DeadLetter.objects.filter(pk=letter.pk).update(
            error=error, failures=F("failures") + 1, last_at=Now(), again_at=Now() + wait
        )
