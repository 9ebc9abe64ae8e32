"""What the plant's database holds encrypted, opened with the plant's own key."""

import json
from base64 import b64decode
from typing import Any

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from accounts.infra.keys import HEAD_BYTES, _row_key

NONCE_BYTES = 12


def opened(record: Any, bound_to: str, key: str) -> bytes:
    """Written out once more: what checks must not lean on what is checked."""
    raw = bytes(record)
    cipher = AESGCM(_row_key(b64decode(key), bound_to))
    nonce, sealed = raw[HEAD_BYTES : HEAD_BYTES + NONCE_BYTES], raw[HEAD_BYTES + NONCE_BYTES :]
    return cipher.decrypt(nonce, sealed, bound_to.encode())


def payload_of(row: dict[str, Any], key: str) -> Any:
    """The payload of a revision, however it is stored."""
    sealed = row.pop("sealed_payload")
    if sealed is None:
        return row["payload"]
    return json.loads(
        opened(sealed, f"approvals_revision:payload:{row['action']}:{row['number']}", key)
    )
