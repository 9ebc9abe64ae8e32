"""Rules for every queue: a mail is sent once, a lost or doubled notification costs nothing, SIGTERM
lets work finish.
"""

import os
import signal
from typing import Any
from uuid import uuid4

import pytest
from redis import Redis as RedisClient
from rq import Queue
from rq.serializers import JSONSerializer

from approvals.core.queue import queue
from approvals.models import Attempt, PendingAction
from tests.approvals.queues.conftest import COMMANDS, Site, asked_to_end
from tests.support.processes.proc import proc
from tests.support.processes.programs import session_of, until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process, pytest.mark.sqlite_only]

SLOWEST = ("celery-solo", "rq-resident")
every_kind = pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.long] * (kind in SLOWEST)) for kind in COMMANDS]
)
# The same code of ours runs with another broker's library: one long run per test run is enough.
celery_in_the_end = pytest.param("celery", marks=pytest.mark.long)
with_a_server = pytest.mark.parametrize("kind", ["rq", celery_in_the_end])


@pytest.mark.fault(19)
@every_kind
def test_mail_leaves_once_despite_many_notifications(site: Site) -> None:
    assert (site.ready().status_code, site.ready().json()["missing"]) == (503, ["worker"])
    worker = site.worker()
    assert (site.ready().status_code, site.ready().json()["missing"]) == (200, [])

    hold = site.smtp.hold(at="dot")
    first = site.approved("First")
    hold.wait()
    double(site, first)
    hold.release()
    site.reaches(first, "succeeded")
    double(site, first)
    second = site.reaches(site.approved("Second"), "succeeded")  # queued after all the duplicates

    assert site.sent() == [first.message_id, second.message_id]
    assert [attempt.verdict for attempt in Attempt.objects.all()] == ["accepted", "accepted"]
    assert asked_to_end(worker) == 0
    assert site.ready().json()["missing"] == ["worker"]
    assert "Traceback" not in site.log()
    if site.kind.startswith("rq"):
        redis = RedisClient.from_url(str(site.environment["REDIS_URL"]))
        assert [
            list(redis.scan_iter(f"rq:{kind}*")) for kind in ("job", "result", "failed", "finished")
        ] == [[]] * 4


def double(site: Site, action: PendingAction) -> None:
    """Notify three more times, bypassing the check for a waiting job."""
    for _ in range(3):
        if site.kind.startswith("rq"):
            redis = RedisClient.from_url(str(site.environment["REDIS_URL"]))
            jobs = Queue("default", connection=redis, serializer=JSONSerializer)
            jobs.enqueue(
                "approvals.queues.rq.carry_out", str(action.pk), job_id=uuid4().hex, result_ttl=0
            )
        else:
            queue().notify(action.pk)


@pytest.mark.fault(20)
@with_a_server
def test_lost_notification_costs_only_a_wait_for_a_sweep(site: Site, keys: Any) -> None:
    flushed = site.approved("Flushed")
    assert keys.keys()
    keys.flushall()
    site.worker()
    site.reaches(flushed, "succeeded")

    assert site.server is not None
    site.server.stop()
    assert site.ready().json()["missing"] == ["queue"]
    unheard = site.approved("Unheard")
    site.server.start()

    site.reaches(unheard, "succeeded")
    assert site.sent() == [flushed.message_id, unheard.message_id]


@pytest.mark.fault(20)
@with_a_server
def test_broker_restart_during_a_send_ends_no_worker(site: Site) -> None:
    worker = site.worker()
    assert site.server is not None
    hold = site.smtp.hold(at="dot")
    action = site.approved("Under way")
    hold.wait()
    site.server.stop()
    site.server.start()
    hold.release()
    site.reaches(action, "succeeded")

    later = site.reaches(site.approved("Later"), "succeeded")

    assert site.sent() == [action.message_id, later.message_id]
    assert asked_to_end(worker) == 0


@pytest.mark.fault(28)
@with_a_server
def test_sigterm_during_a_send_lets_it_finish(site: Site) -> None:
    worker = site.worker()
    hold = site.smtp.hold(at="dot")
    action = site.approved()
    hold.wait()
    assert worker.process is not None
    worker.process.send_signal(signal.SIGTERM)
    # A service manager signals the whole process group; the process that sends must ignore it.
    others = [
        pid
        for pid, line in session_of(worker.pid).items()
        if pid != worker.pid and site.kind == "rq"
    ]
    for pid in others:
        os.kill(pid, signal.SIGTERM)
    until(lambda: not waits(worker.pid, *others))
    hold.release()

    assert worker.wait() == 0
    site.reaches(action, "succeeded")
    assert site.sent() == [action.message_id]


def waits(*pids: int) -> bool:
    """Return True if one of these processes has a pending SIGTERM."""
    for pid in pids:
        status = proc(pid, "status")
        if status.exists():
            pending = next(
                line for line in status.read_text().splitlines() if line.startswith("ShdPnd:")
            )
            if int(pending.split()[1], 16) & (1 << (signal.SIGTERM - 1)):
                return True
    return False


@pytest.mark.fault(25)
@pytest.mark.parametrize("kind", ["rq"])
def test_killing_only_the_parent_leaves_one_mail(site: Site, keys: Any) -> None:
    worker = site.worker()
    hold = site.smtp.hold(at="dot")
    action = site.approved()
    hold.wait()
    assert worker.process is not None
    worker.process.kill()
    worker.process.wait(10)
    other = site.worker()
    # The work-horse lives, and so does its lease: the other worker takes the job and does not send
    # the mail.
    queue().notify(action.pk)
    until(lambda: not keys.exists(f"rq:job:{action.pk}"), say=other.log)
    hold.release()

    site.reaches(action, "succeeded")
    assert site.sent().count(action.message_id) == 1
    assert Attempt.objects.filter(action=action).count() == 1
    until(lambda: not session_of(worker.pid), say=lambda: f"left behind: {session_of(worker.pid)}")
    assert asked_to_end(other) == 0


@pytest.mark.fault(56)
@with_a_server
def test_broker_holds_only_the_id_of_a_mail(site: Site, keys: Any) -> None:
    action = site.approved("canary-subject", body="canary-body")

    held = everything(keys)
    assert str(action.pk) in held
    for secret in (
        "canary",
        "northwind",
        action.message_id,
        action.digest,
        str(site.environment["SECRET_KEY"]),
    ):
        assert secret not in held


@pytest.mark.parametrize("kind", ["rq"])
def test_pending_notification_is_not_repeated(site: Site, keys: Any) -> None:
    action = site.approved()
    for _ in range(5):
        queue().notify(action.pk)
    assert keys.lrange("rq:queue:default", 0, -1) == [str(action.pk)]


def everything(keys: Any) -> str:
    """Return all content of a Redis as text."""
    read = {
        "string": keys.get,
        "hash": keys.hgetall,
        "set": keys.smembers,
        "list": lambda key: keys.lrange(key, 0, -1),
        "zset": lambda key: keys.zrange(key, 0, -1),
    }
    return "\n".join(f"{key} {read[keys.type(key)](key)}" for key in keys.scan_iter())
