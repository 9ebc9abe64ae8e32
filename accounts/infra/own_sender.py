"""The address from which mailhub itself sends."""

from email.utils import parseaddr

from django.conf import settings


def own_sender() -> str:
    """Return the address that own mail comes from, in lower case."""
    return parseaddr(settings.DEFAULT_FROM_EMAIL)[1].lower()
