"""The audit page as a person reads, exports and verifies it."""

import json
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from accounts.models import Mailbox, User
from approvals import guards
from approvals.audit import chain
from approvals.models import PendingAction
from tests.support.people.browser import browser
from tests.support.work import work


@pytest.fixture(autouse=True)
def own_heads(settings: Any, tmp_path: Path) -> None:
    """Give each test its own file of heads, because the file belongs to one database."""
    settings.MAILHUB_HOME = tmp_path


def by_force(change: Callable[[], Any]) -> None:
    """Change the database without its guards, as an attacker with access to it."""
    with guards.lift_guards(connection):
        change()


@pytest.fixture
def sent(approved: Callable[..., PendingAction]) -> PendingAction:
    """Return a sent action: created, approved, claimed, outcome_accepted are in its chain."""
    action = approved()
    work()
    return action


def page(person: User | Client, query: str = "") -> str:
    client = person if isinstance(person, Client) else browser(person)
    answer = client.get(f"/audit/{query}")
    assert answer.status_code == 200, (query, answer.status_code)
    return unescape(answer.content.decode())


def numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r">#(\d+)</td>", text)]


def exported(person: User, query: str = "") -> list[dict[str, Any]]:
    """Return the rows of the export as JSON Lines."""
    answer = browser(person).get(f"/audit/export/?format=jsonl&{query}")
    assert answer.status_code == 200
    return [json.loads(line) for line in b"".join(answer).decode().splitlines()]


def verified(person: User) -> str:
    answer = browser(person).post("/audit/verify/")
    assert answer.status_code == 200
    return re.sub(
        r"\s+", " ", unescape(re.sub("<[^>]+>", "", answer.content.decode().partition("<main")[2]))
    )


def many(mailbox: Mailbox | None, count: int, event: str = "paused") -> None:
    for _ in range(count):
        chain.record(mailbox=mailbox, event=event, actor="command")
