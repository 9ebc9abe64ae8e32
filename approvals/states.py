"""Every state of an action and every way from one to another, in one place."""

from django.db import models
from django.utils.translation import gettext_lazy as _


class Status(models.TextChoices):
    PENDING = "pending", _("waiting for a person")
    APPROVED = "approved", _("approved, will leave")  # undo window, send-at or back-off may still hold it
    EXECUTING = "executing", _("leaving now")
    SUCCEEDED = "succeeded", _("sent")
    FAILED = "failed", _("not sent")  # a definite no
    UNKNOWN = "unknown", _("not known whether it was sent")  # handed over, the answer was lost
    REJECTED = "rejected", _("rejected")
    CANCELLED = "cancelled", _("cancelled")
    EXPIRED = "expired", _("expired")  # nobody decided in time
    SUPERSEDED = "superseded", _("replaced by another proposal")


TRANSITIONS: dict[Status, frozenset[Status]] = {
    Status.PENDING: frozenset({Status.APPROVED, Status.REJECTED, Status.CANCELLED, Status.EXPIRED, Status.SUPERSEDED}),
    # Back to pending: undo, a withdrawn approval, a failed recheck. The decisions are void then.
    Status.APPROVED: frozenset({Status.EXECUTING, Status.CANCELLED, Status.EXPIRED, Status.PENDING}),
    # Back to approved only with proof that nothing was sent.
    Status.EXECUTING: frozenset({Status.SUCCEEDED, Status.FAILED, Status.APPROVED, Status.UNKNOWN}),
    # Out of unknown only with the provider's evidence or a person's ruling.
    Status.UNKNOWN: frozenset({Status.SUCCEEDED, Status.FAILED, Status.APPROVED}),
}

OPEN = (Status.PENDING, Status.APPROVED, Status.EXECUTING, Status.UNKNOWN)
FINAL = tuple(status for status in Status if status not in TRANSITIONS)
APPROVED_OR_LATER = (Status.APPROVED, Status.EXECUTING, Status.SUCCEEDED, Status.FAILED, Status.UNKNOWN)
