"""The message that is answered or forwarded: its content, and the recipients of an answer."""

from collections.abc import Iterable

from accounts.infra.problems import Problem
from accounts.infra.texts import translatable
from tools.mail.message import calendar, sealed
from tools.mail.message.compose import MAX_TOTAL_BYTES, Attachment, media_type
from tools.mail.message.content import Original
from tools.mail.message.markup import original_content
from tools.mail.message.reading import CUT_NOTE, LEFT_OUT
from tools.mail.text.addresses import bare_address, display_name, file_name
from tools.providers.base import MailProvider, Message
from tools.schemas import MOST_RECIPIENTS

MOST_FILES = 100  # of a mail that is forwarded


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
        left_behind=_name_left_behind(message),
        names=message.names,
    )


def _name_left_behind(message: Message) -> str:
    """Return what a forward of the message does not have, in words, or an empty text."""
    has_entry = any(file.type in calendar.TYPES for file in message.attachments)
    if message.kind == "invitation" and not has_entry:
        return translatable("Its calendar entry does not go along, only its text.")
    if message.kind in ("bounce", "receipt"):
        return translatable("The parts of the report for programs do not go along, only its text.")
    if CUT_NOTE in message.notes:
        return translatable("Its text is too long. The end does not go along.")
    return ""


def answer_recipients(
    original: Original, *, own: str, reply_all: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return (to, cc) of an answer: To is Reply-To or From; with reply_all, Cc has all others.

    The mailbox itself is never a recipient. An answer to its own mail goes on to the recipients of
    that mail. Raises Problem if nobody is left. The addresses come from foreign headers: if one is
    unusable, or if they are more than a caller may name, the whole answer is refused, so that
    nobody is left out silently.
    """
    to: tuple[str, ...] = ()
    for header in (original.reply_to, (original.from_address,), original.to, original.cc):
        to = _filter_usable(header, without=(own,))
        if to:
            break
    if not to:
        raise Problem(
            "invalid_input",
            "The original names nobody except this mailbox. Use send_email with the right recipients.",
        )
    everybody = (*original.to, *original.cc) if reply_all else ()
    cc = _filter_usable(everybody, without=(*to, own))
    if max(len(to), len(cc)) > MOST_RECIPIENTS:
        raise Problem(
            "invalid_input",
            "The answer would go to too many addresses. Use send_email with the right recipients.",
        )
    return to, cc


def answer_names(original: Original, recipients: Iterable[str]) -> dict[str, str]:
    """Return the names that the original gives to the recipients, by address in lower case."""
    given = {each.lower(): original.names.get(each.lower(), "") for each in recipients}
    return {address: name for address, text in given.items() if (name := display_name(text))}


def _filter_usable(addresses: tuple[str, ...], *, without: tuple[str, ...]) -> tuple[str, ...]:
    """Return each address once, without those that are left out."""
    left_out = {address.lower() for address in without}
    found: dict[str, str] = {}
    for address in addresses:
        try:
            bare = bare_address(address)
        except ValueError:
            raise Problem(
                "invalid_input",
                "An address in the original cannot be answered. Use send_email with the right ones.",
            ) from None
        if bare.lower() not in left_out:
            found.setdefault(bare.lower(), bare)
    return tuple(found.values())


def forwarded_attachments(provider: MailProvider, message: Message) -> tuple[Attachment, ...]:
    """Return the attachments of a message that is forwarded, including pictures inside its HTML.

    Each is read by itself, with the structure of the whole message. Raises Problem if they are too
    many for that, or if some are not even listed.
    """
    if len(message.attachments) > MOST_FILES or LEFT_OUT in message.notes:
        raise Problem(
            "too_large",
            translatable(
                "The mail has more than %(most)s files, or too many parts, so it cannot be forwarded as a whole.",
                most=MOST_FILES,
            ),
        )
    found = []
    left = MAX_TOTAL_BYTES
    for info in message.attachments:
        _, content = provider.fetch_attachment(message.id, info.id, limit=left)
        left -= len(content)
        found.append(
            Attachment(
                name=safe_name(info.name),
                type=media_type(info.type),
                content=content,
                content_id=info.content_id if info.inline else "",
            )
        )
    return tuple(found)


def safe_name(name: str) -> str:
    """Return the name of a foreign file, or a neutral one if no mail may hold it."""
    try:
        return file_name(name[:255])
    except ValueError:
        return "attachment"
