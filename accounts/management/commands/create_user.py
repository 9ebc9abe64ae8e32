from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction

from accounts.audit_hook import record_event
from accounts.models import User
from accounts.people.address_proof import prove_account


class Command(BaseCommand):
    help = "Creates a person without a password; sign_in_link lets them in."
    requires_system_checks = []  # a person waits, and the servers have run them

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--email", required=True)
        parser.add_argument("--name", default="")
        parser.add_argument("--staff", action="store_true", help="may use the admin site")

    def handle(self, *args: Any, email: str, name: str, staff: bool, **options: Any) -> None:
        first, _, last = name.partition(" ")
        try:
            validate_email(email)
            with transaction.atomic():
                user = User.objects.create_user(
                    email, first_name=first, last_name=last, is_staff=staff, is_superuser=staff
                )
                record_event(
                    "person_added", person=None, subject=user, is_staff=staff, is_superuser=staff
                )
                prove_account(user, how="command")
        except ValidationError:
            raise CommandError("This is not an e-mail address.") from None
        except IntegrityError:
            raise CommandError("There is a person with this address already.") from None
        self.stdout.write(str(user.pk))
