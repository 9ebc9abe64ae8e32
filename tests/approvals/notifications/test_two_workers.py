"""Real workers share the outbox, one is killed at its worst moment, and nobody is notified twice."""

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from accounts.models import User
from approvals.models import Notification, NotificationChannel
from tests.approvals.notifications.conftest import Post, prove
from tests.conftest import Api
from tests.support.processes.programs import SECONDS, WorkerProcess, this_test, until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]


def test_nobody_is_notified_twice_when_a_worker_dies(
    post: Post, api: Api, alice: User, bob: User, tmp_path: Path
) -> None:
    prove(alice, bob)
    changes = {
        **this_test(),
        "EMAIL_URL": f"smtp://127.0.0.1:{post.server.port}",
        "MAILHUB_NOTIFICATION_WAIT_SECONDS": 0,
    }
    homes = [tmp_path / name for name in ("first", "second", "third")]
    for home in homes:
        home.mkdir()
    # The mail is taken, and its answer is held back until the worker that waits for it is dead.
    taken = post.server.hold(at="accepted")
    taken.seconds = SECONDS
    actions = [api.propose(subject=f"Number {n}") for n in range(3)]
    with WorkerProcess(homes[0], **changes) as first:
        until(lambda: post.server.ledger, say=first.log)
        with WorkerProcess(homes[1], **changes) as second:
            actions += [api.propose(subject=f"Later {n}") for n in range(3)]
            first.kill_9()
            taken.release()
            until(lambda: rows(state="sent") >= 3, say=second.log)
            # As if the time had passed that a worker has for a channel.
            past = timezone.now() - timedelta(seconds=1)
            Notification.objects.filter(state="sending").update(due_at=past)
            NotificationChannel.objects.exclude(busy_until=None).update(busy_until=past)
            with WorkerProcess(homes[2], **changes):
                until(lambda: rows() == len(actions) * 2, say=second.log)
                until(lambda: rows(state="waiting") + rows(state="sending") == 0, say=second.log)
            assert second.end() == 0

    assert 1 <= rows(state="unknown", code="worker_lost") <= len(actions)
    named = Counter(
        (accepted.recipients, action)
        for accepted in post.server.ledger
        for action in actions
        if action.encode() in accepted.content.replace(b"=\r\n", b"")
    )
    assert set(named.values()) == {1}
    assert len(named) == len(actions) * 2


def rows(**what: Any) -> int:
    return Notification.objects.filter(**what).count()
