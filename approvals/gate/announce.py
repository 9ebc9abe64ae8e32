"""News of a token or a mailbox for all its open mail, as soon as it is committed.

Only pages need that: an approval and the claim compare the generations themselves.
"""

from functools import partial
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q

from accounts.models import Mailbox
from approvals.core.states import Status
from approvals.gate.news import tell_news
from approvals.gate.send_back import return_if_void
from approvals.models import PendingAction

MOST = 500  # the first to expire; the others get the news when somebody decides about them


def announce_change(
    sender: object, *, name: str, mailbox: Mailbox | None, data: dict[str, Any], **_: object
) -> None:
    """Receive `accounts.audit_hook.audit_event`, and add the news to open mail after the commit."""
    if mailbox is None and name in ("token_revoked", "token_narrowed"):
        concerned = Q(token_id=data["token"])
    elif mailbox is not None and name == "mailbox_reconnected":
        concerned = Q(mailbox=mailbox) & ~Q(mailbox_generation=F("mailbox__generation"))
    else:
        return
    transaction.on_commit(partial(_tell_open, concerned), robust=True)


def _tell_open(concerned: Q) -> None:
    found = PendingAction.objects.filter(concerned, status__in=(Status.PENDING, Status.APPROVED))
    for action_id in found.order_by("expires_at", "pk").values_list("pk", flat=True)[:MOST]:
        if not return_if_void(action_id):
            _tell_waiting(action_id)


@transaction.atomic
def _tell_waiting(action_id: UUID) -> None:
    waiting = PendingAction.objects.filter(pk=action_id, status=Status.PENDING)
    if action := waiting.select_for_update(no_key=True).first():
        tell_news(action)
