"""The approved bytes in the form that Graph takes, and the comparison of Graph's draft with them.
Pure.
"""

import base64
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from typing import Any

from tools.mail.html.clean import text_of
from tools.mail.html.parser import Attributes, read_tags
from tools.mail.message.compose import (
    Attachment,
    addresses_in,
    names_in,
    parse,
    read_attachments,
)
from tools.mail.message.draft_source import importance_of
from tools.mail.text.addresses import header_text

# Our id of a message, independent of the id that Exchange gives: a named string property in our own
# set.
MARKER = "String {6e3f1f52-8f0b-4d9e-9a0c-7d1f2b9c4a11} Name MailhubMessageId"
# Larger files need an upload session: a request may have 4 MiB, which is 3 MiB in base64 with
# nothing else in it.
INLINE_LIMIT = 2_900_000
RECEIPTS = ("isReadReceiptRequested", "isDeliveryReceiptRequested")  # mailhub asks for none


@dataclass(frozen=True, kw_only=True)
class Outgoing:
    """A message in the terms of Graph.

    Graph holds one body: HTML if there is one; Exchange adds the plain text.
    """

    sender: str
    to: tuple[str, ...]
    cc: tuple[str, ...]
    bcc: tuple[str, ...]
    names: Mapping[str, str]  # of recipients, by address in lower case
    subject: str
    text: str
    html: str | None
    importance: str
    message_id: str
    in_reply_to: str
    files: tuple[Attachment, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the JSON of the message; empty lists of cc and bcc are left out."""
        lists = {"toRecipients": self.to, "ccRecipients": self.cc, "bccRecipients": self.bcc}
        return {
            "subject": self.subject,
            "body": {
                "contentType": "Text" if self.html is None else "HTML",
                "content": self.text if self.html is None else self.html,
            },
            **{
                name: as_recipients(addresses, self.names)
                for name, addresses in lists.items()
                if addresses
            },
            "importance": self.importance,
        }

    def attachments_json(self) -> dict[str, Any]:
        return {"attachments": [file_json(file) for file in self.files]} if self.files else {}

    def marker_json(self) -> dict[str, Any]:
        return {"singleValueExtendedProperties": [{"id": MARKER, "value": self.message_id}]}


def dump(body: Any) -> bytes:
    """Return the bytes of a request with this body."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def write_json(outgoing: Outgoing) -> bytes:
    """Return the body of `sendMail` for a mail of which no copy is kept."""
    message = {**outgoing.as_json(), **outgoing.attachments_json(), **outgoing.marker_json()}
    return dump({"message": message, "saveToSentItems": False})


def write_mime(source: bytes, outgoing: Outgoing) -> bytes:
    """Return the body of `sendMail` for the approved bytes, with the blind copies in front.

    Exchange takes the recipients from the headers, and sends no Bcc header.
    https://learn.microsoft.com/en-us/openspecs/exchange_server_protocols/ms-oxcmail
    """
    bcc = "Bcc: " + ",\r\n ".join(map(header_text, outgoing.bcc)) + "\r\n" if outgoing.bcc else ""
    return base64.b64encode(bcc.encode("ascii") + source)


def file_json(file: Attachment) -> dict[str, Any]:
    shown = {
        "@odata.type": "#microsoft.graph.fileAttachment",
        "name": file.name,
        "contentType": file.type,
        "contentBytes": base64.b64encode(file.content).decode(),
    }
    return shown | ({"isInline": True, "contentId": file.content_id} if file.content_id else {})


def as_recipients(addresses: Sequence[str], names: Mapping[str, str]) -> list[dict[str, Any]]:
    return [
        {
            "emailAddress": {
                "address": address,
                **({"name": names[address.lower()]} if address.lower() in names else {}),
            }
        }
        for address in addresses
    ]


def parse_outgoing(source: bytes, *, recipients: tuple[str, ...] | None = None) -> Outgoing:
    """Read the bytes that `tools.mail.message.compose` made.

    A recipient that is in no header becomes Bcc. Without `recipients` the bytes are a draft, which
    has its own Bcc header.
    """
    message = parse(source)
    from_, to, cc, bcc = (addresses_in(message, header) for header in ("From", "To", "Cc", "Bcc"))
    if recipients is not None:
        seen = {address.lower() for address in (*to, *cc)}
        bcc = tuple(address for address in recipients if address.lower() not in seen)
    return Outgoing(
        sender="".join(from_[:1]),
        to=to,
        cc=cc,
        bcc=bcc,
        names=names_in(source),
        subject=str(message["Subject"] or ""),
        text=_text(message, "plain") or "",
        html=_text(message, "html"),
        importance=importance_of(message),
        message_id=str(message["Message-ID"] or "").strip(),
        in_reply_to=str(message["In-Reply-To"] or "").strip(),
        files=tuple(read_attachments(message)),
    )


def differences(
    outgoing: Outgoing, read: Mapping[str, Any], files: Sequence[tuple[str, str]]
) -> list[str]:
    """Return the names of the differences between the provider's draft and the approved message.

    `files` are (name, SHA-256) of the draft's attachments. The list is empty if a person could see
    no difference. `sender` is the mailbox itself, and the approved address may be an alias of it.
    Exchange rewrites the mark-up of HTML, so its text, links and pictures are
    compared.
    """
    from_, itself = (address_of(read.get(name))[1].lower() for name in ("from", "sender"))
    comparisons = {
        "from": (from_ in ("", outgoing.sender.lower(), itself), True),
        "to": (recipients_of(read, "toRecipients"), _lower(outgoing.to)),
        "cc": (recipients_of(read, "ccRecipients"), _lower(outgoing.cc)),
        "bcc": (recipients_of(read, "bccRecipients"), _lower(outgoing.bcc)),
        "subject": (str(read.get("subject") or ""), outgoing.subject),
        "reply_to": (recipients_of(read, "replyTo"), Counter()),
        "receipts": ([name for name in RECEIPTS if read.get(name)], []),
        "importance": (str(read.get("importance") or "normal").lower(), outgoing.importance),
        "attachments": (
            Counter(files),
            Counter((each.name, each.sha256) for each in outgoing.files),
        ),
    }
    wrong = [name for name, (found, wanted) in comparisons.items() if found != wanted]
    body = read.get("body") or {}
    if not _is_same_body(
        outgoing, str(body.get("contentType") or "").lower(), str(body.get("content") or "")
    ):
        wrong.append("body")
    return wrong


def leads_elsewhere(html: str, text: str) -> bool:
    """Return True if HTML made of a text has a link or a picture with an address that the text does
    not name.
    """
    return any(
        target.partition(" ")[2].removeprefix("mailto:") not in text for target in _targets_of(html)
    )


def recipients_of(read: Mapping[str, Any], name: str) -> Counter[str]:
    return _lower(tuple(address_of(each)[1] for each in read.get(name) or []))


def address_of(recipient: Any) -> tuple[str, str]:
    """Return (name, address) of one of Graph's recipients."""
    given = recipient.get("emailAddress") if isinstance(recipient, dict) else None
    given = given if isinstance(given, dict) else {}
    return str(given.get("name") or ""), str(given.get("address") or "")


def _is_same_body(outgoing: Outgoing, kind: str, content: str) -> bool:
    wanted = outgoing.text if outgoing.html is None else outgoing.html
    if _normalize(content) == _normalize(wanted):
        return True
    if kind != "html" or outgoing.html is None:
        return False
    return _words(content) == _words(wanted) and _targets_of(content) == _targets_of(wanted)


def _normalize(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.replace("\r\n", "\n").strip().split("\n"))


def _words(html: str) -> list[str]:
    return text_of(html).split()


def _lower(addresses: Sequence[str]) -> Counter[str]:
    return Counter(address.lower() for address in addresses)


def _text(message: EmailMessage, subtype: str) -> str | None:
    part = message.get_body((subtype,))
    return None if part is None else str(part.get_content()).replace("\r\n", "\n")


def _targets_of(html: str) -> Counter[str]:
    """Return how often each link and picture occurs."""
    found: Counter[str] = Counter()

    def note(tag: str, attrs: Attributes) -> None:
        found.update(
            f"{name} {value}"
            for name, value in attrs
            if name in ("href", "src", "action") and value
        )

    read_tags(html, note)
    return found
