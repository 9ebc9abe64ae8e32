from argparse import ArgumentParser
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.urls import reverse

from accounts.audit_hook import record_event
from accounts.infra.foreign_text import load_json
from accounts.management.lookup import find_user
from accounts.models import SignInLink


class Command(BaseCommand):
    help = "Prints a one-time link that signs a person in."
    requires_system_checks = []  # a person waits, and the servers have run them

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--user", help="address or id; in the sandbox its person")
        parser.add_argument("--minutes", type=int, default=60, help="how long it can be used")

    def handle(self, *args: Any, user: str | None, minutes: int, **options: Any) -> None:
        person = find_user(user or _person_of_sandbox())
        with transaction.atomic():
            secret = SignInLink.issue(user=person, lifetime=timedelta(minutes=minutes))
            record_event("sign_in_link_made", person=None, subject=person, minutes=minutes)
        self.stdout.write(settings.MAILHUB_PUBLIC_URL + reverse("sign_in_by_link", args=[secret]))


def _person_of_sandbox() -> str:
    try:
        return str(load_json((Path(settings.MAILHUB_HOME) / "sandbox.json").read_text())["user"])
    except (OSError, ValueError, KeyError):
        raise CommandError("Name the person: --user ADDRESS") from None
