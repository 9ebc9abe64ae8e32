"""Single-use links to one attachment, for programs that want a file without its bytes in the
answer.
"""

from datetime import datetime

from django.conf import settings
from django.urls import reverse

from accounts.models import Mailbox
from tools.mail.message.compose import MAX_TOTAL_BYTES
from tools.models import DownloadLink
from tools.providers import provider_for
from tools.providers.base import AttachmentInfo
from tools.providers.failures import map_errors


def issue(mailbox: Mailbox, *, message_id: str, attachment_id: str) -> tuple[str, datetime]:
    """Return a link that works once within ten minutes, and its end."""
    link, secret = DownloadLink.issue(
        mailbox=mailbox, message_id=message_id, attachment_id=attachment_id
    )
    return settings.MAILHUB_PUBLIC_URL + reverse("file", args=[secret]), link.expires_at


def redeem(secret: str) -> tuple[AttachmentInfo, bytes] | None:
    """Use a link up and fetch its attachment; None if the link is unknown, used or too old."""
    link = DownloadLink.redeem(secret)
    if link is None:
        return None
    with map_errors(link.mailbox):
        return provider_for(link.mailbox).fetch_attachment(
            link.message_id, link.attachment_id, limit=MAX_TOTAL_BYTES
        )
