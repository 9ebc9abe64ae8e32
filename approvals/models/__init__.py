"""The tables of the gate. Only approvals imports them."""

from approvals.models.action import (
    Author,
    Blob,
    IdempotencyRecord,
    PendingAction,
    Revision,
)
from approvals.models.audit import AuditChain, AuditEvent, KeyCheck
from approvals.models.discussion import Assignment, Comment, ReviewText
from approvals.models.execution import Attempt, DeadLetter, Heartbeat, Preparation
from approvals.models.notes import MetadataPair, ProposerNote
from approvals.models.notifications import (
    Content,
    Notification,
    NotificationChannel,
    NotificationCursor,
    NotificationSettings,
    Reminder,
)
from approvals.models.pages import Presence, QueueOrder, SavedView
from approvals.models.pauses import Instance, Pause, Rest
from approvals.models.people import ApprovalPolicy, Decision, Seen
from approvals.models.watches import Watch, WatchedMailbox
from approvals.models.webhooks import Webhook, WebhookCursor, WebhookDelivery

__all__ = [
    "ApprovalPolicy",
    "Assignment",
    "Attempt",
    "AuditChain",
    "AuditEvent",
    "Author",
    "Blob",
    "Comment",
    "Content",
    "DeadLetter",
    "Decision",
    "Heartbeat",
    "IdempotencyRecord",
    "Instance",
    "KeyCheck",
    "MetadataPair",
    "Notification",
    "NotificationChannel",
    "NotificationCursor",
    "NotificationSettings",
    "Pause",
    "PendingAction",
    "Preparation",
    "Presence",
    "ProposerNote",
    "QueueOrder",
    "Reminder",
    "Rest",
    "ReviewText",
    "Revision",
    "SavedView",
    "Seen",
    "Watch",
    "WatchedMailbox",
    "Webhook",
    "WebhookCursor",
    "WebhookDelivery",
]
