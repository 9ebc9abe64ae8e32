from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.urls import reverse

from accounts.infra.problems import Problem
from accounts.management.lookup import find_mailbox
from approvals.pages.mailboxes.members import new_link


class Command(BaseCommand):
    help = (
        "Prints the link of an open invitation, for an operator who hands it to the invited person."
    )
    requires_system_checks = []  # a person waits; the servers have run them

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--mailbox", required=True, help="address or id of the mailbox")
        parser.add_argument("--email", required=True, help="address that was invited")

    def handle(self, *args: Any, mailbox: str, email: str, **options: Any) -> None:
        try:
            secret = new_link(mailbox=find_mailbox(mailbox), email=email)
        except Problem:
            raise CommandError(
                "No open invitation for this address. A manager of the mailbox invites it."
            ) from None
        self.stdout.write(settings.MAILHUB_PUBLIC_URL + reverse("invitation", args=[secret]))
