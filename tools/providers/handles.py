"""Short names for a provider's long ids: Graph's message ids have 150 characters, and a list holds
ten.

A handle is made from mailbox and id, so the same message always has the same one; the row leads
back. It does not work in another mailbox, and a malformed handle looks like an unknown one. Handles
unused for the retention time of content are deleted, unless a draft or an open action names them.
"""

import base64
import hashlib
from collections.abc import Iterable
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db.models import Exists, OuterRef
from django.utils import timezone

from approvals.gate.find import values_in_open_actions
from tools.models import Draft, MessageHandle

HANDLE_BYTES = 12  # 16 characters
NOTED_AFTER = timedelta(days=1)  # a use is written once a day at most, so reading rarely writes
BATCH = 10_000


def shorten(mailbox_id: UUID, names: Iterable[str]) -> dict[str, str]:
    """Return the handle of each name, and store it so that `find_name` finds it again."""
    handles = {name: _handle(mailbox_id, name) for name in names}
    known = MessageHandle.objects.filter(mailbox=mailbox_id, handle__in=handles.values())
    there = dict(known.values_list("handle", "used_at"))
    if any(_is_long_ago(used_at) for used_at in there.values()):
        known.update(used_at=timezone.now())
    new = [
        MessageHandle(mailbox_id=mailbox_id, handle=handle, named=name)
        for name, handle in handles.items()
        if handle not in there
    ]
    if new:
        MessageHandle.objects.bulk_create(new, ignore_conflicts=True)
    return handles


def find_name(mailbox_id: UUID, handle: str) -> str | None:
    """Return the name behind the handle in this mailbox, or None."""
    if not handle.isascii() or not handle.isprintable():
        return None
    known = MessageHandle.objects.filter(mailbox=mailbox_id, handle=handle)
    name, used_at = known.values_list("named", "used_at").first() or (None, None)
    if used_at is not None and _is_long_ago(used_at):
        known.update(used_at=timezone.now())
    return name


def purge() -> None:
    """Delete handles that were unused for the retention time of content, unless they are needed."""
    before = timezone.now() - timedelta(days=settings.MAILHUB_RETENTION_DAYS)
    drafts = Draft.objects.filter(mailbox=OuterRef("mailbox"), provider_id=OuterRef("handle"))
    old = MessageHandle.objects.filter(~Exists(drafts), used_at__lt=before)
    if old.exists():  # the query of open actions runs only if something is old
        old = old.exclude(handle__in=values_in_open_actions("original", "draft__id"))
        ids = list(old.values_list("pk", flat=True)[:BATCH])
        MessageHandle.objects.filter(pk__in=ids, used_at__lt=before).delete()


def _is_long_ago(used_at: datetime) -> bool:
    return used_at < timezone.now() - NOTED_AFTER


def _handle(mailbox_id: UUID, name: str) -> str:
    digest = hashlib.blake2b(name.encode(), digest_size=HANDLE_BYTES, key=mailbox_id.bytes).digest()
    return base64.urlsafe_b64encode(digest).decode()
