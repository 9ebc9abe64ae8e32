"""The bytes that Gmail gets for an approved mail, and the values in which two mails are compared.
Pure.
"""

from collections import Counter
from email import message_from_bytes, policy
from email.message import EmailMessage
from email.message import Message as Block
from hashlib import sha256
from typing import Any

from tools.mail.message import lenient
from tools.mail.message.compose import REPLY_PREFIX
from tools.providers.base import Envelope

# Gmail may give a mail from its API another Message-ID and keep no copy of ours; it leaves headers
# that it does not know. https://github.com/FlowCrypt/flowcrypt-browser/issues/4273,
# https://github.com/gauteh/lieer/issues/198
MARK = "X-Mailhub-Mark"
COMPARED = ("Subject", "In-Reply-To", "References", "Reply-To", MARK)


def topic_of(block: Block) -> str:
    """Return the subject without reply prefixes."""
    return REPLY_PREFIX.sub("", " ".join(lenient.decode_text(block["Subject"]).split()))


def mark_of(message_id: str) -> str:
    """Return the mark that identifies the mail. The mark travels with the mail, so it is a hash."""
    return sha256(message_id.encode()).hexdigest()[:32]


def write_source(envelope: Envelope, marker: str) -> bytes:
    """Return the approved bytes with our mark and the blind copies in front.

    Gmail sends to the addresses in the headers, and removes Bcc.
    """
    parsed = message_from_bytes(envelope.source, policy=policy.default)
    shown = {address.lower() for header in ("To", "Cc") for address in _addresses(parsed, header)}
    hidden = [address for address in envelope.recipients if address.lower() not in shown]
    head = f"{MARK}: {mark_of(marker)}\r\n"
    if hidden:
        head += "Bcc: " + ",\r\n ".join(hidden) + "\r\n"
    return head.encode("ascii") + envelope.source


def content_of(source: bytes) -> tuple[Any, ...]:
    """Return the values that must be the same in the draft: all recipients, the headers, and every
    part.

    Gmail may fold headers again, add its own in front, and change the Message-ID. It may not change
    these values.
    """
    parsed = message_from_bytes(source, policy=policy.default)
    everybody = Counter(
        address.lower() for header in ("To", "Cc", "Bcc") for address in _addresses(parsed, header)
    )
    parts = [
        (
            part.get_content_type(),
            part.get_filename() or "",
            part.get_content_disposition() or "",
            _digest(part),
        )
        for part in parsed.walk()
        if not part.is_multipart()
    ]
    headers = [" ".join(str(parsed[name] or "").split()) for name in COMPARED]
    return (
        everybody,
        _addresses(parsed, "From"),
        _addresses(parsed, "To"),
        _addresses(parsed, "Cc"),
        headers,
        parts,
    )


def values_by_name(source: bytes) -> dict[str, Any]:
    """Return the parts of a message that a recipient sees, under the names that people read."""
    parsed = message_from_bytes(source, policy=policy.default)
    everybody, sender, *_, parts = content_of(source)
    return {
        "from": sender,
        "recipients": everybody,
        "subject": " ".join(str(parsed["Subject"] or "").split()),
        "content": parts,
    }


def _addresses(parsed: EmailMessage, header: str) -> tuple[str, ...]:
    return tuple(
        address.addr_spec for each in parsed.get_all(header, ()) for address in each.addresses
    )


def _digest(part: EmailMessage) -> str:
    content = part.get_payload(decode=True)
    assert isinstance(content, bytes)
    if part.get_content_maintype() == "text":
        # The transport may change line ends of a text.
        content = content.replace(b"\r\n", b"\n").rstrip(b"\n")
    return sha256(content).hexdigest()
