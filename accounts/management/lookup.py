"""People and mailboxes that a command line names: by address, or by the id that a command printed."""

from django.core.management.base import CommandError

from accounts.infra.foreign_text import parse_number, parse_uuid
from accounts.models import Mailbox, User


def find_user(name: str) -> User:
    """Return the person with this address or id; raise CommandError if it is unknown."""
    name = name.strip()
    user = User.objects.filter(email=name.lower()).first()
    if user is None and (key := parse_number(name)) is not None:
        user = User.objects.filter(pk=key).first()
    if user is None:
        raise CommandError("No user with this address or id. Run `manage.py create_user`.")
    return user


def find_mailbox(name: str) -> Mailbox:
    """Return the mailbox with this address or id; raise CommandError if it is unknown."""
    name = name.strip()
    mailbox = Mailbox.objects.filter(address__iexact=name).first()
    if mailbox is None and (key := parse_uuid(name)):
        mailbox = Mailbox.objects.filter(pk=key).first()
    if mailbox is None:
        raise CommandError(
            "There is no mailbox with this address or id; connect_mailbox connects it."
        )
    return mailbox
