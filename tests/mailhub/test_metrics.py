"""/metrics, /readyz and /statusz: an operator sees the state of the server, and nothing about a person."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.core.cache import cache
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from accounts.models import Mailbox
from approvals.core import queue
from approvals.gate.execute import execute
from approvals.gate.pauses import restored, switch
from approvals.models import Heartbeat, PendingAction, Preparation
from approvals.queues import metrics
from approvals.worker import heartbeats
from tests.approvals.conftest import approve, script
from tests.approvals.kinds import Script
from tests.conftest import Api, Reviewer
from tests.support.servers.memory import MemoryServer
from tests.support.work import work
from tools.providers.base import Envelope

__all__ = ["script"]
pytestmark = pytest.mark.django_db(transaction=True)
TOKEN = "a token for those who watch"


def scrape(settings: Any, token: str = TOKEN) -> dict[tuple[str, str], float]:
    """Return the samples by name and the value of their one label."""
    settings.MAILHUB_METRICS_TOKEN = TOKEN
    answer = Client().get("/metrics", headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 200
    assert answer["Content-Type"].startswith("text/plain; version=")
    families = text_string_to_metric_families(answer.content.decode())
    return {
        (sample.name, next(iter(sample.labels.values()), "")): sample.value
        for family in families
        for sample in family.samples
    }


def test_metrics_are_off_without_a_token(settings: Any) -> None:
    settings.MAILHUB_METRICS_TOKEN = ""
    for headers in ({}, {"Authorization": "Bearer "}, {"Authorization": f"Bearer {TOKEN}"}):
        assert Client().get("/metrics", headers=headers).status_code == 404


@pytest.mark.parametrize(
    "given", ["", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer é"]
)
def test_metrics_ask_for_the_token(settings: Any, given: str) -> None:
    settings.MAILHUB_METRICS_TOKEN = TOKEN
    answer = Client().get("/metrics", headers={"Authorization": given})
    assert (answer.status_code, answer["WWW-Authenticate"], answer.content) == (401, "Bearer", b"")
    assert (
        Client().post("/metrics", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 405
    )


def test_api_token_does_not_open_metrics(settings: Any, api: Api) -> None:
    settings.MAILHUB_METRICS_TOKEN = TOKEN
    assert (
        Client().get("/metrics", headers={"Authorization": f"Bearer {api.secret}"}).status_code
        == 401
    )


def test_metrics_count_open_actions_and_attempt_results(
    settings: Any, api: Api, reviewer: Reviewer
) -> None:
    sent, old = api.propose(subject="Sent"), api.propose(subject="Old")
    api.propose(subject="New")
    reviewer.decide(sent, "approve")
    work()
    PendingAction.objects.filter(pk=UUID(old)).update(
        created_at=timezone.now() - timedelta(hours=1)
    )
    heartbeats.beat("somewhere:1")

    found = scrape(settings)

    assert found["mailhub_actions", "pending"] == 2
    assert found["mailhub_actions", "approved"] == found["mailhub_actions", "unknown"] == 0
    assert 3600 <= found["mailhub_oldest_action_age_seconds", "pending"] < 3700
    assert found["mailhub_oldest_action_age_seconds", "executing"] == 0
    assert found["mailhub_attempts_total", "accepted"] == 1
    assert found["mailhub_attempts_total", "unknown"] == 0
    assert found["mailhub_workers", ""] == 1
    assert 0 <= found["mailhub_worker_heartbeat_age_seconds", ""] < 60


def test_scrape_counts_on_from_an_earlier_one(
    settings: Any, api: Api, reviewer: Reviewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "LATE", timedelta(0))
    monkeypatch.setattr(metrics, "KEPT_EVERY", 1)

    def send() -> float:
        reviewer.decide(api.propose(), "approve")
        work()
        return scrape(settings)["mailhub_attempts_total", "accepted"]

    assert (send(), send()) == (1, 2)
    kept = cache.get(metrics.COUNTED_ATTEMPTS)
    cache.set(metrics.COUNTED_ATTEMPTS, {**kept, "counts": {"accepted": 40}}, None)
    assert send() == 41  # the earlier ones were not counted again
    cache.set(metrics.COUNTED_ATTEMPTS, {"upto": 10**9, "counts": {"accepted": 40}}, None)
    assert send() == 4  # kept for another database


def test_unknown_action_ages_from_the_lost_answer(
    settings: Any, api: Api, reviewer: Reviewer, server: MemoryServer
) -> None:
    class Lost(list[Envelope]):
        def append(self, envelope: Envelope) -> None:
            raise ConnectionError

    server.ledger = Lost()
    reviewer.decide(api.propose(), "approve")
    work()
    assert PendingAction.objects.get().status == "unknown"

    found = scrape(settings)

    assert found["mailhub_actions", "unknown"] == 1
    assert 0 < found["mailhub_oldest_action_age_seconds", "unknown"] < 60


def test_metrics_name_nobody_and_use_constant_queries(
    settings: Any, api: Api, reviewer: Reviewer, django_assert_max_num_queries: Any
) -> None:
    action_id = api.propose(subject="canary", body="canary", to=["canary@northwind.example"])
    settings.MAILHUB_METRICS_TOKEN = TOKEN
    with django_assert_max_num_queries(30):
        text = (
            Client().get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"}).content.decode()
        )
    for secret in ("canary", "lovelace", action_id, TOKEN):
        assert secret not in text


def test_pages_stay_ready_whatever_keeps_mail_from_leaving(settings: Any, mailbox: Mailbox) -> None:
    answer = Client().get("/statusz")
    assert (answer.status_code, answer.json()["missing"]) == (503, ["worker"])
    heartbeats.beat("somewhere:1")
    answer = Client().get("/statusz")
    assert (answer.status_code, answer.json()["missing"], answer.json()["workers"]) == (200, [], 1)

    switch.pause(mailbox=None, actor="command")
    answer = Client().get("/statusz")  # a person's pause is no fault
    assert (answer.status_code, answer.json()["paused"]) == (200, "A person.")
    restored.pause_for("operator")
    heartbeats.forget()
    settings.MAILHUB_QUEUE, settings.REDIS_URL = "rq", "redis://127.0.0.1:1/0"  # nobody listens
    queue.queue.cache_clear()
    try:
        answer = Client().get("/statusz")
        assert answer.json()["missing"] == ["queue", "worker", "reconciled"]
        assert Client().get("/readyz").status_code == 200
        found = scrape(settings)
    finally:
        queue.queue.cache_clear()
    assert found["mailhub_part_ok", "worker"] == found["mailhub_part_ok", "reconciled"] == 0
    assert found["mailhub_part_ok", "sending"] == 1
    assert found["mailhub_pauses", "everything"] == 2


def test_full_disk_of_the_home_is_named(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heartbeats.beat("somewhere:1")
    real = os.statvfs(tmp_path)
    full = os.statvfs_result((*tuple(real)[:4], 0, *tuple(real)[5:]))
    monkeypatch.setattr(os, "statvfs", lambda _: full)
    answer = Client().get("/statusz")
    assert (answer.status_code, answer.json()["missing"]) == (503, ["home"])
    assert scrape(settings)["mailhub_home_free_bytes", ""] == 0


@pytest.mark.parametrize("work", ["lookup", "settle", "tidy"])
def test_statusz_fails_when_work_after_sends_is_not_done(
    settings: Any, api: Api, script: Script, work: str
) -> None:
    def lost(_: object) -> None:
        raise ConnectionError

    heartbeats.beat("somewhere:1")
    ago = timezone.now() - timedelta(hours=2)
    action = PendingAction.objects.get(pk=api.propose())
    if work == "tidy":
        Preparation.objects.create(action=action, digest="", notes={"a": "b"})
        Preparation.objects.update(tidy_at=ago)
    else:
        action = approve(action.pk, action.proposer)
        script.later = lost if work == "lookup" else script.later
        execute(action.pk, worker="test")
        column = {"lookup": "next_probe_at", "settle": "settle_at"}[work]
        PendingAction.objects.filter(pk=action.pk).update(**{column: ago})

    answer = Client().get("/statusz")
    assert (answer.status_code, answer.json()["missing"]) == (503, ["following_up"])
    assert 7200 <= scrape(settings)["mailhub_overdue_work_age_seconds", work] < 7300


def test_worker_that_is_silent_for_30_seconds_does_not_count() -> None:
    heartbeats.beat("somewhere:1")
    heartbeats.beat("somewhere:1")
    assert heartbeats.alive() == ["somewhere:1"]
    Heartbeat.objects.update(seen_at=timezone.now() - heartbeats.FRESH - timedelta(seconds=1))
    assert heartbeats.alive() == []


def test_old_workers_are_forgotten_when_a_new_one_starts() -> None:
    Heartbeat.objects.create(
        worker="old:1", seen_at=timezone.now() - heartbeats.FORGOTTEN - timedelta(seconds=1)
    )
    heartbeats.beat("new:1")
    assert list(Heartbeat.objects.values_list("worker", flat=True)) == ["new:1"]
