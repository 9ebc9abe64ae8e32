"""An approved mail on its way to Gmail, and failures on this way."""

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
from tests.support.people.gmail import ADA
from tests.support.servers.gmail import GmailServer
from tests.support.work import work

Plan = Callable[[GmailServer], object]
MIRA, CHARLES, HIDDEN = "mira@northwind.example", "charles@lovelace.example", "hidden@copy.example"
COMPOSE = "https://www.googleapis.com/auth/gmail.compose"


@pytest.fixture(
    params=["replaced", *(pytest.param(name, marks=pytest.mark.long) for name in ("noted", "kept"))]
)
def naming(request: pytest.FixtureRequest, gmail: GmailServer) -> None:
    """Run the test with every treatment of the Message-ID, because Gmail decides about it.

    The server keeps it in all tests without this fixture.
    """
    gmail.message_ids = request.param


@pytest.fixture
def approved(api: Api, reviewer: Reviewer) -> PendingAction:
    """Return an action that a person has approved and no worker has claimed."""
    return approve(api, reviewer, to=[MIRA], cc=[CHARLES], bcc=[HIDDEN])


def approve(api: Api, reviewer: Reviewer, **changes: Any) -> PendingAction:
    action_id = api.propose(**changes)
    assert reviewer.decide(action_id, "approve").status_code == 302
    return PendingAction.objects.get(pk=action_id)


def state(api: Api, action: PendingAction) -> tuple[str, str | None]:
    """Return the state as the proposer sees it, and the code of its error."""
    told = api.get(f"/actions/{action.pk}").json()
    return told["state"], told.get("error", {}).get("code")


def now_it_is_time() -> None:
    """End all waiting times, by changing the rows."""
    past = timezone.now() - timedelta(seconds=1)
    Rest.objects.update(until=timezone.now() - timedelta(seconds=1))
    Preparation.objects.filter(tidy_at__isnull=False).update(tidy_at=past)
    for field in ("not_before", "next_probe_at", "settle_at"):
        PendingAction.objects.exclude(**{field: None}).update(**{field: past})


def look_again() -> None:
    now_it_is_time()
    maintenance.sweep()
    work()


def drafts(server: GmailServer) -> list[str]:
    return list(server.box(ADA).drafts)


def drop(name: str, *, after: bool = False) -> Plan:
    return lambda server: server.drop(name, after=after)


def fail(name: str, status: int, reason: str = "", **more: Any) -> Plan:
    return lambda server: server.fail(name, status, reason, **more)


def expire_token(server: GmailServer) -> None:
    """Make the access token expire; the refresh token stays valid."""
    mailbox = Mailbox.objects.get()
    secrets = credentials.decrypt(bytes(mailbox.credentials), mailbox_id=mailbox.pk)
    record = credentials.encrypt({**secrets, "expires_at": 0}, mailbox_id=mailbox.pk)
    Mailbox.objects.update(credentials=record)
    server.forget_tokens()
