from typing import Any

from django.core.management.commands import flush
from django.db import connections

from approvals import guards


class Command(flush.Command):
    """Django's flush.

    On SQLite it deletes row by row, which the guards refuse; PostgreSQL truncates.
    """

    def handle(self, **options: Any) -> None:
        connection = connections[options["database"]]
        if connection.vendor == "sqlite":
            with guards.lift_guards(connection):
                super().handle(**options)
        else:
            super().handle(**options)
