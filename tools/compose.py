"""From what a caller asks for to the complete message, and back again to be sure. Pure."""

import hashlib
import uuid
from collections import Counter
from dataclasses import dataclass
from email import message_from_bytes, policy
from email.message import EmailMessage
from email.utils import parsedate_to_datetime
from typing import Literal

from tools.addresses import header_text
from tools.html import cleaned, lost_something, text_of

# A line ends in CRLF and is at most 998 bytes; 8-bit bodies are encoded, so any server can take it (RFC 5322, 2045).
WIRE = policy.SMTP.clone(cte_type="7bit", max_line_length=78)
PRIORITY = {"high": "1 (Highest)", "low": "5 (Lowest)"}


class ComposeError(ValueError):
    """What was generated is not what was asked for; it must not leave."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is to be sent. Addresses are bare addr-specs in ASCII; `from_name` is the mailbox's own."""

    from_address: str
    from_name: str = ""
    to: tuple[str, ...]
    cc: tuple[str, ...] = ()
    bcc: tuple[str, ...] = ()
    subject: str
    body: str
    body_type: Literal["text", "html"] = "text"
    importance: Literal["low", "normal", "high"] = "normal"
    save_to_sent: bool = True


@dataclass(frozen=True, kw_only=True)
class OutgoingMessage:
    """The complete message. `source` are the bytes that leave, without Bcc and without Date.

    Date is put in front when it leaves (`stamped`), since a person may decide a day later.
    """

    request: Request
    message_id: str
    text: str
    html: str | None
    content_removed: bool
    source: bytes

    @property
    def recipients(self) -> tuple[str, ...]:
        """The envelope: everybody, Bcc included."""
        return (*self.request.to, *self.request.cc, *self.request.bcc)

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.source).hexdigest()


def new_message(request: Request) -> OutgoingMessage:
    """Compose a new message with a Message-ID of our own, and check that the bytes say what was asked for.

    Raises ComposeError when they do not.
    """
    domain = request.from_address.rpartition("@")[2]
    message_id = f"<{uuid.uuid4().hex}@{domain}>"
    html = cleaned(request.body) if request.body_type == "html" else None
    text = request.body if html is None else text_of(html)

    message = EmailMessage(policy=WIRE)
    message["From"] = f'"{_quoted(request.from_name)}" <{request.from_address}>' if request.from_name else (
        request.from_address
    )  # fmt: skip
    message["To"] = ", ".join(request.to)
    if request.cc:
        message["Cc"] = ", ".join(request.cc)
    message["Subject"] = request.subject
    message["Message-ID"] = message_id
    if request.importance != "normal":
        message["Importance"] = request.importance
        message["X-Priority"] = PRIORITY[request.importance]
    message.set_content(text if text.endswith("\n") else text + "\n")
    if html is not None:
        message.add_alternative(html if html.endswith("\n") else html + "\n", subtype="html")
    outgoing = OutgoingMessage(
        request=request,
        message_id=message_id,
        text=text,
        html=html,
        content_removed=html is not None and lost_something(request.body, html),
        source=message.as_bytes(policy=WIRE),
    )
    check(outgoing)
    return outgoing


def check(outgoing: OutgoingMessage) -> None:
    """Generate, parse, compare: the headers, the addresses and the texts in the bytes are those asked for."""
    request = outgoing.request
    parsed = message_from_bytes(outgoing.source, policy=policy.default)
    expected = Counter(["from", "to", "subject", "message-id", "mime-version"])
    expected.update(["cc"] if request.cc else [])
    expected.update(["importance", "x-priority"] if request.importance != "normal" else [])
    expected.update(["content-type"] if outgoing.html is not None else ["content-type", "content-transfer-encoding"])
    found = Counter(name.lower() for name in parsed.keys())  # noqa: SIM118  # a message has one key for each header
    comparisons = {
        "headers": (found, expected),
        "from": (_addresses(parsed, "From"), (request.from_address,)),
        "to": (_addresses(parsed, "To"), request.to),
        "cc": (_addresses(parsed, "Cc"), request.cc),
        "subject": (str(parsed["Subject"]), request.subject),
        "message-id": (str(parsed["Message-ID"]), outgoing.message_id),
        "text": (_part(parsed, "plain"), outgoing.text.strip("\n")),
        "html": (_part(parsed, "html"), outgoing.html.strip("\n") if outgoing.html is not None else None),
    }
    wrong = [name for name, (is_, should_be) in comparisons.items() if is_ != should_be]
    if wrong or parsed.defects:
        raise ComposeError(f"the generated message differs in: {', '.join(wrong) or 'structure'}")


def stamped(source: bytes, *, date: str, bcc: tuple[str, ...] = ()) -> bytes:
    """The bytes with their Date in front; with `bcc` for the copy in Sent, never for the wire.

    `date` is an RFC 5322 date.
    """
    parsedate_to_datetime(date)  # raises on anything else
    head = f"Date: {date}\r\n"
    if bcc:
        head += "Bcc: " + ",\r\n ".join(header_text(address) for address in bcc) + "\r\n"
    return head.encode("ascii") + source


def _quoted(name: str) -> str:
    return header_text(name).replace("\\", "\\\\").replace('"', '\\"')


def _addresses(parsed: EmailMessage, header: str) -> tuple[str, ...]:
    return tuple(address.addr_spec for address in parsed[header].addresses) if parsed[header] else ()


def _part(parsed: EmailMessage, subtype: str) -> str | None:
    for part in parsed.walk():
        if part.get_content_type() == f"text/{subtype}":
            return str(part.get_content()).replace("\r\n", "\n").strip("\n")
    return None
