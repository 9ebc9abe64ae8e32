"""Opaque message ids: folder, UIDVALIDITY and UID, bound to their mailbox.

The keyed hash makes an id invalid in every other mailbox, so it can never name a different message
there.
"""

import base64
import binascii
import hashlib
from dataclasses import dataclass
from uuid import UUID

DIGEST_BYTES = 5
MAX_UID = 2**32 - 1


@dataclass(frozen=True, kw_only=True)
class Place:
    folder: str
    uid_validity: int
    uid: int


def encode(place: Place, mailbox_id: UUID) -> str:
    plain = b"%d\0%d\0%s" % (place.uid_validity, place.uid, place.folder.encode())
    return base64.urlsafe_b64encode(_digest(plain, mailbox_id) + plain).decode().rstrip("=")


def decode(message_id: str, mailbox_id: UUID) -> Place | None:
    """Return the place that an id names; None if the id is malformed or of another mailbox.

    Another spelling of an id is malformed too: a draft is found again by its id. So the id is
    written again and compared, which covers the hash.
    """
    try:
        raw = base64.b64decode(
            message_id + "=" * (-len(message_id) % 4), altchars=b"-_", validate=True
        )
        uid_validity, uid, folder = raw[DIGEST_BYTES:].split(b"\0", 2)
        place = Place(folder=folder.decode(), uid_validity=int(uid_validity), uid=int(uid))
    except (ValueError, binascii.Error):
        return None
    return place if message_id == encode(place, mailbox_id) and 0 < place.uid <= MAX_UID else None


def _digest(plain: bytes, mailbox_id: UUID) -> bytes:
    return hashlib.blake2b(plain, digest_size=DIGEST_BYTES, key=mailbox_id.bytes).digest()
