"""The kill switch: approved mail waits, for one mailbox or for all of them."""

from collections.abc import Sequence
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from accounts.infra.problems import Problem
from accounts.infra.texts import join, translatable
from accounts.infra.transactions import retry_if_rolled_back
from accounts.models import Mailbox
from approvals.audit import chain
from approvals.core.states import Status
from approvals.gate.pauses import restored
from approvals.models import Pause, PendingAction


@retry_if_rolled_back
@transaction.atomic
def pause(*, mailbox: Mailbox | None, actor: str) -> bool:
    """Let nothing leave this mailbox, or any; return True if that is new.

    Mail that is leaving now is not stopped.
    """
    _, new = Pause.objects.get_or_create(
        mailbox=mailbox, reason="", defaults={"since": timezone.now()}
    )
    if new:
        chain.record(mailbox=mailbox, event="paused", actor=actor, anchored=True)
    return new


@retry_if_rolled_back
@transaction.atomic
def resume(*, mailbox: Mailbox | None, actor: str) -> bool:
    """Remove the pause of this mailbox, or the pause of everything; return True if there was one.

    Raises `conflict` if only a pause is left that mailhub set itself because the database does not
    know which mail was sent.
    """
    ended, _ = Pause.objects.filter(mailbox=mailbox, reason="").delete()
    if ended:
        chain.record(mailbox=mailbox, event="resumed", actor=actor)
    elif mailbox is None and (why := restored.reason()):
        raise Problem("conflict", join(why, translatable("Run `manage.py after_restore`.")))
    return bool(ended)


def is_paused(mailbox: Mailbox) -> bool:
    """Return True if the kill switch holds this mailbox back, by its own or the general pause."""
    return Pause.objects.filter(Q(mailbox=None) | Q(mailbox=mailbox)).exists()


def own_pause_reason() -> str:
    """Return why mailhub has paused everything itself, as a sentence; an empty string otherwise."""
    return restored.reason()


def is_everything_paused() -> bool:
    return Pause.objects.filter(mailbox=None).exists()


def find_paused(mailboxes: Sequence[Mailbox]) -> set[UUID]:
    """Return the ids of paused mailboxes, by their own pause or the general one."""
    found = Pause.objects.filter(Q(mailbox=None) | Q(mailbox__in=mailboxes)).values_list(
        "mailbox_id", flat=True
    )
    held = set(found)
    return {each.pk for each in mailboxes if None in held or each.pk in held}


def count_under_way(mailbox: Mailbox | None) -> tuple[int, int]:
    """Return how many actions are approved and how many are leaving, from this mailbox or all."""
    actions = (
        PendingAction.objects.filter(mailbox=mailbox) if mailbox else PendingAction.objects.all()
    )
    return actions.filter(status=Status.APPROVED).count(), actions.filter(
        status=Status.EXECUTING
    ).count()
