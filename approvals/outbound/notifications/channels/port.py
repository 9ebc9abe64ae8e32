"""The port of a channel: the message that it gets, and the answer that it gives.

A new kind of channel is a module beside this one with a class that has the methods of `Transport`,
an entry in `TRANSPORTS`, and a kind in `NotificationChannel.Kind`.
"""

from dataclasses import dataclass
from functools import cache
from typing import Literal, Protocol, cast
from uuid import UUID

from django.utils.module_loading import import_string

from approvals.models import Content, NotificationChannel

# Imported at the first use, so that a library costs nothing if nobody uses its channel.
TRANSPORTS = {
    NotificationChannel.Kind.EMAIL: "approvals.outbound.notifications.channels.email.Email",
    NotificationChannel.Kind.WEB_PUSH: "approvals.outbound.notifications.channels.web_push.WebPush",
    NotificationChannel.Kind.APPRISE: "approvals.outbound.notifications.channels.chat.Chat",
}

# taken: the receiver has it. refused: a definite refusal, which a retry would repeat. not_sent: it
# certainly did not arrive and can be retried. gone: the address no longer exists, so the channel is
# paused. unknown: handed over without an answer; it is not sent again.
Result = Literal["taken", "refused", "not_sent", "gone", "unknown"]


@dataclass(frozen=True, kw_only=True)
class NotificationItem:
    """One event of a message. The texts are in the person's language.

    `mailbox`, `sender`, `subject` and `preview` are empty if the content level does not show them.
    """

    stage: str
    why: str
    url: str
    action_id: UUID | None = None
    mailbox: str = ""
    sender: str = ""
    subject: str = ""
    preview: str = ""


@dataclass(frozen=True, kw_only=True)
class NotificationMessage:
    """One message to a channel: its title, its events, and the page to open.

    `waiting` is how many actions wait for the person, for a badge. `summary` holds the lines of a
    digest. `id` is the same in each attempt.
    """

    id: UUID
    title: str
    url: str
    items: tuple[NotificationItem, ...] = ()
    summary: tuple[str, ...] = ()
    urgent: bool = False
    waiting: int = 0
    language: str = "en"


@dataclass(frozen=True, kw_only=True)
class DeliveryAnswer:
    """The answer of a channel.

    `code` is a word for the log and the page, without content. `detail` is what the receiver said,
    only for the person who tests the channel. `receipt` names the message for `withdraw`.
    """

    result: Result
    code: str = ""
    detail: str = ""
    receipt: str = ""


class Transport(Protocol):
    """One kind of channel. It makes one attempt in bounded time and never retries.

    It runs outside any transaction and raises nothing that it expects. `most` is the most content
    that this kind may show.
    """

    most: Content
    withdraws: bool

    def send(self, channel: NotificationChannel, message: NotificationMessage) -> DeliveryAnswer:
        """Send one message."""
        ...

    def withdraw(
        self, channel: NotificationChannel, receipt: str, *, waiting: int
    ) -> DeliveryAnswer:
        """Take a message back whose actions were all decided; only called if it `withdraws`.

        `waiting` is how many actions still wait for the person, for a badge.
        """
        ...


@cache
def get_transport(kind: str) -> Transport:
    """Return the transport of a kind of channel; raises KeyError for a kind without one."""
    return cast(Transport, import_string(TRANSPORTS[NotificationChannel.Kind(kind)])())
