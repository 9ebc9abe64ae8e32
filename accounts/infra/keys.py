"""Keys for one purpose each, derived from MAILHUB_ENCRYPTION_KEYS: keyed digests and encryption of
content.

The first configured key makes digests and encrypts; every configured key can verify and decrypt.
A record of content is `magic (8) ‖ key id (4) ‖ nonce (12) ‖ AES-256-GCM ciphertext`. Each row has
its own key, derived from the name of its table, column and natural key. So a ciphertext that is
moved to another row does not decrypt.
"""

import hmac
import json
import os
from functools import lru_cache
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from accounts.infra.credentials import (
    KEY_ID_BYTES,
    NONCE_BYTES,
    CannotDecrypt,
    configured_keys,
    key_id,
)

MAGIC = b"\x8amhseal\x01"  # the first byte is not ASCII, so no mail begins like this
HEAD_BYTES = len(MAGIC) + KEY_ID_BYTES
CONTENT = "mailhub content at rest"


def sign_values(*parts: Any, purpose: str) -> str:
    """Return the keyed digest of JSON values: `key id:HMAC-SHA256` in hex, by the first key."""
    first = configured_keys()[0]
    return f"{key_id(first).hex()}:{_hash(first, parts, purpose)}"


def verify_values(signature: str, *parts: Any, purpose: str) -> bool:
    """Return True if a configured key made this digest of exactly these values."""
    made_by, _, digest = signature.partition(":")
    return any(
        key_id(key).hex() == made_by and hmac.compare_digest(_hash(key, parts, purpose), digest)
        for key in configured_keys()
    )


def first_key_id() -> bytes:
    """Return the id of the key that makes digests and encrypts now."""
    return key_id(configured_keys()[0])


def encrypt_content(plain: bytes, *, bound_to: str) -> bytes:
    """Encrypt with the first key; `bound_to` names table, column and row."""
    first, nonce = configured_keys()[0], os.urandom(NONCE_BYTES)
    sealed = AESGCM(_row_key(first, bound_to)).encrypt(nonce, plain, bound_to.encode())
    return MAGIC + key_id(first) + nonce + sealed


def decrypt_content(record: bytes, *, bound_to: str) -> bytes:
    """Decrypt a record of `encrypt_content`; raise CannotDecrypt."""
    if not is_encrypted(record):
        raise CannotDecrypt("the record is not encrypted")
    made_by, nonce = record[len(MAGIC) : HEAD_BYTES], record[HEAD_BYTES : HEAD_BYTES + NONCE_BYTES]
    for key in configured_keys():
        if key_id(key) == made_by:
            try:
                cipher = AESGCM(_row_key(key, bound_to))
                return cipher.decrypt(nonce, record[HEAD_BYTES + NONCE_BYTES :], bound_to.encode())
            except (InvalidTag, ValueError):  # ValueError: a record that was cut short
                raise CannotDecrypt("the record does not belong to this row") from None
    raise CannotDecrypt("the key that made the record is not configured")


def is_encrypted(record: bytes) -> bool:
    """Return True if these bytes are a record of `encrypt_content`, by any key."""
    return record[: len(MAGIC)] == MAGIC


def is_on_first_key(record: bytes) -> bool:
    """Return True if the first key has encrypted this record."""
    return record[:HEAD_BYTES] == MAGIC + first_key_id()


def _hash(key: bytes, parts: tuple[Any, ...], purpose: str) -> str:
    said = json.dumps(parts, separators=(",", ":"), ensure_ascii=True)
    return hmac.digest(_purpose_key(key, purpose), said.encode(), "sha256").hex()


def _row_key(key: bytes, bound_to: str) -> bytes:
    """Return the key of one row, because random nonces of one key are safe for 2**32 records."""
    return hmac.digest(_purpose_key(key, CONTENT), bound_to.encode(), "sha256")


@lru_cache(maxsize=64)
def _purpose_key(key: bytes, purpose: str) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose.encode()).derive(key)
