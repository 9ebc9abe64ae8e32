"""People and mailboxes that a command line names."""

from django.core.management.base import CommandError

from accounts.models import Mailbox, User


def find_user(email: str) -> User:
    user = User.objects.filter(email=email.strip().lower()).first()
    if user is None:
        raise CommandError("No user with this address. Run `manage.py create_user`.")
    return user


def find_mailbox(address: str) -> Mailbox:
    mailbox = Mailbox.objects.filter(address__iexact=address.strip()).first()
    if mailbox is None:
        raise CommandError("There is no mailbox with this address; connect_mailbox connects it.")
    return mailbox
