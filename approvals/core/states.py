"""All states of an action and all transitions between them, in one place."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from accounts.infra.texts import Translatable, translatable


class Status(models.TextChoices):
    PENDING = "pending", _("waiting for a person")
    # Undo window, send-at or back-off may still hold it.
    APPROVED = (
        "approved",
        _("approved, will leave"),
    )
    EXECUTING = "executing", _("leaving now")
    SUCCEEDED = "succeeded", _("sent")
    FAILED = "failed", _("failed")  # refused for good; an earlier attempt may have sent it
    UNKNOWN = "unknown", _("not known whether it was sent")  # handed over, the answer was lost
    REJECTED = "rejected", _("rejected")
    CANCELLED = "cancelled", _("withdrawn")
    EXPIRED = "expired", _("expired")  # nobody decided in time
    SUPERSEDED = "superseded", _("replaced by another proposal")


# For errors of people who come too late.
SENTENCES: dict[Status, Translatable] = {
    Status.PENDING: translatable("It waits for a person."),
    Status.APPROVED: translatable("It is approved and will leave."),
    Status.EXECUTING: translatable("It is leaving now."),
    Status.SUCCEEDED: translatable("It was sent."),
    Status.FAILED: translatable("It has failed."),
    Status.UNKNOWN: translatable("It is not known whether it was sent."),
    Status.REJECTED: translatable("It was rejected."),
    Status.CANCELLED: translatable("It was withdrawn."),
    Status.EXPIRED: translatable("It has expired."),
    Status.SUPERSEDED: translatable("It was replaced by another proposal."),
}

TRANSITIONS: dict[Status, frozenset[Status]] = {
    # From pending or approved to succeeded: the provider's late answer says that an earlier attempt
    # was accepted.
    Status.PENDING: frozenset(
        {
            Status.APPROVED,
            Status.REJECTED,
            Status.CANCELLED,
            Status.EXPIRED,
            Status.SUPERSEDED,
            Status.SUCCEEDED,
        }
    ),
    # Back to pending: undo, a withdrawn approval, a failed recheck. The decisions are void then.
    Status.APPROVED: frozenset(
        {Status.EXECUTING, Status.CANCELLED, Status.EXPIRED, Status.PENDING, Status.SUCCEEDED}
    ),
    # Back to approved only with proof that nothing was sent.
    Status.EXECUTING: frozenset({Status.SUCCEEDED, Status.FAILED, Status.APPROVED, Status.UNKNOWN}),
    # Out of unknown only with the provider's evidence or a person's ruling. A ruling that it was
    # not sent is no proof, so it begins a new round of approvals.
    Status.UNKNOWN: frozenset({Status.SUCCEEDED, Status.FAILED, Status.APPROVED, Status.PENDING}),
}

OPEN = (Status.PENDING, Status.APPROVED, Status.EXECUTING, Status.UNKNOWN)
FINAL = tuple(status for status in Status if status not in TRANSITIONS)
# SUCCEEDED is not in the list: a late answer closes an action whose approvals were taken back.
NEEDS_APPROVALS = (Status.APPROVED, Status.EXECUTING, Status.FAILED, Status.UNKNOWN)
