"""Telling the audit what happens to tokens and mailboxes. It is found by its path: it lives above this package."""

from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string

from accounts.models import Mailbox, User


def told(event: str, *, person: User | None, mailbox: Mailbox | None = None, **data: Any) -> None:
    """Append one event to the audit, in the caller's transaction; `data` holds ids, codes and counts alone."""
    actor = f"user:{person.pk}" if person else "command"
    import_string(settings.MAILHUB_WITNESS)(mailbox=mailbox, event=event, actor=actor, **data)
