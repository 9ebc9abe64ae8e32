from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import IntegrityError, transaction

from accounts.audit_hook import record_event
from accounts.management.lookup import find_mailbox, find_user
from accounts.models import CHAT_NAME, SCOPES, ApiToken, Membership, allowed_scopes

MOST_DAYS = 36_500
NAME_LENGTH = 100


def lifetime(text: str) -> timedelta:
    days = int(text)
    if not 1 <= days <= MOST_DAYS:
        raise ValueError
    return timedelta(days=days)


class Command(BaseCommand):
    help = "Makes an API token and prints it once."
    requires_system_checks = []  # a person waits, and the servers have run them

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--user", required=True, help="address or id of the owner")
        parser.add_argument("--name", required=True)
        parser.add_argument("--scopes", required=True, help=f"comma-separated: {', '.join(SCOPES)}")
        parser.add_argument("--mailboxes", required=True, help="comma-separated addresses or ids")
        parser.add_argument(
            "--days", type=lifetime, help="how long it is valid; for ever when left out"
        )

    def handle(
        self,
        *args: Any,
        user: str,
        name: str,
        scopes: str,
        mailboxes: str,
        days: timedelta | None,
        **options: Any,
    ) -> None:
        owner = find_user(user)
        wanted = [scope.strip() for scope in scopes.split(",") if scope.strip()]
        unknown = [scope for scope in wanted if scope not in SCOPES]
        if unknown or not wanted:
            raise CommandError(
                f"Unknown scope: {', '.join(unknown) or 'none given'}. There are: {', '.join(SCOPES)}."
            )
        if refused := set(wanted) - allowed_scopes(owner, wanted):
            raise CommandError(
                f"Only a token of staff can have {', '.join(refused)}. Leave it out, or make its owner staff."
            )
        if name == CHAT_NAME:
            raise CommandError("This is the name of the chat. Choose another name.")
        if not (name.strip() and name.isprintable() and len(name) <= NAME_LENGTH):
            raise CommandError(f"A token needs a name of 1 to {NAME_LENGTH} printable characters.")
        bound = [find_mailbox(address) for address in mailboxes.split(",") if address.strip()]
        if (
            Membership.objects.filter(user=owner, mailbox__in=bound).count() != len(bound)
            or not bound
        ):
            raise CommandError(
                "A token needs at least one mailbox, and all must belong to its owner."
            )
        try:
            with transaction.atomic():
                token, secret = ApiToken.issue(
                    user=owner,
                    name=name,
                    scopes=wanted,
                    mailboxes=bound,
                    lifetime=days,
                )
                record_event(
                    "token_created",
                    person=None,
                    subject=owner,
                    mailboxes=bound,
                    token=str(token.pk),
                    scopes=token.scopes,
                )
        except IntegrityError:
            raise CommandError(
                "A token of this person has or had that name. Choose another name."
            ) from None
        self.stdout.write(secret)
