"""Old events leave the database only through the archive, and every other way is noticed."""

import gzip
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
import time_machine
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction
from django.utils import timezone

from accounts.models import Mailbox
from approvals.audit import anchors, beginnings, chain, proof
from approvals.models import (
    Attempt,
    AuditChain,
    AuditEvent,
    Decision,
    NotificationCursor,
    PendingAction,
    WebhookDelivery,
)
from approvals.worker import retention_chore
from tests.approvals.audit_archive import (
    FINE,
    archive_now,
    archived,
    by_force,
    chain_of,
    files_of,
    home,
    notified,
    numbers_of,
    say,
    sent,
    verified,
)
from tests.approvals.webhook_listener import Listener, httpserver, listener, told
from tests.conftest import Api, Reviewer

__all__ = ["home", "httpserver", "listener", "sent"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


def refused(change: Callable[[], Any]) -> str:
    with pytest.raises(IntegrityError) as error, transaction.atomic():
        change()
    return str(error.value)


def test_old_events_go_to_a_file_and_the_tail_stays(sent: PendingAction, mailbox: Mailbox) -> None:
    events = list(AuditEvent.objects.filter(chain=mailbox.pk).order_by("sequence"))
    say(mailbox)
    assert "4 events" in archived()

    assert numbers_of(mailbox) == [5]
    (path,) = files_of(mailbox)
    assert path.name == f"{timezone.now():%Y-%m}.000000000001-000000000004.jsonl.gz"
    assert path.stat().st_mode & 0o077 == 0
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    assert [line["hash"] for line in lines] == [event.hash for event in events]
    assert lines[1]["previous"] == lines[0]["hash"]
    assert [line["event"] for line in lines] == [event.event for event in events]
    assert chain_of(mailbox).archived_hash == events[-1].hash
    for options in ([], ["--archive"], ["--continue"]):
        assert FINE in verified(*options)
    assert "4 older events are in the archive" in verified()
    assert verified("--archive").startswith("5 events")
    say(mailbox, 2)
    assert numbers_of(mailbox) == [5, 6, 7]
    assert FINE in verified("--archive")


def test_nothing_is_removed_unless_it_is_wanted(
    sent: PendingAction, mailbox: Mailbox, settings: Any
) -> None:
    say(mailbox)
    settings.MAILHUB_AUDIT_RETENTION_DAYS = 0
    assert "is 0" in archived()
    assert len(numbers_of(mailbox)) == 5
    assert files_of(mailbox) == []


def test_whole_months_go_and_each_has_its_file(mailbox: Mailbox) -> None:
    with time_machine.travel("2025-01-31T23:00Z"):
        say(mailbox, 2)
    with time_machine.travel("2025-02-01T01:00Z"):
        say(mailbox, 3)
    with time_machine.travel("2025-03-01T01:00Z"):
        say(mailbox, 2)
    call_command("verify_audit", verbosity=0)
    with time_machine.travel("2025-04-09T00:00Z"):  # forty days before: the 28th of February
        call_command("archive_audit", verbosity=0)
    assert numbers_of(mailbox) == [3, 4, 5, 6, 7]
    with time_machine.travel("2025-04-11T00:00Z"):
        call_command("archive_audit", verbosity=0)
    assert numbers_of(mailbox) == [6, 7]
    assert [path.name[:7] for path in files_of(mailbox)] == ["2025-01", "2025-02"]
    assert verified("--archive").startswith("7 events")


def test_events_of_an_open_action_stay(api: Api, reviewer: Reviewer, mailbox: Mailbox) -> None:
    say(mailbox, 2)
    open_ = api.propose()
    say(mailbox)
    told = archived()
    assert "an action that is not finished has event 3" in told
    assert numbers_of(mailbox) == [3, 4]
    reviewer.decide(open_, "reject")
    say(mailbox)
    archived()
    assert numbers_of(mailbox) == [6]
    assert len(files_of(mailbox)) == 2
    assert FINE in verified("--archive")


def test_event_that_notifications_have_not_read_stays(mailbox: Mailbox) -> None:
    say(mailbox, 4)
    read = AuditEvent.objects.get(chain=mailbox.pk, sequence=2).pk
    NotificationCursor.objects.update(event=read)
    assert "notifications of event 3" in archived()
    assert numbers_of(mailbox) == [3, 4]


def test_event_beyond_the_last_anchor_stays(mailbox: Mailbox) -> None:
    say(mailbox, 3)
    anchors.anchor()
    say(mailbox, 3)
    archive_now()
    assert numbers_of(mailbox) == [4, 5, 6]


def test_event_that_a_webhook_needs_stays(
    sent: PendingAction, api: Api, mailbox: Mailbox, listener: Listener
) -> None:
    listener.added(api)
    waiting = api.propose()
    api.post(f"/actions/{waiting}/cancel")
    say(mailbox)
    after = AuditEvent.objects.get(chain=mailbox.pk, event="webhook_added").sequence
    assert f"a webhook still needs event {after}." in archived()  # it has taken none so far
    told()
    proposed = AuditEvent.objects.get(action_id=waiting, event="created").sequence
    assert f"a webhook still needs event {proposed}." in archived()  # it can be sent again
    WebhookDelivery.objects.all().delete()
    archived()
    assert numbers_of(mailbox) == [proposed + 2]


def test_event_that_proves_an_unsigned_decision_stays(
    sent: PendingAction, mailbox: Mailbox
) -> None:
    say(mailbox)
    by_force(lambda: Decision.objects.update(seal=""))
    assert "event 2 proves a decision of an older version" in archived()
    assert numbers_of(mailbox) == [2, 3, 4, 5]
    assert FINE in verified()


def test_chain_that_does_not_verify_stays(mailbox: Mailbox) -> None:
    say(mailbox, 4)
    anchors.anchor()
    by_force(lambda: AuditEvent.objects.filter(sequence=2).update(actor="user:1"))
    with pytest.raises(CommandError):
        archive_now()
    assert numbers_of(mailbox) == [1, 2, 3, 4]
    assert files_of(mailbox) == []


def test_claim_after_an_archived_approval_is_no_finding(mailbox: Mailbox) -> None:
    events: dict[str, dict[str, Any]] = {
        "created": {},
        "approved": {"given": 1, "needed": 1},
        "claimed": {"fence": 1},
    }
    action = uuid4()
    for month, (event, data) in enumerate(events.items(), start=1):
        with time_machine.travel(f"2025-{month}-15T12:00Z"):
            chain.record(mailbox=mailbox, event=event, actor="worker", action_id=action, **data)
    notified()
    call_command("verify_audit", verbosity=0)
    with time_machine.travel("2025-05-01T00:00Z"):
        call_command("archive_audit", verbosity=0)
    assert numbers_of(mailbox) == [3]
    assert FINE in verified()
    assert FINE in verified("--archive")


def test_sweep_archives_and_continues_in_the_next(mailbox: Mailbox) -> None:
    say(mailbox, 3)
    say(None, 3)
    anchors.anchor()
    retention_chore._began.clear()
    with time_machine.travel(timezone.now() + timedelta(days=100), tick=True):
        call_command("maintain", verbosity=0)
        call_command("maintain", verbosity=0)
    assert [row.archived for row in AuditChain.objects.all()] == [2, 2]
    assert numbers_of(mailbox) == [3]


def test_database_refuses_to_remove_events(sent: PendingAction, mailbox: Mailbox) -> None:
    row = AuditChain.objects.filter(pk=mailbox.pk)
    events = AuditEvent.objects.filter(chain=mailbox.pk)
    hashes = dict(events.values_list("sequence", "hash"))
    assert "auditevent_archived_first" in refused(lambda: events.filter(sequence=1).delete())
    to = {"archived": 2, "archived_hash": hashes[2], "archived_seal": "1" * 64}
    forward = "auditchain_archived_forward"
    assert forward in refused(lambda: row.update(**to | {"archived": 9}))
    end = {"archived": len(hashes), "archived_hash": hashes[len(hashes)]}
    assert forward in refused(lambda: row.update(**to | end))
    assert forward in refused(lambda: row.update(**to, length=len(hashes) + 1))
    assert forward in refused(lambda: row.update(**to, head="0" * 64))
    assert forward in refused(lambda: row.update(archived_seal="0" * 64))
    row.update(archived=1, archived_hash="9" * 64, archived_seal="1" * 64)
    assert "auditevent_archived_first" in refused(lambda: events.filter(sequence=1).delete())
    row.update(**to)  # the guards do not know the key; verify_audit does
    assert forward in refused(lambda: row.update(archived=1, archived_hash=hashes[1]))
    assert forward in refused(lambda: row.update(archived=0, archived_hash="0" * 64))
    assert "auditevent_archived_first" in refused(lambda: events.filter(sequence=3).delete())
    assert "auditchain_grows" in refused(lambda: row.update(length=1))


def test_events_removed_without_the_key_are_noticed(sent: PendingAction, mailbox: Mailbox) -> None:
    say(mailbox)
    call_command("verify_audit", verbosity=0)
    second = AuditEvent.objects.get(chain=mailbox.pk, sequence=2)
    row = AuditChain.objects.filter(pk=mailbox.pk)
    row.update(archived=2, archived_hash=second.hash, archived_seal="0" * 64)
    AuditEvent.objects.filter(chain=mailbox.pk, sequence__lte=2).delete()
    assert "event 2 removed: mailhub did not archive all events up to here" in verified()
    assert "event 2 removed" in verified("--continue")
    assert "event 1 removed: the archive has no events 1 to 2" in verified("--archive")
    assert [found.wrong for found in proof.compare_with_anchors()] == ["removed"]
    with pytest.raises(CommandError, match="1 chains could not be archived"):
        archive_now()


def test_events_that_another_home_removed_are_noticed(
    mailbox: Mailbox,
) -> None:
    say(mailbox, 3)
    archived()
    remove_with_the_key(mailbox)
    assert "event 4 removed" in verified()
    assert "event 4 removed" in verified("--continue")
    anchors.heads_file().unlink()  # another home has no lines of the archive
    assert FINE in verified()


def test_new_file_of_anchors_knows_the_archive(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(mailbox, 3)
    archived()
    earlier = anchors.heads_file()
    monkeypatch.setattr(anchors, "FULL_BYTES", 0)
    monkeypatch.setattr(anchors, "BYTES_A_CHAIN", 1)
    assert FINE in verified()
    assert anchors.heads_file() != earlier
    remove_with_the_key(mailbox)
    assert "event 4 removed" in verified("--continue")


def remove_with_the_key(mailbox: Mailbox) -> None:
    """Add events and remove the first ones without an archive, as somebody with the key can."""
    say(mailbox, 3)
    last = AuditEvent.objects.get(chain=mailbox.pk, sequence=4)
    seal = beginnings.sign(mailbox.pk, 4, last.hash)
    AuditChain.objects.filter(pk=mailbox.pk).update(
        archived=4, archived_hash=last.hash, archived_seal=seal
    )
    AuditEvent.objects.filter(chain=mailbox.pk, sequence__lte=4).delete()


def test_point_moved_back_by_force_is_noticed(mailbox: Mailbox) -> None:
    say(mailbox, 4)
    archived()
    row = AuditChain.objects.filter(pk=mailbox.pk)
    by_force(lambda: row.update(archived=0, archived_hash="0" * 64, archived_seal=""))
    assert "event 1 removed: 3 events are missing" in verified()


def test_event_added_before_the_point_is_noticed(mailbox: Mailbox) -> None:
    say(mailbox, 3)
    archived()
    AuditEvent.objects.create(
        chain_id=mailbox.pk, mailbox=mailbox, sequence=1, at=timezone.now(), event="paused",
        actor="command", previous="0" * 64, hash="1" * 64,
    )  # fmt: skip
    assert "event 1 altered: this event is in the archive, and again in the database" in verified()


@pytest.mark.parametrize(
    ("damage", "finding"),
    [
        ("changed", "event 2 altered: it does not match its hash ("),
        ("cut", "altered: the archive file "),
        ("emptied", "event 1 removed: the archive has no events 1 to 3"),
        ("removed", "event 1 removed: the archive has no events 1 to 3"),
        ("line removed", "event 2 removed: 1 event is missing ("),
        ("of another chain", "altered: the archive file "),
    ],
)
def test_damaged_archive_is_named(mailbox: Mailbox, damage: str, finding: str) -> None:
    say(mailbox, 4)
    archived()
    (path,) = files_of(mailbox)
    lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    if damage == "changed":
        lines[1] = lines[1].replace(b'"command"', b'"user:1"')
        path.write_bytes(gzip.compress(b"".join(lines)))
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:-20])
    elif damage == "emptied":
        path.write_bytes(gzip.compress(b""))
    elif damage == "removed":
        path.unlink()
    elif damage == "line removed":
        path.write_bytes(gzip.compress(lines[0] + lines[2]))
    else:
        other = lines[0].replace(str(mailbox.pk).encode(), b"0" * 8 + str(mailbox.pk)[8:].encode())
        path.write_bytes(gzip.compress(other))
    told = verified("--archive")
    assert finding in told
    assert damage in ("removed", "emptied") or path.name in told
    assert FINE in verified()  # the database itself is as it was


def test_attempt_whose_claim_is_archived_is_no_finding(
    sent: PendingAction, mailbox: Mailbox
) -> None:
    say(mailbox)
    archived()
    assert not AuditEvent.objects.filter(event="claimed").exists()
    assert FINE in verified()
    by_force(lambda: Attempt.objects.update(claim_seal="0" * 64))
    assert "was not claimed by a worker" in verified()
