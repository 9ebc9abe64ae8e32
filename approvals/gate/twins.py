"""Other actions of a mailbox with the fingerprint of a new one: the same mail, proposed before."""

from datetime import timedelta

from django.conf import settings
from django.db.models import Q, QuerySet
from django.utils import timezone

from accounts.models import Mailbox
from approvals.core.states import Status
from approvals.gate.reconcile import is_unproven
from approvals.models import Attempt, PendingAction


def has_recent(mailbox: Mailbox, fingerprint: str) -> bool:
    """Return True if one was proposed within the window, or is leaving, or it is not known whether
    it left.
    """
    since = timezone.now() - timedelta(seconds=settings.DUPLICATE_WINDOW_SECONDS)
    under_way = Q(status__in=(Status.EXECUTING, Status.UNKNOWN))
    return _twins(mailbox, fingerprint).filter(Q(created_at__gt=since) | under_way).exists()


def has_doubtful(mailbox: Mailbox, fingerprint: str) -> bool:
    """Return True if one may have happened although its state may not show it, however old it is."""
    # A join, not a condition of each twin: PostgreSQL might read all attempts for that one.
    unproven = Attempt.objects.filter(
        is_unproven(), action__mailbox=mailbox, action__fingerprint=fingerprint
    )
    came_back = _twins(mailbox, fingerprint).filter(restored_at__isnull=False)
    return came_back.exists() or unproven.exists()


def has_open(mailbox: Mailbox, fingerprint: str) -> bool:
    """Return True if one is pending or approved, however old it is."""
    open_ = (Status.PENDING, Status.APPROVED)
    return _twins(mailbox, fingerprint).filter(status__in=open_).exists()


def _twins(mailbox: Mailbox, fingerprint: str) -> QuerySet[PendingAction]:
    return PendingAction.objects.filter(mailbox=mailbox, fingerprint=fingerprint).order_by()
