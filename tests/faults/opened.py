"""Encrypted columns of the plant's database, decrypted with the plant's own key."""

import json
from base64 import b64decode
from typing import Any

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from accounts.infra.keys import HEAD_BYTES, _row_key

NONCE_BYTES = 12


def opened(record: Any, bound_to: str, key: str) -> bytes:
    """Return the decrypted record. Written out again, because a check must not use the checked
    code.
    """
    raw = bytes(record)
    cipher = AESGCM(_row_key(b64decode(key), bound_to))
    nonce, sealed = raw[HEAD_BYTES : HEAD_BYTES + NONCE_BYTES], raw[HEAD_BYTES + NONCE_BYTES :]
    return cipher.decrypt(nonce, sealed, bound_to.encode())


def payload_of(row: dict[str, Any], key: str) -> Any:
    """Return the payload of a revision, in clear or encrypted."""
    sealed = row.pop("sealed_payload")
    if sealed is None:
        return row["payload"]
    return json.loads(
        opened(sealed, f"approvals_revision:payload:{row['action']}:{row['number']}", key)
    )
