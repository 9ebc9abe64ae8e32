"""Whether a mailbox works, as the last use of it has shown."""

from uuid import UUID

from django.utils import timezone

from accounts.models import Mailbox

SHOWN_BY_USE = (Mailbox.Status.ACTIVE, Mailbox.Status.ERROR)


def works(mailbox: Mailbox) -> None:
    """Writes only when it was thought not to: this is said after every use."""
    if mailbox.status == Mailbox.Status.ERROR:
        Mailbox.objects.filter(pk=mailbox.pk, status=Mailbox.Status.ERROR).update(
            status=Mailbox.Status.ACTIVE, checked_at=timezone.now()
        )


def unreachable(mailbox_id: UUID) -> None:
    Mailbox.objects.filter(pk=mailbox_id, status=Mailbox.Status.ACTIVE).update(
        status=Mailbox.Status.ERROR, checked_at=timezone.now()
    )


def login_refused(mailbox: Mailbox) -> None:
    """Nothing is tried with these credentials again until somebody reconnects: repeated tries lock
    accounts.

    Only the access that `mailbox` was read with was refused, not the one of who has reconnected
    meanwhile.
    """
    Mailbox.objects.filter(
        pk=mailbox.pk, credentials_version=mailbox.credentials_version, status__in=SHOWN_BY_USE
    ).update(status=Mailbox.Status.NEEDS_REAUTH, checked_at=timezone.now())
