"""A process that archives audit events is killed, and the next one finishes its work."""

import gzip
from pathlib import Path

import pytest
from django.db import transaction
from django.db.models import F

from accounts.models import Mailbox
from approvals.audit import anchors, archive
from approvals.audit.retention import SLICE
from approvals.models import AuditChain, AuditEvent, NotificationCursor
from tests.approvals.audit_archive import (
    DAYS,
    archive_now,
    chain_of,
    files_of,
    home,
    numbers_of,
    say,
    verified,
)
from tests.support.processes.programs import Program, this_test, until

__all__ = ["home"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


class Archiving(Program):
    """`manage.py archive_audit`, which the test kills."""

    def __init__(self, home: Path) -> None:
        super().__init__(home, "archive_audit", MAILHUB_AUDIT_RETENTION_DAYS=DAYS, **this_test())


def test_process_killed_before_the_removal_loses_nothing(mailbox: Mailbox, home: Path) -> None:
    say(mailbox, 9, days_ago=100)
    anchors.anchor()
    leave_half_a_file(mailbox)
    with transaction.atomic():
        hold(mailbox)
        with Archiving(home) as killed:
            until(lambda: anchors.Reader().archived(), say=killed.log)
            killed.kill()
    assert (numbers_of(mailbox), chain_of(mailbox).archived) == ([*range(1, 10)], 0)
    (path,) = files_of(mailbox)
    kept = path.read_bytes()

    assert "8 events" in archive_now(after_days=0)

    assert (numbers_of(mailbox), chain_of(mailbox).archived) == ([9], 8)
    assert [part.read_bytes() for part in files_of(mailbox)] == [kept]
    assert len(gzip.decompress(kept).splitlines()) == 8
    assert verified("--archive").startswith("9 events")


@pytest.mark.postgres_only
def test_process_killed_between_two_slices_loses_nothing(mailbox: Mailbox, home: Path) -> None:
    last = SLICE + 20
    say(mailbox, last, days_ago=100)
    anchors.anchor()
    with transaction.atomic():
        list(AuditEvent.objects.select_for_update().filter(sequence=SLICE + 5))
        with Archiving(home) as killed:
            until(lambda: chain_of(mailbox).archived == SLICE, say=killed.log)
            killed.kill()
    assert numbers_of(mailbox) == [*range(SLICE + 1, last + 1)]
    say(mailbox, days_ago=100)
    anchors.anchor()

    assert archive_now(after_days=0).count(" events\n") == 2  # the rest of the file, and a new one

    assert numbers_of(mailbox) == [last + 1]
    assert [(part.first, part.last) for part in archive.parts_of(mailbox.pk)] == [
        (1, last - 1),
        (last, last),
    ]
    assert verified("--archive").startswith(f"{last + 1} events")


def hold(mailbox: Mailbox) -> None:
    """Let nobody else change the chain: one row on PostgreSQL, the whole database on SQLite."""
    AuditChain.objects.select_for_update().get(pk=mailbox.pk)
    NotificationCursor.objects.update(event=F("event"))


def leave_half_a_file(mailbox: Mailbox) -> None:
    folder = archive.archive_folder() / str(mailbox.pk)
    folder.mkdir(parents=True)
    at = AuditEvent.objects.order_by("sequence")[0].at
    name = f"{at:%Y-%m}.000000000001-000000000008.jsonl.gz.unfinished"
    (folder / name).write_bytes(b"half of a file")
