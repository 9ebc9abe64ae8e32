"""The events of webhooks: the links of a mailbox's chain, their names and their bodies.

They never hold content of a mail.
"""

import json
from datetime import datetime
from typing import Any

import structlog

from approvals.core.states import Status
from approvals.lifecycle import reconcile
from approvals.lifecycle.queries import review_url
from approvals.models import AuditEvent, PendingAction, WebhookDelivery

log = structlog.get_logger(__name__)

# The name of an event, and the state of the action then.
EVENTS = {
    "action.proposed": Status.PENDING,
    "action.approved": Status.APPROVED,
    "action.rejected": Status.REJECTED,
    "action.changes_requested": Status.PENDING,
    "action.succeeded": Status.SUCCEEDED,
    "action.failed": Status.FAILED,
    "action.unknown": Status.UNKNOWN,
    "action.expired": Status.EXPIRED,
    "action.unsettled": Status.SUCCEEDED,
}
# Security events, for webhooks of staff: each is named `security.` and its name in the audit.
SECURITY = "security"
_OF_LINKS = {
    "created": "action.proposed",
    "rejected": "action.rejected",
    "changes_requested": "action.changes_requested",
    "outcome_accepted": "action.succeeded",
    "outcome_refused": "action.failed",
    "outcome_unknown": "action.unknown",
    "expired": "action.expired",
    "settling_given_up": "action.unsettled",
}


def event_of(link: AuditEvent) -> str | None:
    """Return the event name for a link of the chain, or None if it has none or cannot be read."""
    if link.event == "approved":  # one approval of several is not enough
        try:
            return "action.approved" if link.data["given"] >= link.data["needed"] else None
        except (
            KeyError,
            TypeError,
        ):  # altered, or written by an older version: later links are still delivered
            log.warning("audit_link_unreadable", action=str(link.action_id), count=link.sequence)
            return None
    return _OF_LINKS.get(link.event)


def body_of(delivery: WebhookDelivery) -> bytes:
    """Return the body, the same bytes at each attempt.

    It names the address of the action, where the reader has to sign in.
    """
    if delivery.link is not None:
        return _body_of_security(delivery, delivery.link)
    assert delivery.action is not None
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
            **_anchor_of(delivery),
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


def _anchor_of(delivery: WebhookDelivery) -> dict[str, Any]:
    """Return the place and hash of the event in its audit chain: evidence on another machine."""
    links = AuditEvent.objects.filter(action_id=delivery.action_id, at=delivery.at)
    link = next((link for link in links if event_of(link) == delivery.event), None)
    return {"audit": {"sequence": link.sequence, "hash": link.hash}} if link else {}


def rfc3339(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")
