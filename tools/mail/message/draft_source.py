"""Conversion of a draft in the mailbox into a request to send it: a job for a limited process.

Pure.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage, MIMEPart
from email.message import Message as Block
from typing import Any, Literal

from accounts.infra.problems import Problem
from accounts.infra.texts import translatable
from tools.mail.html.clean import clean, text_of
from tools.mail.html.nesting import check_depth
from tools.mail.message import lenient
from tools.mail.message.compose import MESSAGE_ID, Attachment, Request, media_type
from tools.mail.message.content import Content
from tools.mail.text.addresses import bare_address, display_name, file_name, header_text
from tools.mail.text.characters import without_invisible
from tools.mail.text.decoding import REPLACED
from tools.mail.text.decoding import text_of as decode

NOTHING = Content(body="", text="")
# Only the author's own program can make these again: mailhub would break the signature or lose the
# text.
SEALED = (
    "multipart/signed",
    "multipart/encrypted",
    "application/pkcs7-mime",
    "application/x-pkcs7-mime",
)
RECEIPTS = ("Disposition-Notification-To", "Return-Receipt-To", "X-Confirm-Reading-To")


def read_draft(source: bytes, address: str, name: str) -> Request | str:
    """Return the draft as a request from this address and name, or the sentence why it cannot be
    sent.

    A part that cannot be kept is refused, never dropped. Only From gives way, with a warning.
    """
    try:
        return _request(source, address, name)
    except Problem as problem:
        return problem.detail


@dataclass(frozen=True, kw_only=True)
class KeptParts:
    """The parts of a draft that a change keeps if it does not name them. `is_page`: it has HTML."""

    to: tuple[str, ...] = ()
    cc: tuple[str, ...] = ()
    bcc: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    subject: str = ""
    content: Content = NOTHING
    attachments: tuple[Attachment, ...] = ()
    is_page: bool = False


def read_kept(source: bytes, wanted: frozenset[str]) -> KeptParts | str:
    """Return the wanted parts of a draft, by the names of KeptParts, or the sentence why one of
    them cannot be kept.
    """
    draft = message_from_bytes(source, policy=policy.default)
    readers: dict[str, Callable[[], Any]] = {
        "to": lambda: _addresses(draft, "To"),
        "cc": lambda: _addresses(draft, "Cc"),
        "bcc": lambda: _addresses(draft, "Bcc"),
        "subject": lambda: _subject(source),
        "content": lambda: _content(draft),
        "attachments": lambda: _attachments(draft),
    }
    try:
        _refuse_what_is_lost(draft)
        parts = {name: read() for name, read in readers.items() if name in wanted}
    except Problem as problem:
        return problem.detail
    is_page = draft.get_body(("html",)) is not None
    return KeptParts(**parts, names=_names(draft), is_page=is_page)


def _refuse_what_is_lost(draft: EmailMessage) -> None:
    """Raise Problem for a draft that would lose something whenever it is written again."""
    if draft.get_content_type() in SEALED:
        raise Problem(
            "invalid_input",
            "A signed or encrypted draft can only be sent from the program that made it.",
        )
    if _addresses(draft, "Reply-To"):
        raise Problem(
            "invalid_input",
            "The draft has a Reply-To address, which mailhub cannot keep.",
        )
    if any(name in draft for name in RECEIPTS):
        raise Problem("invalid_input", "The draft asks for a receipt, which mailhub cannot keep.")


def _request(source: bytes, address: str, name: str) -> Request:
    draft = message_from_bytes(source, policy=policy.default)
    _refuse_what_is_lost(draft)
    to = _addresses(draft, "To")
    if not to:
        raise Problem("invalid_input", "The draft has no recipient in To.")
    subject = _subject(source)
    return Request(
        kind="reply" if str(draft["In-Reply-To"] or "").strip() else "send",
        from_address=address,
        from_name=name,
        to=to,
        cc=_addresses(draft, "Cc"),
        bcc=_addresses(draft, "Bcc"),
        names=_names(draft),
        subject=subject or "(no subject)",
        content=_content(draft),
        importance=importance_of(draft),
        attachments=_attachments(draft),
        **thread_of(draft),
    )


def thread_of(draft: Block) -> dict[str, Any]:
    """Return the members of a request that leave a draft in its thread."""
    in_reply_to = str(draft["In-Reply-To"] or "").strip()
    references = str(draft["References"] or "").split()
    return {
        "in_reply_to": in_reply_to if MESSAGE_ID.fullmatch(in_reply_to) else "",
        "references": tuple(each for each in references if MESSAGE_ID.fullmatch(each)),
    }


def _subject(source: bytes) -> str:
    try:
        return header_text(_readable(lenient.headers(source)["Subject"]))
    except ValueError:
        raise Problem(
            "invalid_input", "The subject of the draft is not allowed in a mail."
        ) from None


def _addresses(draft: EmailMessage, header: str) -> tuple[str, ...]:
    if draft[header] is None:
        return ()
    try:
        return tuple(bare_address(address.addr_spec) for address in draft[header].addresses)
    except ValueError:
        raise Problem(
            "invalid_input",
            translatable(
                "An address in the draft's %(header)s is not a plain e-mail address.", header=header
            ),
        ) from None


def _names(draft: EmailMessage) -> dict[str, str]:
    """Return the names of the recipients whose addresses a mail can have, by address in lower case."""
    found = {}
    for header in ("To", "Cc"):
        for each in draft[header].addresses if draft[header] else ():
            if name := display_name(each.display_name):
                with suppress(ValueError):
                    found[bare_address(each.addr_spec).lower()] = name
    return found


def _content(draft: EmailMessage) -> Content:
    plain, page = draft.get_body(("plain",)), draft.get_body(("html",))
    text = without_invisible(_text_of(plain)) if plain else ""
    if not text.strip():
        text = ""
    if page is None:
        return Content(body=text, text=text)
    given = _text_of(page)
    found = clean(given)
    check_depth(found.html)
    return Content(
        body=text or given,
        text=text or text_of(found.html),
        html=found.html,
        proposed_html=given,
        content_removed=found.removed,
    )


def _attachments(draft: EmailMessage) -> tuple[Attachment, ...]:
    bodies = {
        id(part)
        for part in (draft.get_body(("plain",)), draft.get_body(("html",)))
        if part is not None
    }
    found = []
    for part in draft.walk():
        if part.is_multipart() and part.get_content_maintype() == "multipart":
            continue
        if id(part) in bodies:
            continue
        unnamed = part.get_content_disposition() is None and not part.get_filename()
        if unnamed and part.get_content_maintype() == "text":
            raise Problem(
                "invalid_input",
                translatable(
                    "The draft holds a part (%(type)s) that cannot be shown here."
                    " Send it from the program that made it.",
                    type=part.get_content_type(),
                ),
            )
        found.append(
            Attachment(
                name=_check_name(part.get_filename() or ""),
                type=media_type(part.get_content_type()),
                content=_bytes_of(part),
                content_id=str(part["Content-ID"] or "").strip(" <>"),
            )
        )
        if part.is_multipart():
            raise Problem(
                "invalid_input",
                "The draft holds a whole mail as attachment: forward that mail instead.",
            )
    return tuple(found)


def _readable(header: str | None) -> str:
    """Return the text of a header. Raises ValueError for one with damaged or control characters."""
    text = lenient.decode_text(header)
    if REPLACED in text:
        raise ValueError("must be readable")
    return text


def _text_of(part: MIMEPart) -> str:
    """Return the text of a part in the charset that mail programs read; a wrong label loses none."""
    is_page = part.get_content_type() == "text/html"
    return decode(_bytes_of(part), lenient.parameter(part, "charset"), is_page=is_page)


def _bytes_of(part: MIMEPart) -> bytes:
    content = part.get_payload(decode=True)
    return content if isinstance(content, bytes) else b""


def _check_name(name: str) -> str:
    try:
        return file_name(name) or "attachment"
    except ValueError:
        raise Problem(
            "invalid_input", "The name of an attachment of the draft is not allowed in a mail."
        ) from None


def importance_of(draft: Block) -> Literal["low", "normal", "high"]:
    match str(draft["Importance"] or "").strip().lower():
        case "high":
            return "high"
        case "low":
            return "low"
    return "normal"
