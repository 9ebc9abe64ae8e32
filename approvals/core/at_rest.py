"""Encryption at rest for the content of revisions.

The whole payload is encrypted. The preview keeps the fields that lists and search need readable
(READABLE: the subject, the addresses, the warnings). Its other fields, such as the beginning of the
text, are encrypted in a second column. Both are bound to the action and the number of the revision.
The encrypted part holds the digest of the readable one, so a warning that somebody without a key
removes from the database makes the revision unreadable.
"""

import json
from collections.abc import Mapping
from typing import Any, Literal
from uuid import UUID

from django.core.serializers.json import DjangoJSONEncoder

from accounts.infra.credentials import CannotDecrypt
from accounts.infra.foreign_text import load_json
from accounts.infra.keys import decrypt_content, encrypt_content
from approvals.core.signatures import digest_of

Part = Literal["payload", "preview"]
READABLE = ("title", "targets", "fingerprint", "warnings")
DIGEST = "digest of the readable part"  # previews of older versions do not have it


def encrypt_revision(revision: Any) -> None:
    """Move content from `payload` and `preview` to their encrypted columns, unless it is empty."""
    for part in ("payload", "preview"):
        plain = getattr(revision, part)
        if plain:
            hidden, readable = _split(part, plain)
            record = _encrypt(part, hidden, revision.action_id, revision.number)
            setattr(revision, f"sealed_{part}", record)
            setattr(revision, part, readable)


def open_part(
    part: str, readable: Any, record: Any, action_id: UUID, number: int
) -> dict[str, Any]:
    """Return the decrypted payload or preview; raises CannotDecrypt."""
    hidden = load_json(
        decrypt_content(bytes(record), bound_to=_context_of(part, action_id, number))
    )
    if part == "payload":
        return hidden  # type: ignore[no-any-return]
    if hidden.pop(DIGEST, None) not in (None, digest_of(readable)):
        raise CannotDecrypt("somebody has changed the readable part")
    # The order of the arguments matters: an encrypted member never replaces a readable one.
    return {**hidden, **readable}


def reencrypt(part: str, record: Any, action_id: UUID, number: int) -> bytes:
    """Return the same content, encrypted with the first key; raises CannotDecrypt."""
    name = _context_of(part, action_id, number)
    return encrypt_content(decrypt_content(bytes(record), bound_to=name), bound_to=name)


def _split(part: str, plain: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    if part == "payload":
        return dict(plain), {}
    readable = {name: value for name, value in plain.items() if name in READABLE}
    hidden = {name: value for name, value in plain.items() if name not in readable}
    return {**hidden, DIGEST: digest_of(readable)}, readable


def _encrypt(part: str, hidden: Mapping[str, Any], action_id: UUID, number: int) -> bytes:
    text = json.dumps(hidden, cls=DjangoJSONEncoder)
    return encrypt_content(text.encode(), bound_to=_context_of(part, action_id, number))


def _context_of(part: str, action_id: UUID, number: int) -> str:
    return f"approvals_revision:{part}:{action_id}:{number}"
