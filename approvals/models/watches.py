"""Answers to mail that was sent, returned mail, and automatic replies."""

from django.db import models
from django.db.models import Q

from accounts.infra.fields import EncryptedTextField
from accounts.models import Mailbox
from approvals.models.action import PendingAction


class Watch(models.Model):
    """The answer and the reports after one action, and the end of the search for them.

    `message_id` is the Message-ID under which the provider shows the mail, which may be another
    than ours. It is empty until it was looked up, and "unshown" if Sent does not show the mail. After
    `ends_at` nothing is looked for, and it is null once that has ended. `answered_by` is the address
    that answered first, or withdrew the action by its answer. At `follow_up_at` the proposer learns
    that nobody has answered; it is null if nobody asked for that, and once it was said. `reports` is a
    JSON list of what came back for a recipient, and of automatic replies. Words and addresses are
    encrypted at rest.
    """

    action = models.OneToOneField(
        PendingAction, models.CASCADE, primary_key=True, related_name="watch"
    )
    mailbox = models.ForeignKey(Mailbox, models.CASCADE, related_name="+", db_index=False)
    message_id = models.CharField(max_length=255, blank=True)
    began_at = models.DateTimeField()
    ends_at = models.DateTimeField(null=True)
    answered_at = models.DateTimeField(null=True)
    answered_by = EncryptedTextField(blank=True, bound_by=["action_id"])
    follow_up_at = models.DateTimeField(null=True)
    unanswered_at = models.DateTimeField(null=True)
    note = EncryptedTextField(blank=True, bound_by=["action_id"])
    reports = EncryptedTextField(blank=True, bound_by=["action_id"])

    class Meta:
        indexes = [
            models.Index(
                fields=["mailbox", "message_id"],
                condition=Q(ends_at__isnull=False),
                name="watch_of_mailbox",
            ),
            models.Index(
                fields=["follow_up_at"],
                condition=Q(follow_up_at__isnull=False),
                name="watch_follow_up",
            ),
        ]

    def __str__(self) -> str:
        return str(self.pk)


class WatchedMailbox(models.Model):
    """A mailbox in which mailhub looks for answers and reports, for all of its watches at once.

    Everything that arrived before `seen_until` was looked at. `look_at` is the time of the next
    look; it is null if nothing is watched there.
    """

    mailbox = models.OneToOneField(Mailbox, models.CASCADE, primary_key=True, related_name="+")
    seen_until = models.DateTimeField()
    look_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["look_at"], condition=Q(look_at__isnull=False), name="watched_mailbox_due"
            )
        ]

    def __str__(self) -> str:
        return str(self.pk)
