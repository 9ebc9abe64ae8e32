from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from accounts.infra.credentials import CannotDecrypt
from approvals import blobs


class Command(BaseCommand):
    help = (
        "Moves the bytes of messages to where MAILHUB_CONTENT_STORE says: from the database to the bucket, or back. "
        "It may be interrupted and run again."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        in_bucket = settings.MAILHUB_CONTENT_STORE == "s3"
        moved, lost = 0, []
        for row in blobs.list_misplaced():
            try:
                moved += blobs.rewrite(row, in_bucket=in_bucket)
            except CannotDecrypt:
                lost.append(f"{row.action_id}: no configured key opens it")
            except blobs.ContentUnavailable as error:
                if error.reason == blobs.UNREACHABLE:
                    raise CommandError(f"{error.detail} Moved: {moved}. Run it again.") from None
                lost.append(f"{row.action_id}: {error.detail}")
        if lost:
            raise CommandError(f"Moved: {moved}. Not moved: {', '.join(lost)}.")
        place = "bucket" if in_bucket else "database"
        self.stdout.write(f"Moved: {moved}. All bytes are in the {place}.")
