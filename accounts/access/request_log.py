"""The request log: which tool a token called and how the call ended.

It holds no content, no parameters and no addresses.
"""

from datetime import timedelta
from uuid import UUID

import structlog
from django.conf import settings
from django.db import DatabaseError
from django.db.models import Expression, QuerySet
from django.db.models.functions import Now

from accounts.access.caller import Caller
from accounts.models import RequestRecord

log = structlog.get_logger(__name__)

BATCH = 1000


def record(
    caller: Caller,
    *,
    tool: str,
    outcome: str,
    duration_ms: int,
    action_id: str | None = None,
    replayed: bool = False,
) -> None:
    """Record one call of a token. If the log cannot be written, the call is answered anyway."""
    if caller.token is None:
        return
    try:
        RequestRecord.objects.create(
            token=caller.token,
            request_id=request_id(),
            surface=caller.surface,
            tool=tool,
            outcome=outcome,
            action_id=UUID(action_id) if action_id else None,
            replayed=replayed,
            duration_ms=duration_ms,
        )
    except DatabaseError:
        log.exception("request_not_recorded")


def request_id() -> str:
    """Return the id of the current request in the logs, or an empty text outside of a request."""
    return str(structlog.contextvars.get_contextvars().get("request_id", ""))


def find_old(kept: timedelta | Expression) -> QuerySet[RequestRecord]:
    """Return the records that are older than `kept`."""
    return RequestRecord.objects.filter(at__lt=Now() - kept)


def forget_old() -> None:
    """Delete a batch of records that are older than MAILHUB_RETENTION_DAYS."""
    found = find_old(timedelta(days=settings.MAILHUB_RETENTION_DAYS))
    ids = list(found.order_by("at").values_list("pk", flat=True)[:BATCH])
    RequestRecord.objects.filter(pk__in=ids).delete()
