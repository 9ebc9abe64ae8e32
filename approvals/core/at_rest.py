"""What a revision says, encrypted at rest.

The payload is encrypted whole. Of the preview, what lists and search need stays readable (READABLE:
the subject, the addresses, the warnings); the rest, such as the beginning of the text, is encrypted
beside it. Both are bound to the action and the number of the revision.
"""

import json
from collections.abc import Mapping
from typing import Any, Literal
from uuid import UUID

from django.core.serializers.json import DjangoJSONEncoder

from accounts.infra.keys import decrypt_content, encrypt_content

Part = Literal["payload", "preview"]
READABLE = ("title", "targets", "fingerprint", "warnings")


def seal_revision(revision: Any) -> None:
    """Move what is to be encrypted from `payload` and `preview` to their sealed columns; what is
    empty stays so.
    """
    for part in ("payload", "preview"):
        plain = getattr(revision, part)
        if plain:
            hidden, readable = _split(part, plain)
            record = _encrypted(part, hidden, revision.action_id, revision.number)
            setattr(revision, f"sealed_{part}", record)
            setattr(revision, part, readable)


def open_part(
    part: str, readable: Any, record: Any, action_id: UUID, number: int
) -> dict[str, Any]:
    """Return the payload or preview that was sealed; raises CannotDecrypt."""
    hidden = json.loads(decrypt_content(bytes(record), bound_to=_bound_to(part, action_id, number)))
    # The order is that in which the preview was made; what is hidden does not take the place of
    # what is readable.
    return {**hidden, **readable} if part == "preview" else hidden


def reencrypted(part: str, record: Any, action_id: UUID, number: int) -> bytes:
    """Return the same content, encrypted with the first key; raises CannotDecrypt."""
    name = _bound_to(part, action_id, number)
    return encrypt_content(decrypt_content(bytes(record), bound_to=name), bound_to=name)


def _split(part: str, plain: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    readable = {
        name: value for name, value in plain.items() if part == "preview" and name in READABLE
    }
    return {name: value for name, value in plain.items() if name not in readable}, readable


def _encrypted(part: str, hidden: Mapping[str, Any], action_id: UUID, number: int) -> bytes:
    text = json.dumps(hidden, cls=DjangoJSONEncoder)
    return encrypt_content(text.encode(), bound_to=_bound_to(part, action_id, number))


def _bound_to(part: str, action_id: UUID, number: int) -> str:
    return f"approvals_revision:{part}:{action_id}:{number}"
