"""Deliveries from the audit chains: the send path writes nothing for them, yet none is missed."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import OuterRef, QuerySet, Subquery, UUIDField, Value
from django.db.models.functions import Coalesce, Now

from accounts.infra.database import is_away
from approvals.models import (
    AuditChain,
    AuditEvent,
    ProposerNote,
    Webhook,
    WebhookCursor,
    WebhookDelivery,
)
from approvals.models.audit import PEOPLE
from approvals.outbound.webhooks.events import SECURITY, names_of
from approvals.reports.steps import event_of

log = structlog.get_logger(__name__)

BATCH = 100
LINKS = 500
KEPT = timedelta(days=30)


def find_behind() -> QuerySet[WebhookCursor]:
    """Return the cursors that have not reached the end of their chain."""
    chain = Coalesce(OuterRef("mailbox"), Value(PEOPLE, output_field=UUIDField()))
    length = AuditChain.objects.filter(pk=chain).values("length")
    return WebhookCursor.objects.filter(
        webhook__in=Webhook.find_active(), sequence__lt=Subquery(length)
    )


def gather() -> None:
    """Make deliveries of the new events, in order and each only once, by any number of workers."""
    # Any of them: many webhooks of one person must not be always the first.
    for cursor_id in find_behind().order_by("?").values_list("pk", flat=True)[:BATCH]:
        try:
            _gather(cursor_id)
        except Exception as error:  # a failure of one webhook must not stop the others
            if is_away(error):
                raise
            log.exception("webhook_not_gathered", count=cursor_id)


def _gather(cursor_id: int) -> None:
    with transaction.atomic():
        mine = WebhookCursor.objects.select_for_update(
            no_key=True, skip_locked=True, of=("self",)
        ).filter(pk=cursor_id)
        cursor = mine.select_related("webhook").first()
        if cursor is not None:
            _take_over(cursor)


def _take_over(cursor: WebhookCursor) -> None:
    following = AuditEvent.objects.filter(
        chain=cursor.mailbox_id or PEOPLE, sequence__gt=cursor.sequence
    )
    links = list(following.order_by("sequence")[:LINKS])
    if not links:
        return
    webhook = cursor.webhook
    if cursor.mailbox_id is None:
        WebhookDelivery.objects.bulk_create(
            WebhookDelivery(
                webhook=webhook,
                event=f"{SECURITY}.{link.event}",
                link=link,
                at=link.at,
                next_at=link.at,
            )
            for link in links
        )
    else:
        WebhookDelivery.objects.bulk_create(
            WebhookDelivery(
                webhook=webhook,
                event=event,
                action_id=link.action_id,
                link=link,
                at=link.at,
                next_at=link.at,
            )
            for link, event in _wanted(webhook, links)
        )
    cursor.sequence = links[-1].sequence
    cursor.save(update_fields=["sequence"])


def _wanted(webhook: Webhook, links: Sequence[AuditEvent]) -> Iterator[tuple[AuditEvent, str]]:
    """Yield the links of actions that this webhook gets, with their names.

    A callback gets no event of the proposal itself: the program has just had that answer.
    """
    wanted = names_of(webhook)
    chosen = [
        (link, name)
        for link in links
        if link.action_id and (name := event_of(link)) and name in wanted
    ]
    if not webhook.callbacks:
        yield from chosen
        return
    asked = set(
        ProposerNote.objects.filter(
            action__in={link.action_id for link, _ in chosen}, action__token_id=webhook.token_id
        )
        .exclude(callback_url="")
        .values_list("action", flat=True)
    )
    yield from (
        (link, name)
        for link, name in chosen
        if name != "action.proposed" and link.action_id in asked
    )


def forget_old() -> None:
    """Delete deliveries after 30 days, and webhooks of tokens that were revoked long ago."""
    kept = timedelta(days=settings.MAILHUB_RETENTION_DAYS)
    old = WebhookDelivery.objects.filter(at__lt=Now() - KEPT)
    WebhookDelivery.objects.filter(pk__in=list(old.values_list("pk", flat=True)[:10_000])).delete()
    Webhook.objects.filter(token__revoked_at__lt=Now() - kept).delete()
