"""Signed and encrypted parts: what they are, and the text inside a signature. Pure.

mailhub verifies no signature and has no keys, so it says so.
"""

import re

from tools.mail.parsers import Unparsable, run

SIGNED = "Signed, not verified."
ENCRYPTED_SMIME = "Encrypted (S/MIME): mailhub cannot read it."
ENCRYPTED_PGP = "Encrypted (PGP): mailhub cannot read it."
ENCRYPTED_RIGHTS = "Encrypted (Microsoft rights management): mailhub cannot read it."
RIGHTS = "application/x-microsoft-rpmsg-message"
COMPRESSED = "Compressed (S/MIME): mailhub cannot read it."
PKCS7 = ("application/pkcs7-mime", "application/x-pkcs7-mime")
SIGNATURES = (
    "application/pkcs7-signature",
    "application/x-pkcs7-signature",
    "application/pgp-signature",
)
CONTROL = "application/pgp-encrypted"  # says only "Version: 1"
# The object identifiers at the beginning of a CMS structure, in DER: RFC 5652, 5083 and 3274.
_CMS = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07"
_SMIME = b"\x06\x0b\x2a\x86\x48\x86\xf7\x0d\x01\x09\x10\x01"
OIDS = {
    _CMS + b"\x02": "signed-data",
    _CMS + b"\x03": "enveloped-data",
    _SMIME + b"\x17": "authenveloped-data",
    _SMIME + b"\x09": "compressed-data",
}
HEAD_BYTES = 32
MOST_BYTES = 8 * 1024**2
CLEAR_SIGNED = re.compile(
    r"(?m)^-----BEGIN PGP SIGNED MESSAGE-----[ \t]*\n(?:[A-Za-z-]+:[^\n]*\n)*[ \t]*(?:\n|\Z)"
)
SIGNATURE = re.compile(
    r"(?m)^-----BEGIN PGP SIGNATURE-----[ \t]*$(?:(?!^-----END)[\s\S])*+(?:^-----END PGP SIGNATURE-----[ \t]*\n?)?"
)
DASH_ESCAPED = re.compile(r"(?m)^- ")
ARMOUR = re.compile(r"(?m)^-----BEGIN PGP MESSAGE-----[ \t]*$")


def sort_of(content: bytes, claimed: str) -> str:
    """Return the sort of a CMS structure, by its first bytes, else as the part claims."""
    head = content[:HEAD_BYTES]
    found = next((sort for oid, sort in OIDS.items() if oid in head), "")
    return found or claimed.lower()


def note_of(sort: str) -> str:
    """Return the sentence about a structure that is not a signature."""
    match sort:
        case "certs-only":
            return ""
        case "compressed-data":
            return COMPRESSED
    return ENCRYPTED_SMIME


def unwrap(content: bytes) -> bytes | None:
    """Return the message inside an opaque signature, or None if it cannot be read."""
    if len(content) > MOST_BYTES:
        return None
    try:
        return run(signed_content, content) or None
    except Unparsable as error:
        error.raise_if_busy()
        return None


def signed_content(content: bytes) -> bytes:
    """Return the content of a SignedData structure, or nothing: a job for a limited process."""
    # Imported here: it costs tens of milliseconds, and few mails need it.
    from pyasn1.codec.ber.decoder import decode
    from pyasn1_modules import rfc5652

    outer, _ = decode(content, asn1Spec=rfc5652.ContentInfo())
    if outer["contentType"] != rfc5652.id_signedData:
        return b""
    signed, _ = decode(bytes(outer["content"]), asn1Spec=rfc5652.SignedData())
    inner = signed["encapContentInfo"]["eContent"]
    return bytes(inner) if inner.hasValue() else b""


def open_inline(text: str) -> tuple[str, str]:
    """Return a text without the armour of an inline PGP signature, and the note about it."""
    start = CLEAR_SIGNED.search(text)
    if start:
        end = SIGNATURE.search(text, start.end())
        inside = text[start.end() : end.start() if end else len(text)]
        rest = text[end.end() :] if end else ""
        return text[: start.start()] + DASH_ESCAPED.sub("", inside) + rest, SIGNED
    return text, ENCRYPTED_PGP if ARMOUR.search(text) else ""
