from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.urls import reverse

from accounts.management.lookup import find_user
from accounts.people.recovery import mail_recovery, recover


class Command(BaseCommand):
    help = "Removes all ways in of a person, signs their browsers out, tells them by mail, and prints a sign-in link."
    requires_system_checks = []  # a person waits, and the servers have run them

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--user", required=True, help="address or id")
        parser.add_argument(
            "--revoke-tokens", action="store_true", help="also revoke the tokens of their programs"
        )

    def handle(self, *args: Any, user: str, revoke_tokens: bool, **options: Any) -> None:
        """Print only the link to standard output."""
        person = find_user(user)
        secret = recover(person, revoke_tokens=revoke_tokens)
        if not mail_recovery(person):
            self.stderr.write(
                "No e-mail was sent. Tell the person yourself that their access was reset."
            )
        self.stdout.write(settings.MAILHUB_PUBLIC_URL + reverse("sign_in_by_link", args=[secret]))
