"""Old events, their archive, and the two commands about them."""

from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from accounts.models import Mailbox
from approvals import guards
from approvals.audit import archive, chain
from approvals.models import AuditChain, AuditEvent, NotificationCursor, PendingAction
from tests.support.work import work

DAYS = 40
FINE = "are what they were."


@pytest.fixture(autouse=True)
def home(settings: Any, tmp_path: Path) -> Path:
    """Give each test its own home, and let events stay for forty days."""
    settings.MAILHUB_HOME = tmp_path / "home"
    settings.MAILHUB_AUDIT_RETENTION_DAYS = DAYS
    return tmp_path / "home"


@pytest.fixture
def sent(approved: Callable[..., PendingAction]) -> PendingAction:
    """Return a sent action, with five events of its mailbox that people were notified of."""
    action = approved()
    work()
    action.refresh_from_db()
    notified()
    return action


def notified() -> None:
    """Let the notifications have read all events."""
    newest = AuditEvent.objects.order_by("-pk").values_list("pk", flat=True)[0]
    NotificationCursor.objects.update_or_create(pk=1, defaults={"event": newest})


def say(mailbox: Mailbox | None, times: int = 1, *, days_ago: float = 0) -> None:
    with time_machine.travel(timezone.now() - timedelta(days=days_ago), tick=True):
        for _ in range(times):
            chain.record(mailbox=mailbox, event="paused", actor="command")
    notified()


def archived(*, after_days: int = 100) -> str:
    """Anchor the chains, let the time pass, run the command, and return its words."""
    call_command("verify_audit", verbosity=0)
    return archive_now(after_days=after_days)


def archive_now(*, after_days: int = 100) -> str:
    out = StringIO()
    with time_machine.travel(timezone.now() + timedelta(days=after_days), tick=True):
        call_command("archive_audit", stdout=out)
    return out.getvalue()


def verified(*options: str) -> str:
    """Return the findings of `verify_audit`, or its last words if it found nothing."""
    out = StringIO()
    try:
        call_command("verify_audit", *options, stdout=out)
    except CommandError:
        assert out.getvalue()
    return out.getvalue()


def chain_of(mailbox: Mailbox) -> AuditChain:
    return AuditChain.objects.get(pk=mailbox.pk)


def numbers_of(mailbox: Mailbox) -> list[int]:
    """Return the numbers of the events in the database."""
    events = AuditEvent.objects.filter(chain=mailbox.pk).order_by("sequence")
    return list(events.values_list("sequence", flat=True))


def files_of(mailbox: Mailbox) -> list[Path]:
    return [part.path for part in archive.parts_of(mailbox.pk)]


def by_force(change: Callable[[], Any]) -> None:
    """Change the database without its guards, as an attacker with access to it."""
    with guards.lift_guards(connection):
        change()
