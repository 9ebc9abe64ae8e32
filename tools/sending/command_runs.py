"""The record of what really ran in other systems, for the people who may see it."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.db import Error
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from accounts.access.caller import Caller
from accounts.models import User
from approvals.gate import find
from tools.models import CommandRun

log = structlog.get_logger(__name__)
BATCH = 1000
APPROVED = "approved"  # the surface of a run that a worker carried out


def record_read(caller: Caller, line: str, *, outcome: str, duration_ms: int) -> None:
    """Record a read. If it cannot be recorded, the answer is given anyway."""
    _record(
        user_id=caller.user.pk,
        caller_name=caller.name,
        surface=caller.surface,
        line=line,
        outcome=outcome,
        duration_ms=duration_ms,
    )


def record_approved(
    action_id: UUID, line: str, *, output: str, outcome: str, duration_ms: int
) -> None:
    """Record an approved command with its short output.

    The command has run, so an error of the database changes nothing about the outcome.
    """
    _record(
        surface=APPROVED,
        action_id=action_id,
        line=line,
        output=output,
        outcome=outcome,
        duration_ms=duration_ms,
    )


def _record(**values: Any) -> None:
    try:
        CommandRun.objects.create(**values)
    except Error:
        log.exception("command_not_recorded")


def result_of(action_id: UUID) -> dict[str, str] | None:
    """Return the line and the short output of the last run of an action, or None."""
    run = CommandRun.objects.filter(action_id=action_id, outcome="ok").first()
    return {"command": run.line, "output": run.output} if run else None


def visible_to(person: User) -> QuerySet[CommandRun]:
    """Return the reads of this person and of their tokens, and the runs of actions that they may
    see.

    Staff see the reads of all, because they use the sign-in of this server. The run of an action may
    hold mail, so only the people of its mailbox see it.
    """
    mine = Q(user=person) | Q(action_id__in=find.visible_to(person).values("pk"))
    if person.is_staff:
        mine |= Q(action_id=None)
    return CommandRun.objects.select_related("user").filter(mine)


def purge() -> None:
    """Delete a batch of records that are older than MAILHUB_RETENTION_DAYS."""
    old = CommandRun.objects.filter(at__lt=Now() - timedelta(days=settings.MAILHUB_RETENTION_DAYS))
    ids = list(old.order_by("at").values_list("pk", flat=True)[:BATCH])
    CommandRun.objects.filter(pk__in=ids).delete()
