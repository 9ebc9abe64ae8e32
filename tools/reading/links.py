"""Single-use links to one attachment, for programs that want a file without its bytes in the
answer.
"""

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from django.conf import settings
from django.urls import reverse

from accounts.access import roles
from accounts.access.auth import find_caller
from accounts.access.caller import Caller
from accounts.access.provider_calls import limit_waiting
from accounts.infra.problems import Problem
from accounts.models import Mailbox, Role, User
from tools.mail.message.compose import MAX_TOTAL_BYTES
from tools.models import DownloadLink
from tools.providers.failures import map_errors
from tools.reading.own_mail import provider_of

SCOPE = "mail:read"
T = TypeVar("T")


def issue(
    caller: Caller, mailbox: Mailbox, *, message_id: str, attachment_id: str
) -> tuple[str, datetime]:
    """Return a link that works once within ten minutes, as long as the caller may read; and its end."""
    link, secret = DownloadLink.issue(
        user=caller.user,
        token=caller.token,
        mailbox=mailbox,
        message_id=message_id,
        attachment_id=attachment_id,
    )
    return settings.MAILHUB_PUBLIC_URL + reverse("file", args=[secret]), link.expires_at


def redeem(secret: str, answer: Callable[[int, str, bytes], T]) -> T | None:
    """Use a link up, and return the answer with its attachment, which `answer` makes of the person's
    id, the name and the bytes; None if the link is unknown, used or too old, or if its program may
    no longer read.

    Raises Problem, as a read of the attachment does; a `transient` one gives the link back.
    """
    link = DownloadLink.redeem(secret)
    caller = find_caller(link.user_id, link.token_id) if link and link.user_id else None
    if link is None or caller is None or not caller.may(SCOPE):
        return None
    try:
        mailbox = roles.get_mailbox(caller, str(link.mailbox_id), need=Role.VIEWER)
        with limit_waiting(caller.user.pk, mailbox.pk), map_errors(mailbox):
            info, content = provider_of(mailbox).fetch_attachment(
                link.message_id, link.attachment_id, limit=MAX_TOTAL_BYTES
            )
        return answer(caller.user.pk, info.name, content)
    except Problem as problem:
        if problem.code == "transient":
            link.give_back()
        raise


def end_links_of_chat(sender: object, person: User, **_: object) -> None:
    """Receive that rights of a person were taken: links of their chat name no token that lost them."""
    DownloadLink.objects.filter(user=person, token=None).delete()
