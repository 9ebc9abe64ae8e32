"""Webhooks of a token: added by a program that holds it, or by its owner."""

import base64
import secrets
from collections.abc import Collection, Iterable
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now

from accounts.access import roles
from accounts.access.auth import find_caller
from accounts.access.caller import Caller
from accounts.access.provider_calls import limit_waiting
from accounts.infra.credentials import encrypt_text
from accounts.infra.foreign_text import parse_url
from accounts.infra.problems import FieldError, Problem, not_found
from accounts.infra.safe_hosts import Endpoint, HostError, HostRefused, check_addresses
from accounts.infra.texts import translatable
from accounts.models import ApiToken, User
from approvals.audit import chain
from approvals.models import AuditChain, Webhook, WebhookCursor, WebhookDelivery
from approvals.models.audit import PEOPLE
from approvals.outbound.webhooks.events import ALL, SECURITY
from approvals.reports.steps import EVENTS

SCOPE = "webhooks:manage"
AT_MOST = 10
OF_PERSON = 100  # each event of a mailbox becomes a delivery of each of them
SECRET_BYTES = 32
SECONDS = 10.0
PORTS = frozenset({443, 8443})


def add_webhook(
    caller: Caller, token: ApiToken, *, url: str, events: Collection[str], callbacks: bool = False
) -> tuple[Webhook, str]:
    """Add a webhook; return the row and the secret for checking signatures.

    The secret is known only now. All present events mean all later ones too. With `callbacks` it is
    for the callback addresses of the token's proposals, and there is no `url`. Raises
    `invalid_input` for an address to which nothing would be sent, and `conflict` if there are
    enough. Raises `forbidden` for security events unless a member of staff adds it on the page: a
    stolen token must not follow them.
    """
    security = SECURITY in events
    if security and (
        not caller.is_person or not caller.user.is_staff or token.user_id != caller.user.pk
    ):
        raise Problem(
            "forbidden",
            "Only staff can add a webhook for security events, and only in the browser.",
        )
    if not callbacks:
        with limit_waiting(caller.user.pk):
            _refuse_address(url, "url")
    chosen = [ALL] if EVENTS.keys() <= set(events) else [name for name in EVENTS if name in events]
    webhook = Webhook(
        token=token,
        url=url,
        callbacks=callbacks,
        events=[*chosen, SECURITY] if security else chosen,
    )
    secret = f"whsec_{base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()}"
    webhook.secret = encrypt_text(secret, bound_to=encryption_context(webhook))
    with transaction.atomic():
        # Two at once are counted one after the other.
        ApiToken.objects.select_for_update(no_key=True).get(pk=token.pk)
        if Webhook.objects.filter(token=token).count() >= AT_MOST:
            raise Problem(
                "conflict",
                translatable(
                    "A token has at most %(count)s webhooks. Remove one first.", count=AT_MOST
                ),
            )
        if Webhook.find_active().filter(token__user=token.user_id).count() >= OF_PERSON:
            raise Problem(
                "conflict",
                translatable(
                    "Your tokens have %(count)s webhooks together. Remove one first.",
                    count=OF_PERSON,
                ),
            )
        if callbacks and Webhook.objects.filter(token=token, callbacks=True).exists():
            raise Problem(
                "conflict", "This token has a secret for callbacks already. Remove it first."
            )
        webhook.save()
        mailboxes = list(token.mailboxes.values_list("pk", flat=True))
        _begin_at_present(webhook, mailboxes, security=security)
        _record(caller.actor, webhook, mailboxes, event="webhook_added")
    return webhook, secret


def find_listener(webhook: Webhook, mailbox: UUID | None) -> Caller | None:
    """Return the program that a webhook tells about a mailbox (None: about people), with its rights
    of now; None if it may not know. These are the same questions as before a read.
    """
    caller = find_caller(webhook.token.user_id, webhook.token_id)
    if caller is None or not caller.may(SCOPE):
        return None
    if mailbox is None:
        return caller if caller.user.is_staff else None
    return caller if roles.mailboxes(caller).filter(pk=mailbox).exists() else None


def refuse_callback(caller: Caller, url: str) -> None:
    """Raise Problem if the events of a proposal cannot go to this address.

    The caller needs the scope for webhooks: an address is a way out, for which no person is asked.
    """
    if caller.token is None or not caller.may(SCOPE):
        raise Problem(
            "forbidden",
            translatable("Only a token with the scope %(scope)s can name a callback.", scope=SCOPE),
        )
    if not Webhook.objects.filter(token=caller.token, callbacks=True).exists():
        raise Problem(
            "invalid_input",
            "This token has no secret for callbacks.",
            errors=(
                FieldError(
                    field="callback_url",
                    message=translatable(
                        "needs a secret: POST /api/v1/webhooks with callbacks set to true"
                    ),
                ),
            ),
        )
    _refuse_address(url, "callback_url")


def _refuse_address(url: str, field: str) -> None:
    try:
        may_be_told(url)
    except (ValueError, HostError) as error:
        raise Problem(
            "invalid_input",
            "The address cannot be used.",
            errors=(FieldError(field=field, message=str(error)),),
        ) from None


def _begin_at_present(webhook: Webhook, mailboxes: Collection[UUID], *, security: bool) -> None:
    """Set the webhook's place in each chain, so that it gets no earlier events."""
    length = dict(AuditChain.objects.filter(pk__in=mailboxes).values_list("pk", "length"))
    WebhookCursor.objects.bulk_create(
        WebhookCursor(webhook=webhook, mailbox_id=mailbox, sequence=length.get(mailbox, 0))
        for mailbox in mailboxes
    )
    if security:
        at = AuditChain.objects.filter(pk=PEOPLE).values_list("length", flat=True).first() or 0
        WebhookCursor.objects.create(webhook=webhook, mailbox=None, sequence=at)


def remove_webhook(caller: Caller, webhook: Webhook) -> None:
    """Remove a webhook and its deliveries; it gets no further events."""
    _remove(webhook, caller.actor)


def end_security_webhooks(
    sender: object, person: User, *, by: User | None, of: str, **_: object
) -> None:
    """Receive that rights of a person were taken: with those of staff, webhooks for security events
    end. They have a token, but events of people are no right of a token.
    """
    if of != "staff":
        return
    for webhook in Webhook.objects.filter(token__user=person).select_related("token"):
        if SECURITY in webhook.events:
            _remove(webhook, f"user:{by.pk}" if by else "command")


@transaction.atomic
def _remove(webhook: Webhook, actor: str) -> None:
    mailboxes = webhook.token.mailboxes.values_list("pk", flat=True)
    _record(actor, webhook, mailboxes, event="webhook_removed")
    webhook.delete()


def _record(actor: str, webhook: Webhook, mailboxes: Iterable[UUID], *, event: str) -> None:
    for mailbox in sorted(mailboxes):
        chain.record(mailbox=mailbox, event=event, actor=actor, webhook=str(webhook.pk))
    # The chain of people comes last, because every writer must lock chains in the same order.
    if SECURITY in webhook.events:
        chain.record(
            mailbox=None, of_people=True, event=event, actor=actor, webhook=str(webhook.pk)
        )


def deliver_again(webhook: Webhook, delivery_id: UUID) -> None:
    """Send a delivery again, now, with as many attempts as a new one.

    If it still waits, it is only sent sooner. Raises `not_found`.
    """
    deliveries = WebhookDelivery.objects.filter(webhook=webhook, pk=delivery_id)
    if not deliveries.update(tries=0, next_at=Now(), delivered_at=None):
        raise not_found("The delivery does not exist, or you may not see it.")


def encryption_context(webhook: Webhook) -> str:
    """Return the context to which the encrypted secret is bound."""
    return f"approvals_webhook:secret:{webhook.pk}"


def address_of(url: str) -> tuple[Endpoint, str]:
    """Return the server and the path of a webhook's URL; raises ValueError with a sentence."""
    parts = parse_url(url)
    if (
        parts.scheme not in ("https", "http")
        or not parts.hostname
        or parts.username is not None
        or parts.fragment
    ):
        raise ValueError(
            translatable("Write an address as https://host/path, without a password and without #.")
        )
    if not (url.isascii() and url.isprintable() and " " not in url):
        raise ValueError(translatable("Write the address in ASCII, without spaces."))
    secure = parts.scheme == "https"
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = parts.port or (443 if secure else 80)
    endpoint = Endpoint.parse(f"{host}:{port}:{'tls' if secure else 'plain'}")
    return endpoint, (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def may_be_told(url: str) -> None:
    """Raise ValueError or HostRefused for an address to which nothing would ever be sent."""
    endpoint, _ = address_of(url)
    loopback = settings.MAILHUB_LOOPBACK_FOR_PEOPLE
    try:
        check_addresses(endpoint, timeout=SECONDS, loopback=loopback, ports=PORTS)
    except HostRefused:
        if endpoint.security == "plain" or endpoint.port not in PORTS:
            raise ValueError(translatable("Use https, on port 443 or 8443.")) from None
        raise
