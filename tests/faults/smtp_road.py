"""An approved mail on its way through an SMTP server that fails."""

from collections.abc import Callable
from datetime import timedelta
from email import message_from_bytes, policy
from typing import Any

import pytest
from django.utils import timezone

from approvals.models import PendingAction, Rest
from tests.conftest import Api, Reviewer
from tests.faults.conftest import World
from tests.support.servers.sandbox import CHARLES, MIRA
from tests.support.servers.smtp import FaultySmtp, Point

Plan = Callable[[FaultySmtp], object]


@pytest.fixture(autouse=True)
def _no_long_silence(settings: Any) -> None:
    settings.MAILHUB_WIRE_TIMEOUT_SECONDS = 2


@pytest.fixture
def approved(api: Api, reviewer: Reviewer) -> str:
    """Return an action that a person has approved and no worker has claimed."""
    action_id = api.propose(to=[MIRA], cc=[CHARLES], bcc=["hidden@copy.example"])
    assert reviewer.decide(action_id, "approve").status_code == 302
    return action_id


def state(api: Api, action_id: str) -> tuple[str, str | None]:
    """Return the state as the proposer sees it, and the code of its error."""
    action = api.get(f"/actions/{action_id}").json()
    return action["state"], action.get("error", {}).get("code")


def now_it_is_time(*fields: str) -> None:
    """End waiting times by changing the rows: the named ones, or all."""
    past = timezone.now() - timedelta(seconds=1)
    Rest.objects.update(until=timezone.now() - timedelta(seconds=1))
    for field in fields or ("not_before", "next_probe_at", "settle_at"):
        PendingAction.objects.exclude(**{field: None}).update(**{field: past})


def message_ids(world: World) -> list[str]:
    return [message_id_of(accepted.content) for accepted in world.smtp.ledger]


def message_id_of(source: bytes) -> str:
    return str(message_from_bytes(source, policy=policy.default)["Message-ID"])


def drop(at: Point) -> Plan:
    return lambda smtp: smtp.drop(at=at)


def reply(answer: str, at: Point, *, recipient: str | None = None) -> Plan:
    return lambda smtp: smtp.reply(answer, at=at, recipient=recipient)
