"""The bodies of the events of webhooks: steps of actions, and security events.

They hold no content of a mail, except for the values that a reviewer changed; these go only to the
token that proposed the mail and may read it.
"""

import json
from datetime import datetime
from typing import Any

from accounts.access.caller import Caller
from approvals.gate import reconcile
from approvals.gate.find import review_url
from approvals.models import AuditEvent, PendingAction, Webhook, WebhookDelivery
from approvals.reports.report import report_step
from approvals.reports.steps import EVENTS, event_of

# Security events, for webhooks of staff: each is named `security.` and its name in the audit.
SECURITY = "security"
# Stored for a webhook of all events, so that it gets those of later versions too.
ALL = "action.*"


def names_of(webhook: Webhook) -> list[str]:
    """Return the events that a webhook gets, in this version."""
    if ALL not in webhook.events:
        return list(webhook.events)
    return [*EVENTS, *(name for name in webhook.events if name != ALL)]


def body_of(delivery: WebhookDelivery, listener: Caller) -> bytes:
    """Return the body, the same bytes at each attempt, unless a doubt about a prepared draft came or went.

    It names the address of the action, where the reader has to sign in.
    """
    link = delivery.link or _find_link(delivery)
    if delivery.action is None:
        assert link is not None
        return _body_of_security(delivery, link)
    action: PendingAction = delivery.action
    said: dict[str, Any] = {
        "type": delivery.event,
        "timestamp": rfc3339(delivery.at),
        "data": {
            "id": str(action.pk),
            "state": EVENTS[delivery.event].value,
            "tool": action.tool,
            "mailbox": action.mailbox.address,
            "review_url": review_url(action),
            **(report_step(action, link, listener) if link else {}),
            # The place and hash of the event in its audit chain: evidence on another machine.
            **({"audit": {"sequence": link.sequence, "hash": link.hash}} if link else {}),
        },
    }
    if at := reconcile.may_have_left_by(action.pk, delivery.at):
        said["data"]["may_have_been_sent_at"] = rfc3339(at)
    return json.dumps(said, separators=(",", ":")).encode()


def _body_of_security(delivery: WebhookDelivery, link: AuditEvent) -> bytes:
    """Return the body of a security event: only ids, a method and a network."""
    data = link.data if isinstance(link.data, dict) else {}
    said = {
        "type": delivery.event,
        "timestamp": rfc3339(delivery.at),
        "data": {
            "id": str(link.pk),
            "event": link.event,
            "actor": link.actor,
            **{name: str(data[name]) for name in ("subject", "method", "network") if name in data},
            "audit": {"sequence": link.sequence, "hash": link.hash},
        },
    }
    return json.dumps(said, separators=(",", ":")).encode()


def _find_link(delivery: WebhookDelivery) -> AuditEvent | None:
    """Return the event in the audit of a delivery that an older version made."""
    links = AuditEvent.objects.filter(action_id=delivery.action_id, at=delivery.at)
    return next((link for link in links if event_of(link) == delivery.event), None)


def rfc3339(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")
