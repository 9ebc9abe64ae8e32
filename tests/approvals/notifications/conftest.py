"""People with proven addresses, and a real mail server that takes their notifications."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

import pytest
from django.utils import timezone

from accounts.models import User
from approvals.models import Notification
from approvals.outbound.notifications import courier, gather, reminders
from mailhub.environment import mail_settings
from tests.support.servers.smtp import FaultySmtp


def stages(person: User) -> list[str]:
    rows = Notification.objects.filter(user=person).order_by("pk")
    return list(rows.values_list("stage", flat=True))


@dataclass(kw_only=True)
class Post:
    """The mail server, and a sweep of notifications at a chosen time."""

    server: FaultySmtp

    def sweep(self, after: timedelta = timedelta()) -> datetime:
        """Gather, remind and deliver as a worker does at `after` from now; return that time."""
        now = timezone.now() + after
        while gather.gather(now):
            pass
        reminders.remind(now)
        for _, channel in find_channels(now):
            courier.deliver(channel, now=now)
        return now

    @property
    def mails(self) -> list[EmailMessage]:
        found = [
            message_from_bytes(each.content, policy=policy.default) for each in self.server.ledger
        ]
        return [each for each in found if isinstance(each, EmailMessage)]

    def to(self, person: User) -> list[EmailMessage]:
        """Return the mails of one person, in order."""
        return [
            mail
            for mail, accepted in zip(self.mails, self.server.ledger, strict=True)
            if accepted.recipients == (person.email,)
        ]


def find_channels(now: datetime) -> list[tuple[Any, Any]]:
    return courier.find_waiting(now)


def prove(*people: User) -> None:
    for person in people:
        person.address_proven_at = timezone.now()
        person.save(update_fields=["address_proven_at"])


@pytest.fixture
def post(settings: Any) -> Iterator[Post]:
    with FaultySmtp() as server:
        for name, value in mail_settings(f"smtp://127.0.0.1:{server.port}").items():
            setattr(settings, name, value)
        settings.SENDS_MAIL = True
        settings.MAILHUB_NOTIFICATION_WAIT_SECONDS = 0
        settings.MAILHUB_PUBLIC_URL = "https://mailhub.example"
        yield Post(server=server)
