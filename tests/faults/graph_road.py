"""An approved mail on its way to Microsoft 365, and its draft there."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from accounts.infra import credentials
from accounts.models import Mailbox
from approvals.models import PendingAction, Preparation, Rest
from approvals.worker import maintenance
from tests.conftest import Api, Reviewer
from tests.support.servers.graph import GraphServer
from tests.support.servers.graph_store import Item
from tests.support.servers.sandbox import ADA, CHARLES, MIRA
from tests.support.work import work

HIDDEN = "hidden@copy.example"
PDF = b"%PDF-1.4\n" + bytes(range(256))
Tamper = Callable[[Item], object]


@pytest.fixture
def approved(api: Api, reviewer: Reviewer) -> PendingAction:
    """Return an action that a person has approved and no worker has claimed."""
    return approve(api, reviewer)


def approve(api: Api, reviewer: Reviewer, **changes: Any) -> PendingAction:
    action_id = api.propose(**{"to": [MIRA], "cc": [CHARLES], "bcc": [HIDDEN], **changes})
    assert reviewer.decide(action_id, "approve").status_code == 302
    return PendingAction.objects.get(pk=action_id)


def probe() -> None:
    """Make the next lookup due, and run it."""
    PendingAction.objects.filter(status="unknown").update(
        next_probe_at=timezone.now() - timedelta(seconds=1)
    )
    maintenance.reconcile()


def now_it_is_time() -> None:
    Rest.objects.update(until=timezone.now() - timedelta(seconds=1))
    PendingAction.objects.filter(status="approved").update(
        not_before=timezone.now() - timedelta(seconds=1)
    )
    Preparation.objects.update(tidy_at=timezone.now() - timedelta(seconds=1))


def created(graph: GraphServer) -> int:
    return sum(hit.action == "create" for hit in graph.hits)


def expire(mailbox: Mailbox) -> None:
    record = credentials.encrypt(
        {**secrets_of(mailbox), "expires_at": time.time() - 1}, mailbox_id=mailbox.pk
    )
    Mailbox.objects.filter(pk=mailbox.pk).update(credentials=record)


def secrets_of(mailbox: Mailbox) -> credentials.Secrets:
    return credentials.decrypt(
        bytes(Mailbox.objects.get(pk=mailbox.pk).credentials), mailbox_id=mailbox.pk
    )


def throttled_with_a_draft(graph: GraphServer) -> Item:
    """Prepare the draft in a first attempt that was throttled, and return it."""
    graph.fault("answer", status=429, code="ApplicationThrottled", Retry_After="1")
    work()
    now_it_is_time()
    return graph.drafts(ADA)[0]
