"""What is told: which links of a mailbox's chain, under which names, in which words.

Never any content of a mail.
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

# The name of an event, and the state that the action was in then.
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
# Security events, for webhooks that staff have added: each is told as `security.` and its name in
# the audit.
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
    """The name under which a link of the chain is told, if it is.

    A link that cannot be read is not told.
    """
    if link.event == "approved":  # one yes of several is not the approval
        try:
            return "action.approved" if link.data["given"] >= link.data["needed"] else None
        except (
            KeyError,
            TypeError,
        ):  # altered, or written by an older version: the links after it are told
            log.warning("audit_link_unreadable", action=str(link.action_id), count=link.sequence)
            return None
    return _OF_LINKS.get(link.event)


def body_of(delivery: WebhookDelivery) -> bytes:
    """What is sent, the same bytes at each try. It tells where to look, and that asks who looks."""
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
    """A security event: ids, a method and a network, and nothing else that the event may hold."""
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
    """The place and hash of the event in the audit chain of its mailbox: a witness outside of this
    machine.
    """
    links = AuditEvent.objects.filter(action_id=delivery.action_id, at=delivery.at)
    link = next((link for link in links if event_of(link) == delivery.event), None)
    return {"audit": {"sequence": link.sequence, "hash": link.hash}} if link else {}


def rfc3339(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")
