"""Delivery of webhooks.

At least once: an attempt is counted before it is made, and a lost one is repeated.
"""

import http.client
import time
from datetime import datetime, timedelta
from uuid import UUID

import structlog
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone
from standardwebhooks import Webhook as Signer

from accounts.access.caller import Caller
from accounts.infra.credentials import CannotDecrypt, decrypt_text
from accounts.infra.foreign_text import parse_number
from accounts.infra.safe_hosts import HostError, TlsFailed
from accounts.infra.safe_http import exchange
from approvals.models import Webhook, WebhookDelivery
from approvals.outbound.webhooks.events import body_of
from approvals.outbound.webhooks.subscriptions import (
    PORTS,
    SECONDS,
    address_of,
    encryption_context,
    find_listener,
)

log = structlog.get_logger(__name__)

AT_ONCE_FOR_AN_OWNER = 2  # so that slow receivers of one person leave threads to others
EACH = 100  # of one webhook in one round
TURN_SECONDS = (
    30.0  # then the next webhook follows; a running attempt takes at most twice SECONDS longer
)
TURN = timedelta(seconds=TURN_SECONDS + 3 * SECONDS)
# The waits after the first, second, … attempt; after the last one there is no other (as Standard
# Webhooks proposes).
AGAIN = tuple(
    timedelta(seconds=seconds)
    for seconds in (5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)
)
GONE = 410
NO_ADDRESS = "no_address"
NO_RIGHT = "no_right"


def due() -> QuerySet[WebhookDelivery]:
    """Return the deliveries to attempt now, of webhooks that no worker holds."""
    return WebhookDelivery.objects.filter(webhook__in=_free(), next_at__lte=Now())


def _free() -> QuerySet[Webhook]:
    return Webhook.find_active().filter(Q(busy_until=None) | Q(busy_until__lt=Now()))


def find_waiting() -> list[tuple[tuple[int, UUID], UUID]]:
    """Return the webhooks with due deliveries for `Background`, each with its owner."""
    found = due().order_by().values_list("webhook__token__user", "webhook").distinct()
    return [((owner, webhook), webhook) for owner, webhook in found]


def deliver(webhook_id: UUID) -> None:
    """Attempt the due deliveries of one webhook, in order and up to the first failure.

    No other worker does so meanwhile.
    """
    mine = (
        due()
        .filter(webhook=webhook_id)
        .select_related("webhook__token", "action__mailbox", "action__proposer_note", "link")
        .order_by("at", "link__sequence")
    )
    found = list(mine[:EACH])
    if not _free().filter(pk=webhook_id).update(busy_until=Now() + TURN):
        return
    ends = time.monotonic() + TURN_SECONDS
    try:
        failed = set()
        for delivery in found:
            if time.monotonic() > ends:
                return
            # A callback has an address for each action, so one that fails stops no other.
            if delivery.action_id not in failed and not _attempt(delivery):
                if not delivery.webhook.callbacks:
                    return
                failed.add(delivery.action_id)
    finally:
        Webhook.objects.filter(pk=webhook_id).update(busy_until=None)


def _attempt(delivery: WebhookDelivery) -> bool:
    """Make one attempt; return True if the next one to the same address makes sense."""
    again = AGAIN[delivery.tries] if delivery.tries < len(AGAIN) else None
    mine = WebhookDelivery.objects.filter(pk=delivery.pk, tries=delivery.tries, next_at__lte=Now())
    if not mine.update(tries=delivery.tries + 1, tried_at=Now(), next_at=again and Now() + again):
        return True  # another worker attempted it meanwhile
    mailbox = delivery.action.mailbox_id if delivery.action else None
    listener = find_listener(delivery.webhook, mailbox)
    if listener is None:
        WebhookDelivery.objects.filter(pk=delivery.pk).update(next_at=None, answer=NO_RIGHT)
        return True
    answer = _post(delivery, listener)
    taken = 200 <= (parse_number(answer, digits=3) or 0) < 300
    done = {"delivered_at": Now(), "next_at": None} if taken else {}
    WebhookDelivery.objects.filter(pk=delivery.pk, tries=delivery.tries + 1).update(
        answer=answer, **done
    )
    if answer in (str(GONE), NO_ADDRESS) and delivery.webhook.callbacks:
        WebhookDelivery.objects.filter(pk=delivery.pk).update(next_at=None)
    elif answer == str(GONE):
        Webhook.objects.filter(pk=delivery.webhook_id).update(ended_at=Now())
    log.info(
        "webhook_tried",
        webhook=str(delivery.webhook_id),
        action=str(delivery.action_id or ""),
        code=answer,
        count=delivery.tries + 1,
    )
    return taken


def _post(delivery: WebhookDelivery, listener: Caller) -> str:
    """Return the status of the answer, or a word for why it is missing."""
    body, now = body_of(delivery, listener), timezone.now()
    url = _url_of(delivery)
    if not url:
        return NO_ADDRESS
    try:
        endpoint, path = address_of(url)
        headers = {"Content-Type": "application/json", "User-Agent": "mailhub"} | _sign(
            delivery, body, now
        )
        with exchange(
            endpoint,
            "POST",
            path,
            headers=headers,
            body=body,
            seconds=SECONDS,
            ports=PORTS,
        ) as answer:
            return str(answer.status)
    except CannotDecrypt:
        return "no_secret"
    except TlsFailed:
        return "tls_failed"
    except HostError:
        return "unreachable"
    except (OSError, http.client.HTTPException, ValueError):
        return "no_answer"


def _url_of(delivery: WebhookDelivery) -> str:
    """Return the address of a delivery; empty if it was deleted with the content of the action."""
    if not delivery.webhook.callbacks:
        return str(delivery.webhook.url)
    note = getattr(delivery.action, "proposer_note", None)
    return note.callback_url if note else ""


def _sign(delivery: WebhookDelivery, body: bytes, now: datetime) -> dict[str, str]:
    number = f"msg_{delivery.pk.hex}"
    secret = decrypt_text(delivery.webhook.secret, bound_to=encryption_context(delivery.webhook))
    return {
        "webhook-id": number,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Signer(secret).sign(number, now, body.decode()),
    }
