"""The credentials of a mailbox, encrypted and bound to its row.

A record is `key id (4) ‖ nonce (12) ‖ AES-256-GCM ciphertext`. The associated data names table,
column and row, so that a ciphertext moved to another row does not decrypt.
"""

import base64
import hashlib
import json
import os
from typing import Any
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings

from accounts.infra.foreign_text import load_json

KEY_ID_BYTES = 4
NONCE_BYTES = 12


class CannotDecrypt(Exception):
    """Record of a key that is not configured, or of another row."""


class Secrets(dict[str, Any]):
    """A mailbox's access data; its repr shows no value, so no log or error page can."""

    def __repr__(self) -> str:
        return f"Secrets({', '.join(sorted(self))})"

    __str__ = __repr__


def encrypt(secrets: dict[str, Any], *, mailbox_id: UUID) -> bytes:
    return _seal(json.dumps(secrets), _context_of(mailbox_id))


def decrypt(record: bytes, *, mailbox_id: UUID) -> Secrets:
    """Decrypt a record of `encrypt`; raise CannotDecrypt."""
    return Secrets(load_json(_open(record, _context_of(mailbox_id))))


def encrypt_text(text: str, *, bound_to: str) -> str:
    """Encrypt a short secret of a library's table; `bound_to` names the table."""
    return base64.b64encode(_seal(text, bound_to)).decode()


def decrypt_text(record: str, *, bound_to: str) -> str:
    """Decrypt a record of `encrypt_text`; raise CannotDecrypt."""
    return _open(base64.b64decode(record), bound_to).decode()


def _seal(text: str, context: str) -> bytes:
    key, nonce = configured_keys()[0], os.urandom(NONCE_BYTES)
    return key_id(key) + nonce + AESGCM(key).encrypt(nonce, text.encode(), context.encode())


def _open(record: bytes, context: str) -> bytes:
    made_by, rest = record[:KEY_ID_BYTES], record[KEY_ID_BYTES:]
    for key in configured_keys():
        if key_id(key) == made_by:
            try:
                return AESGCM(key).decrypt(rest[:NONCE_BYTES], rest[NONCE_BYTES:], context.encode())
            except InvalidTag:
                raise CannotDecrypt("the record belongs elsewhere") from None
    raise CannotDecrypt("the key that made the record is not configured")


def configured_keys() -> list[bytes]:
    """Return the keys of MAILHUB_ENCRYPTION_KEYS; the first one encrypts."""
    return [base64.b64decode(key) for key in settings.MAILHUB_ENCRYPTION_KEYS]


def key_id(key: bytes) -> bytes:
    """Return the short public name of a key, which is part of each record that it made."""
    return hashlib.sha256(b"mailhub key id" + key).digest()[:KEY_ID_BYTES]


def _context_of(mailbox_id: UUID) -> str:
    return f"accounts_mailbox:credentials:{mailbox_id}"
