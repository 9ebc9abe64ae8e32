"""A database that is older than its archive, or went on with other events."""

import gzip
import json
import os

import pytest
from django.core.management import CommandError, call_command

from accounts.models import Mailbox
from approvals.audit import anchors, archive
from approvals.models import AuditChain, AuditEvent
from tests.approvals.audit_archive import (
    FINE,
    archive_now,
    archived,
    by_force,
    files_of,
    home,
    notified,
    numbers_of,
    say,
    verified,
)

__all__ = ["home"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


def test_restored_database_uses_the_archive_that_is_there(mailbox: Mailbox) -> None:
    say(mailbox, 4)
    archived()
    (path,) = files_of(mailbox)
    kept = path.read_bytes()
    put_back(mailbox, kept)
    assert numbers_of(mailbox) == [1, 2, 3, 4]
    assert FINE in verified("--archive")
    os.utime(path, (0, 0))
    assert "3 events" in archive_now()
    assert (path.read_bytes(), path.stat().st_mtime) == (kept, 0)
    assert numbers_of(mailbox) == [4]


def test_archive_of_another_history_is_not_overwritten(mailbox: Mailbox) -> None:
    say(mailbox, 4)
    archived()
    (path,) = files_of(mailbox)
    kept = path.read_bytes()
    by_force(lambda: (AuditEvent.objects.all().delete(), AuditChain.objects.all().delete()))
    say(mailbox, 4)
    anchors.begin_another()
    with pytest.raises(CommandError, match="1 chains could not be archived"):
        archive_now()
    assert (path.read_bytes(), numbers_of(mailbox)) == (kept, [1, 2, 3, 4])
    lost = path.rename(path.with_suffix(".lost"))
    archive_now()
    assert numbers_of(mailbox) == [4]
    lost.rename(path)
    assert "event 3 rewritten: the archive ends with another event" in verified("--archive")


def test_archive_goes_on_after_a_restore(mailbox: Mailbox) -> None:
    say(mailbox, 4)
    archived()
    put_back(mailbox, files_of(mailbox)[0].read_bytes())
    call_command("after_restore", force=True, yes=True, verbosity=0)
    assert FINE in verified("--archive")
    say(mailbox, 2)
    archived()
    assert numbers_of(mailbox) == [6]
    assert [(part.first, part.last) for part in archive.parts_of(mailbox.pk)] == [(1, 3), (4, 5)]
    assert FINE in verified("--archive")


def put_back(mailbox: Mailbox, content: bytes) -> None:
    """Put archived events back into the database, as a backup from before does."""

    def restore() -> None:
        AuditChain.objects.filter(pk=mailbox.pk).update(
            archived=0, archived_hash="0" * 64, archived_seal=""
        )
        for line in gzip.decompress(content).splitlines():
            row = json.loads(line)
            names = ("sequence", "at", "event", "actor", "data", "previous", "hash")
            AuditEvent.objects.create(
                chain_id=mailbox.pk, mailbox=mailbox, **{name: row[name] for name in names}
            )

    by_force(restore)
    notified()
