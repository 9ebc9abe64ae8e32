"""Which provider serves a mailbox."""

from typing import cast

from django.conf import settings
from django.utils.module_loading import import_string

from accounts.models import Mailbox
from tools.providers.base import MailProvider


def provider_for(mailbox: Mailbox) -> MailProvider:
    """The provider that settings.MAILHUB_PROVIDERS names for it; what it keeps open is shared in
    this process.
    """
    return cast(
        MailProvider,
        import_string(settings.MAILHUB_PROVIDERS[mailbox.provider]).for_mailbox(mailbox),
    )
