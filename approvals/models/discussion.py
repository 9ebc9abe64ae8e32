"""Comments of reviewers on an action, the person who takes care of it, and their usual texts."""

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from accounts.infra.fields import EncryptedTextField
from accounts.models import Mailbox
from approvals.models.action import PendingAction


class Comment(models.Model):
    """A comment of a reviewer on an action, for the members of its mailbox; nothing of it is sent.

    The text is encrypted at rest. It is deleted with the content of the action.
    """

    action = models.ForeignKey(PendingAction, models.CASCADE, related_name="+")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    text = EncryptedTextField(bound_by=["action_id", "person_id", "created_at"])
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["created_at", "id"]
        indexes = [models.Index(fields=["action", "created_at", "id"], name="comment_of_action")]

    def __str__(self) -> str:
        return f"{self.pk} on {self.action_id}"


class Assignment(models.Model):
    """The person who takes care of an action; it does not change who may decide."""

    action = models.OneToOneField(
        PendingAction, models.CASCADE, primary_key=True, related_name="assignment"
    )
    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")

    def __str__(self) -> str:
        return f"{self.action_id} to {self.person_id}"


class ReviewText(models.Model):
    """A text that a reviewer may take over into the note of a rejection or a request for changes."""

    class Purpose(models.TextChoices):
        ASK_BACK = "ask_back", _("request changes")
        REJECT = "reject", _("reject")

    mailbox = models.ForeignKey(Mailbox, models.CASCADE, related_name="+")
    purpose = models.CharField(max_length=10, choices=Purpose.choices)
    title = models.CharField(max_length=60)
    text = models.CharField(max_length=2000)

    class Meta:
        ordering = ["title", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["mailbox", "purpose", "title"], name="review_text_title_once"
            )
        ]

    def __str__(self) -> str:
        return self.title
