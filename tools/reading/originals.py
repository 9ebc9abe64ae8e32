"""The message that is answered or forwarded: its content, and the recipients of an answer."""

from accounts.infra.problems import Problem
from tools.mail.message import sealed
from tools.mail.message.compose import MAX_TOTAL_BYTES, Attachment, media_type
from tools.mail.message.content import Original
from tools.mail.message.markup import original_content
from tools.mail.text.addresses import bare_address, file_name
from tools.providers.base import MailProvider, Message


def as_original(message: Message) -> Original:
    text, html = original_content(message.text, message.html)
    return Original(
        message_id=message.message_id,
        references=message.references,
        from_address=message.from_address,
        from_name=message.from_name,
        reply_to=message.reply_to,
        to=message.to,
        cc=message.cc,
        subject=message.subject,
        date=message.date,
        text=text,
        html=html,
        is_signed=sealed.SIGNED in message.notes,
    )


def answer_recipients(
    original: Original, *, own: str, reply_all: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return (to, cc) of an answer: Reply-To or From; with reply_all all others too, except the
    mailbox.

    The addresses come from foreign headers. If one is unusable, the whole answer is refused, so
    that nobody is left out silently.
    """
    to = _filter_usable(original.reply_to or (original.from_address,))
    if not reply_all:
        return to, ()
    others = _filter_usable(
        tuple(a for a in (*original.to, *original.cc) if a.lower() != own.lower())
    )
    if {a.lower() for a in to} == {own.lower()} and others:
        # An answer to the mailbox's own mail goes to the recipients of that mail.
        return others, ()
    seen = {address.lower() for address in (*to, own)}
    return to, tuple(address for address in others if address.lower() not in seen)


def _filter_usable(addresses: tuple[str, ...]) -> tuple[str, ...]:
    found: dict[str, str] = {}
    for address in addresses:
        try:
            bare = bare_address(address)
        except ValueError:
            raise Problem(
                "invalid_input",
                "An address in the original cannot be answered. Use send_email with the right ones.",
            ) from None
        found.setdefault(bare.lower(), bare)
    return tuple(found.values())


def forwarded_attachments(provider: MailProvider, message: Message) -> tuple[Attachment, ...]:
    """Return the attachments of a message that is forwarded, including pictures inside its HTML."""
    found = []
    left = MAX_TOTAL_BYTES
    for info in message.attachments:
        _, content = provider.fetch_attachment(message.id, info.id, limit=left)
        left -= len(content)
        found.append(
            Attachment(
                name=_safe_name(info.name),
                type=media_type(info.type),
                content=content,
                content_id=info.content_id if info.inline else "",
            )
        )
    return tuple(found)


def _safe_name(name: str) -> str:
    try:
        return file_name(name[:255])
    except ValueError:
        return "attachment"
