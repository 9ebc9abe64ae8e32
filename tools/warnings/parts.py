"""Warnings about parts of a mail that its reader may see, but the review page shows otherwise or
only names.
"""

from pathlib import PurePath
from typing import Literal

from accounts.infra.texts import Translatable, join, translatable
from tools.mail.message.alternatives import differ
from tools.mail.message.compose import Attachment, OutgoingMessage
from tools.warnings.checks import NAMED, and_more, check
from tools.warnings.context import Context

Sort = Literal["calendar", "version", "mail", "part"]
# Mail programs show these inside the mail, or make something of them that can be answered.
SHOWN_TYPES: dict[str, Sort] = {
    "text/calendar": "calendar",
    "application/ics": "calendar",
    "text/x-amp-html": "version",
    "message/rfc822": "mail",
    "message/global": "mail",
}
SHOWN_ENDINGS: dict[str, Sort] = {
    ".ics": "calendar",
    ".vcs": "calendar",
    ".eml": "mail",
    ".msg": "mail",
}
PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp"})


@check(
    translatable("The HTML and the text differ."),
    translatable("two different texts"),
    severity="risk",
)
def alternatives_differ(message: OutgoingMessage, context: Context) -> str | None:
    """Warn if the plain text and the HTML have different words; both leave, and both are shown."""
    content = message.request.content
    if content.html is None or not differ(content.text, content.html):
        return None
    return translatable(
        "The plain text for mail programs without HTML has other words. Both leave: read both below."
    )


@check(translatable("A part is not shown here."), translatable("part not shown"), severity="risk")
def hidden_part(message: OutgoingMessage, context: Context) -> str | None:
    """Warn if mail programs may show a part that the page only names: a calendar entry, an AMP
    page, a whole mail, a part inside the HTML that is no picture.
    """
    has_html = message.request.content.html is not None
    found = [
        said
        for each in message.request.attachments
        if (said := _describe_display(each, has_html=has_html))
    ]
    if not found:
        return None
    return join(
        *found[:NAMED],
        and_more(len(found) - NAMED),
        translatable("Open each of them before you decide.")
        if len(found) > 1
        else translatable("Open it before you decide."),
    )


def _describe_display(attachment: Attachment, *, has_html: bool) -> Translatable | None:
    """Return how a mail program may show a part that this page only names; None for an ordinary
    file.
    """
    sort = SHOWN_TYPES.get(attachment.type) or SHOWN_ENDINGS.get(
        PurePath(attachment.name).suffix.lower()
    )
    if sort is None and has_html and attachment.content_id and attachment.type not in PICTURES:
        sort = "part"
    name = attachment.name or attachment.type
    match sort:
        case "calendar":
            return translatable("Mail programs may show “%(name)s” as a calendar entry.", name=name)
        case "version":
            return translatable(
                "Mail programs may show “%(name)s” as another version of the mail.", name=name
            )
        case "mail":
            return translatable("Mail programs may show “%(name)s” as a whole mail.", name=name)
        case "part":
            return translatable(
                "Mail programs may show “%(name)s” as a part of the mail itself.", name=name
            )
        case None:
            return None
