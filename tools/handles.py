"""Short names for what a provider names at length: Graph's message ids have 150 characters, and a list holds ten.

A handle is made from mailbox and id, so the same message always has the same one; the row leads back. Of no use in
another mailbox, and nobody can tell a malformed one from an unknown one.
"""

import base64
import hashlib
from collections.abc import Iterable
from uuid import UUID

from tools.models import MessageHandle

HANDLE_BYTES = 12  # 16 characters


def shortened(mailbox_id: UUID, names: Iterable[str]) -> dict[str, str]:
    """The handle of each name, kept so that `named` finds it again."""
    handles = {name: _handle(mailbox_id, name) for name in names}
    known = MessageHandle.objects.filter(mailbox=mailbox_id, handle__in=handles.values())
    there = set(known.values_list("handle", flat=True))
    new = [
        MessageHandle(mailbox_id=mailbox_id, handle=handle, named=name)
        for name, handle in handles.items()
        if handle not in there
    ]
    if new:
        MessageHandle.objects.bulk_create(new, ignore_conflicts=True)
    return handles


def named(mailbox_id: UUID, handle: str) -> str | None:
    """What the handle stands for in this mailbox."""
    if not handle.isascii() or not handle.isprintable():
        return None
    return MessageHandle.objects.filter(mailbox=mailbox_id, handle=handle).values_list("named", flat=True).first()


def _handle(mailbox_id: UUID, name: str) -> str:
    digest = hashlib.blake2b(name.encode(), digest_size=HANDLE_BYTES, key=mailbox_id.bytes).digest()
    return base64.urlsafe_b64encode(digest).decode()
