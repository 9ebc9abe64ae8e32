"""The standing of a new proposal: the rules and the actions by which it is judged."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.db.models import BooleanField, Exists, ExpressionWrapper, IntegerField, Q, Subquery
from django.db.models.functions import Now
from django.utils import timezone

from accounts.access.caller import Caller
from accounts.access.rate_limits import TOKENS_OF_A_PERSON
from accounts.infra.compiled_sql import Asked, Select, read_all, slot
from accounts.models import Mailbox
from approvals.core.states import Status
from approvals.gate.reconcile import is_unproven
from approvals.gate.rules.policy import policy_from, policy_rows
from approvals.models import ApprovalPolicy, Attempt, PendingAction


class _CountRows(Subquery):
    template = "(SELECT COUNT(*) FROM (%(subquery)s) counted)"
    output_field = IntegerField()


@dataclass(frozen=True, kw_only=True)
class Standing:
    """The rules of the mailbox, and the other actions that matter for a new one.

    `has_recent_twin`: an action with the same fingerprint was proposed within the window, or is
    leaving, or it is not known whether it left.
    `has_doubtful_twin`: one may have happened although its state may not show it, however old it is.
    `has_open_twin`: one is pending or approved, however old it is. `waiting` counts the pending
    proposals of the caller's person in this mailbox, up to the limit for a person.
    """

    policy: ApprovalPolicy
    has_recent_twin: bool
    has_doubtful_twin: bool
    has_open_twin: bool
    waiting: int
    read_at: datetime
    _read: float = field(default_factory=time.monotonic)

    def now(self) -> datetime:
        """Return the time by the database's clock; to ask for it again would be another wait."""
        return self.read_at + timedelta(seconds=time.monotonic() - self._read)


def read_standing(
    caller: Caller, mailbox: Mailbox, fingerprint: str, *also: Asked
) -> tuple[Standing, list[Sequence[tuple[Any, ...]]]]:
    """Return the standing of a new proposal, and the rows of the other questions."""
    window = timedelta(seconds=settings.DUPLICATE_WINDOW_SECONDS)
    others, policy, *answers = read_all(
        (
            _others(settings.MAILHUB_PENDING_PROPOSALS * TOKENS_OF_A_PERSON),
            {
                "mailbox": mailbox.pk,
                "fingerprint": fingerprint,
                "since": timezone.now() - window,
                "proposer": caller.user.pk,
            },
        ),
        (policy_rows, {"mailbox": mailbox.pk}),
        *also,
    )
    ((recent, doubtful, waits, waiting, now),) = others
    standing = Standing(
        policy=policy_from(policy, mailbox),
        has_recent_twin=bool(recent),
        has_doubtful_twin=bool(doubtful),
        has_open_twin=bool(waits),
        waiting=waiting,
        read_at=now,
    )
    return standing, answers


@lru_cache(maxsize=4)
def _others(most: int) -> Select:
    def select() -> Any:
        of_mailbox = PendingAction.objects.filter(mailbox=slot(PendingAction, "mailbox")).order_by()
        twins = of_mailbox.filter(fingerprint=slot(PendingAction, "fingerprint"))
        is_recent = Q(created_at__gt=slot(PendingAction, "created_at", "since"))
        # A join, not a condition of each twin: PostgreSQL might read all attempts for that one.
        unproven = Attempt.objects.filter(
            is_unproven(),
            action__mailbox=slot(PendingAction, "mailbox"),
            action__fingerprint=slot(PendingAction, "fingerprint"),
        )
        came_back = twins.filter(restored_at__isnull=False)
        waiting = of_mailbox.filter(
            status=Status.PENDING, proposer=slot(PendingAction, "proposer")
        ).values("pk")
        # The mailbox is only its row: one statement for all.
        return (
            Mailbox.objects.filter(pk=slot(Mailbox, "id", "mailbox"))
            .order_by()
            .values_list(
                Exists(twins.filter(is_recent | Q(status__in=(Status.EXECUTING, Status.UNKNOWN)))),
                ExpressionWrapper(
                    Q(Exists(came_back)) | Q(Exists(unproven)), output_field=BooleanField()
                ),
                Exists(twins.filter(status__in=(Status.PENDING, Status.APPROVED))),
                _CountRows(waiting[:most]),
                Now(),
            )
        )

    return Select(select)
