"""State of the pages for each person: saved views, the order, and the pages that are open now."""

from datetime import timedelta

from django.conf import settings
from django.db import models

from approvals.models.action import PendingAction

PRESENT = timedelta(seconds=30)  # how long a sign of a person at an open page is valid


class SavedView(models.Model):
    """A name for a filter of the queue; `query` is the query string of its address."""

    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    name = models.CharField(max_length=60)
    query = models.CharField(max_length=500)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["person", "name"], name="saved_view_name_once")
        ]

    def __str__(self) -> str:
        return self.name


class QueueOrder(models.Model):
    """The order in which a person works through the queue (`approvals.pages.orders`)."""

    person = models.OneToOneField(
        settings.AUTH_USER_MODEL, models.CASCADE, primary_key=True, related_name="+"
    )
    name = models.CharField(max_length=10)

    def __str__(self) -> str:
        return self.name


class Presence(models.Model):
    """A person who has the page of an action open; valid for PRESENT after `seen_at`."""

    action = models.ForeignKey(PendingAction, models.CASCADE, related_name="+")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    seen_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["action", "person"], name="presence_once")]
        indexes = [models.Index(fields=["seen_at"], name="presence_seen")]

    def __str__(self) -> str:
        return f"{self.person_id} at {self.action_id}"
