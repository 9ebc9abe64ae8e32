"""The status of a mailbox, as its last use has shown."""

from uuid import UUID

from django.db import transaction
from django.utils import timezone

from accounts.audit_hook import record_of_mailbox
from accounts.models import Mailbox

SHOWN_BY_USE = (Mailbox.Status.ACTIVE, Mailbox.Status.ERROR)


def mark_working(mailbox: Mailbox) -> None:
    """Set the mailbox to active; write only after an error, because every use calls this."""
    if mailbox.status == Mailbox.Status.ERROR:
        Mailbox.objects.filter(pk=mailbox.pk, status=Mailbox.Status.ERROR).update(
            status=Mailbox.Status.ACTIVE, checked_at=timezone.now()
        )


def mark_unreachable(mailbox_id: UUID) -> None:
    Mailbox.objects.filter(pk=mailbox_id, status=Mailbox.Status.ACTIVE).update(
        status=Mailbox.Status.ERROR, checked_at=timezone.now()
    )


def mark_login_refused(mailbox: Mailbox) -> None:
    """Stop the use of these credentials until somebody reconnects: repeated attempts lock accounts.

    Only the access in `mailbox` was refused. If somebody has reconnected since it was read, nothing
    changes.
    """
    with transaction.atomic():
        if Mailbox.objects.filter(
            pk=mailbox.pk, credentials_version=mailbox.credentials_version, status__in=SHOWN_BY_USE
        ).update(status=Mailbox.Status.NEEDS_REAUTH, checked_at=timezone.now()):
            record_of_mailbox(event="mailbox_refused", mailbox=mailbox, actor="worker")
