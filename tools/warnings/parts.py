"""Warnings about parts of a mail that its reader may see, but the review page shows otherwise or
only names.
"""

from pathlib import PurePath

from approvals.core.types import PreviewWarning
from tools.mail.message.alternatives import differ
from tools.mail.message.compose import Attachment, OutgoingMessage
from tools.warnings.context import Context

NAMED = 3
# Mail programs show these inside the mail, or make something of them that can be answered.
SHOWN_TYPES = {
    "text/calendar": "a calendar entry",
    "application/ics": "a calendar entry",
    "text/x-amp-html": "another version of the mail",
    "message/rfc822": "a whole mail",
    "message/global": "a whole mail",
}
SHOWN_ENDINGS = {
    ".ics": "a calendar entry",
    ".vcs": "a calendar entry",
    ".eml": "a whole mail",
    ".msg": "a whole mail",
}
PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp"})


def alternatives_differ(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    content = message.request.content
    if content.html is None or not differ(content.text, content.html):
        return None
    return PreviewWarning(
        code="alternatives_differ",
        title="It says two different things.",
        text="Programs that show no HTML show a plain text with other words. Both leave: read both below.",
        severity="risk",
    )


def hidden_part(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    has_html = message.request.content.html is not None
    found = [
        said for each in message.request.attachments if (said := _shown_as(each, has_html=has_html))
    ]
    if not found:
        return None
    more = f" And {len(found) - NAMED} more." if len(found) > NAMED else ""
    return PreviewWarning(
        code="hidden_part",
        title="A part is not shown here.",
        text=f"{' '.join(found[:NAMED])}{more} Open it before you decide.",
        severity="risk",
    )


def _shown_as(attachment: Attachment, *, has_html: bool) -> str | None:
    """Return how a mail program may show a part that this page only names; None for an ordinary
    file.
    """
    sort = SHOWN_TYPES.get(attachment.type) or SHOWN_ENDINGS.get(
        PurePath(attachment.name).suffix.lower()
    )
    if sort is None and has_html and attachment.content_id and attachment.type not in PICTURES:
        sort = "a part of the mail itself"
    return (
        f"Mail programs may show “{attachment.name or attachment.type}” as {sort}."
        if sort
        else None
    )
