from typing import Any

from allauth.mfa.models import Authenticator
from allauth.mfa.utils import decrypt, encrypt
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from accounts.infra import credentials
from accounts.infra.credentials import CannotDecrypt
from accounts.models import Mailbox
from approvals.audit import key_check
from approvals.gate import rotation
from approvals.models import Webhook
from approvals.outbound.webhooks.subscriptions import encryption_context


class Command(BaseCommand):
    help = (
        "Moves to the first key: access data of mailboxes, keys of one-time codes, secrets of webhooks, content "
        "of mails, and the seals of decisions."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--lost",
            action="store_true",
            dest="accept_loss",
            help="accept that what only lost keys open can no longer be read, so that mailhub starts again",
        )

    def handle(self, *args: Any, accept_loss: bool, **options: Any) -> None:
        lost = [
            str(pk)
            for pk in Mailbox.objects.values_list("pk", flat=True)
            if not self._rotate_mailbox(pk)
        ]
        lost += [f"one-time codes {pk}" for pk in self._factors() if not self._rotate_factor(pk)]
        lost += [
            f"webhook {webhook}"
            for webhook in Webhook.objects.all()
            if not self._rotate_webhook(webhook)
        ]
        lost += [*rotation.renew_signatures(), *rotation.encrypt_content()]
        if accept_loss:
            key_check.renew(key_check.ENCRYPTION, key_check.SECRET)
        if lost:
            raise CommandError(
                f"No configured key opens: {', '.join(lost)}. Or it is in clear and still waits: then nobody can"
                " approve it, so reject it and run this again. All others are done."
            )
        key_check.renew(key_check.ENCRYPTION)
        self.stdout.write("Everything is on the first key.")

    def _factors(self) -> list[int]:
        sealed = [Authenticator.Type.TOTP, Authenticator.Type.RECOVERY_CODES]
        return list(Authenticator.objects.filter(type__in=sealed).values_list("pk", flat=True))

    @transaction.atomic
    def _rotate_factor(self, factor_id: int) -> bool:
        """Encrypt the keys under `secret` or `seed` with the first key; False if no key opens them.

        The library keeps them beside public data.
        """
        factor = Authenticator.objects.select_for_update(no_key=True).filter(pk=factor_id).first()
        if factor is None:
            return True
        try:
            secrets = {
                name: encrypt(decrypt(factor.data[name]))
                for name in ("secret", "seed")
                if name in factor.data
            }
        except CannotDecrypt:
            return False
        factor.data.update(secrets)
        factor.save(update_fields=["data"])  # the save binds them to the row
        return True

    @transaction.atomic
    def _rotate_mailbox(self, mailbox_id: Any) -> bool:
        """Encrypt the access data of one mailbox with the first key; False if no key opens it.

        The row is locked: a refresh that stores new tokens waits, and overwrites nothing.
        """
        mailbox = Mailbox.objects.select_for_update(no_key=True).filter(pk=mailbox_id).first()
        if mailbox is None:
            return True
        try:
            secrets = credentials.decrypt(bytes(mailbox.credentials), mailbox_id=mailbox.pk)
        except CannotDecrypt:
            return False
        record = credentials.encrypt(secrets, mailbox_id=mailbox.pk)
        Mailbox.objects.filter(pk=mailbox.pk).update(credentials=record)
        return True

    def _rotate_webhook(self, webhook: Webhook) -> bool:
        """Encrypt the secret of a webhook with the first key; False if no key opens it.

        Nothing else changes it, so no lock is needed.
        """
        name = encryption_context(webhook)
        try:
            secret = credentials.encrypt_text(
                credentials.decrypt_text(webhook.secret, bound_to=name), bound_to=name
            )
        except CannotDecrypt:
            return False
        Webhook.objects.filter(pk=webhook.pk).update(secret=secret)
        return True
