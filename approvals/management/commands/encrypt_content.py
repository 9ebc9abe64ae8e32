from typing import Any

from django.core.management.base import BaseCommand, CommandError

from approvals.gate import rotation


class Command(BaseCommand):
    help = "Encrypts the content of mails, uploads, notes and chats that an earlier version stored in clear."

    def handle(self, *args: Any, **options: Any) -> None:
        lost = rotation.encrypt_content()
        if lost:
            raise CommandError(
                f"No configured key opens: {', '.join(lost)}. Or it is in clear and still waits: then nobody can"
                " approve it, so reject it and run this again. All others are done."
            )
        self.stdout.write("All content is encrypted with the first key.")
