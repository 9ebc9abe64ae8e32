from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import transaction
from django.urls import reverse

from accounts.audit_hook import record_event
from accounts.management.lookup import find_user
from accounts.models import SignInLink


class Command(BaseCommand):
    help = "Prints a one-time link that signs a person in."
    requires_system_checks = []  # a person waits, and the servers have run them

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--user", required=True, help="address or id")
        parser.add_argument("--minutes", type=int, default=60, help="how long it can be used")

    def handle(self, *args: Any, user: str, minutes: int, **options: Any) -> None:
        person = find_user(user)
        with transaction.atomic():
            secret = SignInLink.issue(user=person, lifetime=timedelta(minutes=minutes))
            record_event("sign_in_link_made", person=None, subject=person, minutes=minutes)
        self.stdout.write(settings.MAILHUB_PUBLIC_URL + reverse("sign_in_by_link", args=[secret]))
