"""Making the deliveries. At least once: a try is counted before it is made, and one that got lost comes again."""

import http.client
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from uuid import UUID

import structlog
from django.conf import settings
from django.db import connection
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils import timezone
from standardwebhooks import Webhook as Signer

from accounts.credentials import CannotDecrypt, decrypt_text
from accounts.hosts import HostError, TlsFailed
from accounts.pinned import exchanged
from approvals.models import Webhook, WebhookDelivery
from approvals.webhooks.addresses import PORTS, SECONDS, address_of, bound_to
from approvals.webhooks.events import body_of

log = structlog.get_logger(__name__)

AT_ONCE = 4
EACH = 100  # for one webhook in one round
# How long to wait after the first, second, … try; after the last there is none (as Standard Webhooks proposes).
AGAIN = tuple(
    timedelta(seconds=seconds)
    for seconds in (5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)
)  # fmt: skip
GONE = 410
_one_round = threading.Lock()


def due() -> QuerySet[WebhookDelivery]:
    return WebhookDelivery.objects.filter(webhook__in=Webhook.listened_to(), next_at__lte=Now())


def deliver() -> None:
    """Try all that is due: several webhooks at once, each in order and no further than its first failure."""
    with _one_round:
        _round()


def deliver_beside() -> None:
    """The same in a thread of its own: nobody's server may hold up the sweep. A round that is under way goes on."""
    if _one_round.acquire(blocking=False):
        threading.Thread(target=_round_and_release, name="webhooks", daemon=True).start()


def _round_and_release() -> None:
    try:
        _round()
    except Exception:  # the database is away; the next sweep begins another round
        log.exception("webhooks_failed")
    finally:
        connection.close()
        _one_round.release()


def _round() -> None:
    waiting = list(due().order_by().values_list("webhook", flat=True).distinct())
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="webhook") as several:
        list(several.map(_deliver_to, waiting))


def _deliver_to(webhook_id: UUID) -> None:
    try:
        mine = due().filter(webhook=webhook_id).select_related("webhook", "action__mailbox")
        for delivery in mine.order_by("at")[:EACH]:
            if not _tried(delivery):
                return
    finally:
        connection.close()


def _tried(delivery: WebhookDelivery) -> bool:
    """One try; whether the next one to the same address makes sense."""
    again = AGAIN[delivery.tries] if delivery.tries < len(AGAIN) else None
    mine = due().filter(pk=delivery.pk, tries=delivery.tries)
    if not mine.update(tries=delivery.tries + 1, tried_at=Now(), next_at=again and Now() + again):
        return True  # somebody else is at it
    answer = _posted(delivery)
    taken = answer.isdecimal() and 200 <= int(answer) < 300
    done = {"delivered_at": Now(), "next_at": None} if taken else {}
    WebhookDelivery.objects.filter(pk=delivery.pk).update(answer=answer, **done)
    if answer == str(GONE):
        Webhook.objects.filter(pk=delivery.webhook_id).update(ended_at=Now())
    log.info(
        "webhook_tried", webhook=str(delivery.webhook_id), action=str(delivery.action_id), code=answer,
        count=delivery.tries + 1,
    )  # fmt: skip
    return taken


def _posted(delivery: WebhookDelivery) -> str:
    """The status of the answer, or a word for why there is none."""
    webhook, body, now = delivery.webhook, body_of(delivery), timezone.now()
    try:
        endpoint, path = address_of(webhook.url)
        headers = {"Content-Type": "application/json", "User-Agent": "mailhub"} | _signed(delivery, body, now)
        with exchanged(
            endpoint, "POST", path, headers=headers, body=body, seconds=SECONDS, ports=PORTS,
            allow_loopback=settings.MAILHUB_ALLOW_LOOPBACK_HOSTS,
        ) as answer:  # fmt: skip
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
