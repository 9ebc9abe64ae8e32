"""Warnings about the text, visible or not: hidden text, secrets, orders to a machine, reversed
text.
"""

from html import unescape

from accounts.infra.texts import translatable
from approvals.core.types import PreviewWarning
from tools.mail.message.compose import OutgoingMessage
from tools.mail.text.characters import invisible_in
from tools.warnings import injections, secrets
from tools.warnings.context import JUDGED_CHARACTERS, Context, own_words, unseen_in

MANY_LEFT_OVER = 3  # copied text often has one or two
OVERRIDES = "\u202d\u202e"
OPENING = {
    "\u202a": "\u202c",
    "\u202b": "\u202c",
    "\u2066": "\u2069",
    "\u2067": "\u2069",
    "\u2068": "\u2069",
}


def hidden_text(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    """Return a warning about text that the proposal hid.

    In HTML it was made visible or removed.
    """
    content, subject = message.request.content, message.request.subject
    unseen = unseen_in(content)
    written = content.proposed_html or content.body
    left_over, spelled = invisible_in(unescape(written[:JUDGED_CHARACTERS]))
    in_subject = sum(invisible_in(subject))
    if not unseen and not spelled and left_over < MANY_LEFT_OVER and in_subject < MANY_LEFT_OVER:
        return None
    return PreviewWarning(
        code="hidden_text",
        title=translatable("Hidden text."),
        text=translatable("The subject contains text that its reader would not see.")
        if in_subject
        else translatable(
            "The proposal hid a part of its text from the reader. What you see here is everything that leaves."
        ),
        severity="risk" if in_subject else "notice",
    )


def secret(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    request = message.request
    written = (
        request.content.text[:JUDGED_CHARACTERS]
        if request.kind == "forward"
        else own_words(message, context)
    )
    found = secrets.find_secret(f"{request.subject}\n{written}")
    for attachment in request.attachments:
        if (
            not found
            and len(attachment.content) <= JUDGED_CHARACTERS
            and b"\0" not in attachment.content
        ):
            found = secrets.find_secret(attachment.content.decode("utf-8", "replace"))
    if not found:
        return None
    return PreviewWarning(
        code="secret",
        title=translatable("This may be a secret."),
        text=found,
        severity="risk",
    )


def injection(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    if not injections.has_injection(context.prompted_by[:JUDGED_CHARACTERS]):
        return None
    return PreviewWarning(
        code="injection",
        title=translatable("The original mail contains instructions for an AI."),
        text=translatable(
            "Its text tries to tell an assistant what to do. Check that this answer does not do it."
        ),
        severity="risk",
    )


def bidi(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    """Return a warning about text that is shown in another order than it is stored.

    Marks and closed embeddings are usual in right-to-left text; overrides never are.
    """
    request = message.request
    names = [
        request.subject,
        request.from_name,
        *(attachment.name for attachment in request.attachments),
    ]
    lines = [*names, *own_words(message, context).split("\n")]
    if not any(_is_turned(line) for line in lines):
        return None
    return PreviewWarning(
        code="bidi",
        title=translatable("Reordered letters."),
        text=translatable("Invisible characters change the order in which a line is read."),
        severity="risk",
    )


def content_removed(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    if not message.request.content.content_removed:
        return None
    return PreviewWarning(
        code="content_removed",
        title=translatable("Parts were removed."),
        text=translatable(
            "mailhub removed scripts, forms, style sheets, comments or unsafe styles from the HTML."
            " What you see here is what leaves."
        ),
    )


def _is_turned(line: str) -> bool:
    open_: list[str] = []
    for character in line:
        if character in OVERRIDES:
            return True
        if character in OPENING:
            open_.append(OPENING[character])
        elif character in OPENING.values() and (not open_ or open_.pop() != character):
            return True
    return bool(open_)
