"""The handover of one message to an SMTP server that fails."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from accounts.connect.imap import ImapAccess
from tests.support.servers.sandbox import ADA, CHARLES, MIRA, plain
from tests.support.servers.smtp import FaultySmtp, Point
from tools.providers.base import Envelope, Handover
from tools.providers.errors import ProviderError
from tools.providers.imap import ImapProvider
from tools.providers.imap.mailbox import ImapMailbox

SOURCE = b"Subject: Hello\r\nTo: charles@lovelace.example\r\n\r\nHello.\r\n"
EVERYBODY = (CHARLES, MIRA, "hidden@copy.example")
Plan = Callable[[FaultySmtp], object]


class Wire:
    """A counter of the reports that the message may be sent from now on."""

    def __init__(self) -> None:
        self.started = 0

    def __call__(self) -> None:
        self.started += 1


def access(smtp: FaultySmtp) -> ImapAccess:
    return ImapAccess(imap=plain(1), smtp=plain(smtp.port), username=ADA, password="a password")


def provider(smtp: FaultySmtp) -> ImapProvider:
    return ImapProvider(ImapMailbox(access(smtp), mailbox_id=uuid.uuid4(), key=uuid.uuid4()))


def send(
    smtp: FaultySmtp,
    *,
    source: bytes = SOURCE,
    recipients: tuple[str, ...] = EVERYBODY,
    wire: Wire | None = None,
) -> None:
    provider(smtp).send(
        Envelope(sender=ADA, recipients=recipients, source=source),
        Handover(wire_started=wire or Wire()),
    )


def failure(smtp: FaultySmtp, **changes: Any) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        send(smtp, **changes)
    return caught.value


def drop(at: Point) -> Plan:
    return lambda smtp: smtp.drop(at=at)


def reset(at: Point) -> Plan:
    return lambda smtp: smtp.reset(at=at)


def cut_reply(answer: bytes, at: Point) -> Plan:
    """Answer with a part of a reply, and hang up."""

    def plan(smtp: FaultySmtp) -> None:
        smtp.hang_up_after_reply = True
        smtp.reply(answer, at=at)

    return plan


def reply(answer: str | bytes, at: Point, *, recipient: str | None = None) -> Plan:
    return lambda smtp: smtp.reply(answer, at=at, recipient=recipient)
