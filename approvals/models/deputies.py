"""Deputies: the people who decide for a person on leave."""

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now


class Deputyship(models.Model):
    """A period in which a deputy may decide with the rights of a person.

    The period includes `starts_at` and excludes `ends_at`, by the database's clock. `ended_at` is
    set if it ended early; the deputy's approvals of mail that has not left are then void.
    """

    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    deputy = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-starts_at", "-id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(ends_at__gt=F("starts_at")), name="deputyship_has_a_period"
            ),
            models.CheckConstraint(
                condition=~Q(person=F("deputy")), name="deputyship_of_another_person"
            ),
        ]
        indexes = [
            models.Index(fields=["person", "deputy"], name="deputyship_of_person"),
            models.Index(fields=["deputy", "ends_at"], name="deputyship_of_deputy"),
        ]

    def __str__(self) -> str:
        return f"{self.deputy_id} for {self.person_id}"
