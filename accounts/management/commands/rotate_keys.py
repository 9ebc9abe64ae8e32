from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from accounts import credentials
from accounts.credentials import CannotDecrypt
from accounts.models import Mailbox


class Command(BaseCommand):
    help = "Encrypts the access data of every mailbox anew, with the first key; mailboxes go on being used meanwhile."

    def handle(self, *args: Any, **options: Any) -> None:
        lost = [str(pk) for pk in Mailbox.objects.values_list("pk", flat=True) if not self._rotated(pk)]
        if lost:
            raise CommandError(f"No configured key opens: {', '.join(lost)}. All others are done.")
        self.stdout.write("Every mailbox is on the first key.")

    @transaction.atomic
    def _rotated(self, mailbox_id: Any) -> bool:
        """One row at a time, locked: a refresh that stores new tokens waits, and overwrites nothing."""
        mailbox = Mailbox.objects.select_for_update().filter(pk=mailbox_id).first()
        if mailbox is None:
            return True
        try:
            secrets = credentials.decrypt(bytes(mailbox.credentials), mailbox_id=mailbox.pk)
        except CannotDecrypt:
            return False
        record = credentials.encrypt(secrets, mailbox_id=mailbox.pk)
        Mailbox.objects.filter(pk=mailbox.pk).update(credentials=record)
        return True
