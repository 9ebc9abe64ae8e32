"""Notifications by a chat or phone service, in the service's format as Apprise writes it."""

import http.client

from accounts.infra.pinned_requests import PinnedSession
from accounts.infra.safe_hosts import HostError, HostRefused
from approvals.models import Content, NotificationChannel
from approvals.outbound.notifications.channels.port import DeliveryAnswer, NotificationMessage
from approvals.outbound.notifications.channels.services import read_address, using
from approvals.outbound.webhooks.subscriptions import PORTS, SECONDS

DETAIL = 300
LINES = 5
GONE, TRY_LATER = (404, 410), (408, 425, 429, 503)
# A word joiner is not seen. After it no service finds a mention, a link or a mark of its own.
_JOINER = "\N{WORD JOINER}"
_MARKS = frozenset("<>@!&[]()*_~`|:#/\\.")


class Chat:
    """The transport of chat and phone services. A message there cannot be taken back."""

    most = Content.PREVIEW
    withdraws = False

    def send(self, channel: NotificationChannel, message: NotificationMessage) -> DeliveryAnswer:
        """Send one message by one request; a Matrix room takes up to three."""
        try:
            service, plugin = read_address(channel.address)
        except ValueError:
            return DeliveryAnswer(result="refused", code="address_unusable")
        session = PinnedSession(
            seconds=SECONDS,
            ports=PORTS,
            limit=service.limit,
        )
        with using(session):
            # The title of one mail has its subject.
            title = make_literal(message.title)
            sent = plugin.notify(body=_body(message), title=title, body_format="text")
        return _answer(session, sent=sent)

    def withdraw(
        self, channel: NotificationChannel, receipt: str, *, waiting: int
    ) -> DeliveryAnswer:
        return DeliveryAnswer(result="refused", code="cannot_withdraw")


def _answer(session: PinnedSession, *, sent: bool) -> DeliveryAnswer:
    if session.failure:
        return _failure(session.failure)
    if session.answer is None:
        return DeliveryAnswer(result="refused", code="address_unusable")
    status, text = session.answer.status, session.answer.text
    shown = "".join(mark if mark.isprintable() else " " for mark in text[:DETAIL]).strip()
    detail = f"{status} {http.client.responses.get(status, '')} {shown}".strip()
    code = f"http_{status}"
    if sent:
        return DeliveryAnswer(result="taken", detail=detail)
    if status in GONE:
        return DeliveryAnswer(result="gone", code=code, detail=detail)
    if status in TRY_LATER:
        return DeliveryAnswer(result="not_sent", code=code, detail=detail)
    # After another error of the server nobody knows whether the message was posted.
    return DeliveryAnswer(
        result="unknown" if status >= 500 else "refused", code=code, detail=detail
    )


def _failure(failure: Exception) -> DeliveryAnswer:
    """Return the result without an answer; only a connection that failed is sure to be harmless."""
    if isinstance(failure, HostRefused):
        return DeliveryAnswer(result="not_sent", code="host_refused", detail=str(failure))
    if isinstance(failure, HostError):
        return DeliveryAnswer(result="not_sent", code="unreachable", detail=str(failure))
    return DeliveryAnswer(result="unknown", code="no_answer")


def _body(message: NotificationMessage) -> str:
    lines = []
    for item in message.items[:LINES]:
        mail = ": ".join(make_literal(part) for part in (item.sender, item.subject) if part)
        lines += [item.why, *([mail] if mail else [])]
        lines += [make_literal(item.preview)] if item.preview else []
        lines += [item.url] if len(message.items) > 1 else []
    return "\n".join([*lines, *message.summary, message.url])


def make_literal(text: str) -> str:
    """Return a text of a mail that a chat shows as it is: no mention, link or format takes effect."""
    shown = "".join(mark if mark.isprintable() else " " for mark in text)
    return "".join(mark + _JOINER if mark in _MARKS else mark for mark in shown)
