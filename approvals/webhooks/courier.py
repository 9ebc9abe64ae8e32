"""Making the deliveries.

At least once: a try is counted before it is made, and one that got lost comes again.
"""

import http.client
import threading
import time
from datetime import datetime, timedelta
from uuid import UUID

import structlog
from django.conf import settings
from django.db import connection
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone
from standardwebhooks import Webhook as Signer

from accounts.infra.credentials import CannotDecrypt, decrypt_text
from accounts.infra.safe_hosts import HostError, TlsFailed
from accounts.infra.safe_http import exchanged
from accounts.models import Membership
from approvals.models import Webhook, WebhookDelivery
from approvals.webhooks.addresses import PORTS, SECONDS, address_of, bound_to
from approvals.webhooks.events import body_of

log = structlog.get_logger(__name__)

AT_ONCE = 4
EACH = 100  # of one webhook in one turn
TURN_SECONDS = (
    30.0  # then it is another's turn; a try that has begun takes at most twice SECONDS longer
)
TURN = timedelta(seconds=TURN_SECONDS + 3 * SECONDS)
# How long to wait after the first, second, … try; after the last there is none (as Standard
# Webhooks proposes).
AGAIN = tuple(
    timedelta(seconds=seconds)
    for seconds in (5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)
)
GONE = 410
THREAD = "webhook"
_turns = threading.BoundedSemaphore(AT_ONCE)


def due() -> QuerySet[WebhookDelivery]:
    """What is to be tried now: of webhooks that nobody is at, whose owners may still see the
    mailbox, or are staff.
    """
    member = Membership.objects.filter(
        mailbox=OuterRef("action__mailbox"), user=OuterRef("webhook__token__user")
    )
    of_people = Q(action=None, webhook__token__user__is_staff=True)
    return WebhookDelivery.objects.filter(
        of_people | Q(Exists(member)), webhook__in=_free(), next_at__lte=Now()
    )


def _free() -> QuerySet[Webhook]:
    return Webhook.listened_to().filter(Q(busy_until=None) | Q(busy_until__lt=Now()))


def deliver_beside() -> None:
    """A turn for each webhook that something is due for, each in a thread of its own: nobody's
    server may hold up the sweep, nor what others are told.
    """
    for webhook_id in _waiting():
        if not _turns.acquire(blocking=False):
            return
        threading.Thread(target=_turn_beside, args=[webhook_id], name=THREAD, daemon=True).start()


def deliver() -> None:
    """The same one after the other, once those beside have ended: for who waits for it."""
    for thread in threading.enumerate():
        if thread.name == THREAD:
            thread.join()
    for webhook_id in _waiting():
        _turn(webhook_id)


def _waiting() -> list[UUID]:
    return list(due().order_by().values_list("webhook", flat=True).distinct())


def _turn_beside(webhook_id: UUID) -> None:
    try:
        _turn(webhook_id)
    except Exception:  # the database is away; what is still due comes at another sweep
        log.exception("webhook_failed", webhook=str(webhook_id))
    finally:
        connection.close()
        _turns.release()


def _turn(webhook_id: UUID) -> None:
    """Try what is due for one webhook, in order and no further than its first failure; nobody else
    does meanwhile.
    """
    mine = (
        due()
        .filter(webhook=webhook_id)
        .select_related("webhook", "action__mailbox", "link")
        .order_by("at")
    )
    found = list(mine[:EACH])
    if not _free().filter(pk=webhook_id).update(busy_until=Now() + TURN):
        return
    ends = time.monotonic() + TURN_SECONDS
    try:
        for delivery in found:
            if time.monotonic() > ends or not _tried(delivery):
                return
    finally:
        Webhook.objects.filter(pk=webhook_id).update(busy_until=None)


def _tried(delivery: WebhookDelivery) -> bool:
    """One try; whether the next one to the same address makes sense."""
    again = AGAIN[delivery.tries] if delivery.tries < len(AGAIN) else None
    mine = WebhookDelivery.objects.filter(pk=delivery.pk, tries=delivery.tries, next_at__lte=Now())
    if not mine.update(tries=delivery.tries + 1, tried_at=Now(), next_at=again and Now() + again):
        return True  # it was tried since it was found
    answer = _posted(delivery)
    taken = answer.isdecimal() and 200 <= int(answer) < 300
    done = {"delivered_at": Now(), "next_at": None} if taken else {}
    WebhookDelivery.objects.filter(pk=delivery.pk, tries=delivery.tries + 1).update(
        answer=answer, **done
    )
    if answer == str(GONE):
        Webhook.objects.filter(pk=delivery.webhook_id).update(ended_at=Now())
    log.info(
        "webhook_tried",
        webhook=str(delivery.webhook_id),
        action=str(delivery.action_id or ""),
        code=answer,
        count=delivery.tries + 1,
    )
    return taken


def _posted(delivery: WebhookDelivery) -> str:
    """The status of the answer, or a word for why there is none."""
    webhook, body, now = delivery.webhook, body_of(delivery), timezone.now()
    try:
        endpoint, path = address_of(webhook.url)
        headers = {"Content-Type": "application/json", "User-Agent": "mailhub"} | _signed(
            delivery, body, now
        )
        with exchanged(
            endpoint,
            "POST",
            path,
            headers=headers,
            body=body,
            seconds=SECONDS,
            ports=PORTS,
            allow_loopback=settings.MAILHUB_ALLOW_LOOPBACK_HOSTS,
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


def _signed(delivery: WebhookDelivery, body: bytes, now: datetime) -> dict[str, str]:
    number = f"msg_{delivery.pk.hex}"
    secret = decrypt_text(delivery.webhook.secret, bound_to=bound_to(delivery.webhook))
    return {
        "webhook-id": number,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Signer(secret).sign(number, now, body.decode()),
    }
