"""The key that identifies mailhub at push services (VAPID, RFC 8292).

It is derived from MAILHUB_ENCRYPTION_KEYS, so there is no further secret to keep. A subscription
belongs to the key it was made with: after a rotation the older key signs for it, as long as that
key is configured.
"""

import base64
from functools import lru_cache

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, derive_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from accounts.infra.credentials import configured_keys

PURPOSE = b"mailhub web push vapid"
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # of P-256


def public_key() -> str:
    """Return the key that a browser subscribes with, in base64url."""
    return _pair(configured_keys()[0])[0]


def private_key_of(public: str) -> str | None:
    """Return the private key that belongs to a public one; None if its key is not configured."""
    for key in configured_keys():
        ours, private = _pair(key)
        if ours == public:
            return private
    return None


@lru_cache(maxsize=8)
def _pair(key: bytes) -> tuple[str, str]:
    """Return the public and the private key of one configured key, in base64url.

    64 bits more than the order needs make every scalar equally likely (FIPS 186-5, A.2.1).
    """
    derived = HKDF(algorithm=SHA256(), length=40, salt=None, info=PURPOSE).derive(key)
    scalar = int.from_bytes(derived) % (_ORDER - 1) + 1
    point = derive_private_key(scalar, SECP256R1()).public_key()
    return (
        base64url(point.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)),
        base64url(scalar.to_bytes(32)),
    )


def base64url(raw: bytes) -> str:
    """Return base64url without padding, as push services and browsers write it."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
