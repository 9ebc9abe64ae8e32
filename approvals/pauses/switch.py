"""The kill switch: what is approved waits, for one mailbox or for all of them."""

from collections.abc import Sequence
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from accounts.infra.problems import Problem
from accounts.infra.transactions import retry_if_rolled_back
from accounts.models import Mailbox
from approvals.audit import chain
from approvals.core.states import Status
from approvals.models import Pause, PendingAction
from approvals.pauses import restored


@retry_if_rolled_back
@transaction.atomic
def pause(*, mailbox: Mailbox | None, actor: str) -> bool:
    """Let nothing leave this mailbox, or any; returns whether it still could.

    What is leaving now is not stopped.
    """
    _, new = Pause.objects.get_or_create(mailbox=mailbox, defaults={"since": timezone.now()})
    if new:
        chain.record(mailbox=mailbox, event="paused", actor=actor)
    return new


@retry_if_rolled_back
@transaction.atomic
def resume(*, mailbox: Mailbox | None, actor: str) -> bool:
    """Take the pause of this mailbox, or that of everything, away; returns whether there was one.

    Raises `conflict` for a pause that mailhub set itself because the database does not know what
    was sent.
    """
    if mailbox is None and (why := restored.reason()):
        raise Problem("conflict", f"{why} Run `manage.py after_restore`.")
    ended, _ = Pause.objects.filter(mailbox=mailbox).delete()
    if ended:
        chain.record(mailbox=mailbox, event="resumed", actor=actor)
    return bool(ended)


def is_paused(mailbox: Mailbox) -> bool:
    """Whether the kill switch holds this mailbox back, its own or that of everything."""
    return Pause.objects.filter(Q(mailbox=None) | Q(mailbox=mailbox)).exists()


def why_everything_is_paused() -> str:
    """Return the reason if mailhub has paused everything itself, as a sentence; else an empty
    string.
    """
    return restored.reason()


def everything_is_paused() -> bool:
    return Pause.objects.filter(mailbox=None).exists()


def paused_among(mailboxes: Sequence[Mailbox]) -> set[UUID]:
    """The ids of those that the kill switch holds back, by a pause of their own or that of
    everything.
    """
    found = Pause.objects.filter(Q(mailbox=None) | Q(mailbox__in=mailboxes)).values_list(
        "mailbox_id", flat=True
    )
    held = set(found)
    return {each.pk for each in mailboxes if None in held or each.pk in held}


def under_way(mailbox: Mailbox | None) -> tuple[int, int]:
    """How many are approved and how many are leaving now, from this mailbox or from all."""
    actions = (
        PendingAction.objects.filter(mailbox=mailbox) if mailbox else PendingAction.objects.all()
    )
    return actions.filter(status=Status.APPROVED).count(), actions.filter(
        status=Status.EXECUTING
    ).count()
