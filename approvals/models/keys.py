"""The keys that this database was written with."""

from django.db import models


class KeyCheck(models.Model):
    """A value that only the right key makes: it shows that a process has the keys of this database.

    `name` is `encryption` for MAILHUB_ENCRYPTION_KEYS and `secret` for SECRET_KEY.
    """

    name = models.CharField(primary_key=True, max_length=20)
    value = models.CharField(max_length=80)

    def __str__(self) -> str:
        return self.name
