"""Choice of the provider that serves a mailbox."""

from typing import cast

from django.conf import settings
from django.utils.module_loading import import_string

from accounts.models import Mailbox
from tools.providers.base import MailProvider


def provider_for(mailbox: Mailbox) -> MailProvider:
    """Return the provider that settings.MAILHUB_PROVIDERS names for the mailbox. Its open
    connections are shared in this process.
    """
    return cast(
        MailProvider,
        import_string(settings.MAILHUB_PROVIDERS[mailbox.provider]).for_mailbox(mailbox),
    )
