"""A mail server that says nothing keeps few threads, no database connection, and nobody else."""

import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest
from django.db import connection

from accounts.access import provider_calls
from accounts.connect.connecting import connect_mailbox
from accounts.models import Mailbox, Membership, Role, User
from approvals.models import PendingAction
from tests.conftest import HELLO, Api, Reviewer, make_api, make_mailbox, problem_of
from tests.support.people.browser import browser
from tests.support.processes.programs import until
from tests.support.servers.hostile import HostileImap
from tests.support.servers.memory import MemoryServer
from tools.providers.imap.sessions import POOL

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


@pytest.fixture
def silent() -> Iterator[HostileImap]:
    with HostileImap("silent") as server:
        yield server
    POOL.close_all()


def connected(person: User, server: HostileImap) -> Mailbox:
    address = f"127.0.0.1:{server.port}:plain"
    secrets = {"imap": address, "smtp": address, "username": "ada", "password": "secret"}
    return connect_mailbox(
        owner=person, address="quiet@lovelace.example", provider="imap", secrets=secrets,
        scopes=["read", "draft", "send"],
    )  # fmt: skip


def count_borrowed() -> int:
    """Return how many database connections the threads of this process hold, those of earlier tests
    included, and those that the pool is still opening.
    """
    if connection.vendor != "postgresql":
        return 1
    found = cast(Any, connection).pool.get_stats()
    return int(found["pool_size"] - found["pool_available"])


def test_silent_server_stops_nobody_else(
    alice: User,
    bob: User,
    silent: HostileImap,
    server: MemoryServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(provider_calls, "AT_ONCE", 4)
    quiet = connected(alice, silent)
    Membership.objects.create(user=bob, mailbox=quiet, role=Role.VIEWER)
    answering = make_mailbox("other@lovelace.example", server, alice, bob)
    mine, his = make_api(alice, quiet, answering), make_api(bob, quiet, answering)
    answers: list[tuple[int, str]] = []

    def read() -> None:
        try:
            answer = Api(secret=mine.secret).tool("list_emails", mailbox=quiet.address)
            answers.append((answer.status_code, answer.json()["code"]))
        finally:
            connection.close()

    threads = [threading.Thread(target=read) for _ in range(provider_calls.AT_ONCE)]
    before = count_borrowed()
    try:
        for thread in threads:
            thread.start()
        until(lambda: silent.connections == provider_calls.AT_ONCE)

        until(lambda: count_borrowed() <= before)
        for refused in (
            his.tool("list_emails", mailbox=quiet.address),  # the mailbox
            mine.tool("list_emails", mailbox=answering.address),  # the person
            mine.tool("send_email", mailbox=answering.address, **HELLO),
        ):
            assert problem_of(refused)["code"] == "transient"
            assert (refused.status_code, refused["Retry-After"]) == (503, "5")
        assert his.tool("list_emails", mailbox=answering.address).status_code == 200
        page = browser(alice).post("/mailboxes/connect/", {"address": "a@x.example"}, follow=True)
        assert b"Too many calls wait" in page.content
    finally:
        silent.cut()
        for thread in threads:
            thread.join()

    assert answers == [(503, "transient")] * provider_calls.AT_ONCE
    assert provider_calls._running == []


def test_doors_of_people_are_counted(
    api: Api, reviewer: Reviewer, server: MemoryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    action = api.propose()
    reviewer.look(action)
    monkeypatch.setattr(provider_calls, "AT_ONCE", 0)

    changed = reviewer.decide(action, "edit", subject="Kept as typed")
    assert "Too many calls wait" in changed.content.decode()
    reviewer.decide(action, "approve")  # the worker looks again before it leaves
    assert PendingAction.objects.get(pk=action).status == "approved"
