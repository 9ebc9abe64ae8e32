"""The memory for what foreign servers answer: one person cannot take all of it."""

import gc
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection
from django.http import HttpResponse

from accounts.access import provider_calls
from accounts.access.room import MEGABYTE
from accounts.connect.connecting import connect_mailbox
from accounts.infra.problems import Problem
from accounts.models import User
from accounts.views.downloads import as_download
from tests.conftest import HELLO, Api, Reviewer, make_api, problem_of
from tests.support.processes.programs import until
from tests.support.servers.hostile import HostileImap
from tests.tools.test_gmail_size import FOUR_MB, uploaded
from tools.providers.imap.sessions import POOL

pytestmark = pytest.mark.django_db(transaction=True)
ANNOUNCED = len(b"* 1 FETCH (BODY[] {40000000}\r\n")


@pytest.fixture
def stalled() -> Iterator[HostileImap]:
    with HostileImap("stalled_literal", at="fetch") as server:
        yield server
    POOL.close_all()


def make_caller(person: User, server: HostileImap) -> Api:
    address = f"127.0.0.1:{server.port}:plain"
    secrets = {"imap": address, "smtp": address, "username": "ada", "password": "secret"}
    mailbox = connect_mailbox(
        owner=person, address=person.email, provider="imap", secrets=secrets, scopes=["read"]
    )
    return make_api(person, mailbox)


@contextmanager
def reading(server: HostileImap, *callers: Api) -> Iterator[None]:
    """Yield once the server has announced a large answer to each of these callers."""

    def read(secret: str) -> None:
        try:
            Api(secret=secret).tool("list_emails")
        finally:
            connection.close()

    threads = [threading.Thread(target=read, args=[each.secret]) for each in callers]
    before = server.sent
    for thread in threads:
        thread.start()
    try:
        until(lambda: server.sent == before + len(threads) * ANNOUNCED)
        yield
    finally:
        server.cut()
        for thread in threads:
            thread.join()


def test_large_answers_of_one_person_leave_room_for_others(
    alice: User, charlie: User, stalled: HostileImap, settings: Any
) -> None:
    settings.MAILHUB_REQUEST_SECONDS = 20
    mine, his = make_caller(alice, stalled), make_caller(charlie, stalled)
    with reading(stalled, mine, mine):
        refused = problem_of(mine.tool("list_emails"))
        assert "busy with other large" in refused["detail"]
        with reading(stalled, his):
            pass
    until(lambda: not provider_calls.ANSWERS.held)


def test_file_counts_until_its_reader_has_it(alice: User, charlie: User) -> None:
    def ask(person: User) -> HttpResponse:
        return as_download(person.pk, "report.pdf", bytes(30_000_000))

    slow = [ask(alice) for _ in range(3)]
    with pytest.raises(Problem, match="transient"):
        ask(alice)
    assert ask(charlie).status_code == 200
    slow.clear()
    assert ask(alice).status_code == 200
    assert not provider_calls.ANSWERS.held


def test_source_of_a_mail_counts_until_its_reader_has_it(api: Api, reviewer: Reviewer) -> None:
    files = [{"handle": uploaded(api, FOUR_MB)}] * 5
    address = f"/actions/{api.propose(attachments=files)}/source/"

    slow = [reviewer.client.get(address) for _ in range(3)]
    refused = reviewer.client.get(address)
    assert {answer.status_code for answer in slow} == {200}
    assert (refused.status_code, refused["Retry-After"]) == (503, "2")
    assert "busy with other large" in refused.content.decode()
    slow.clear()
    gc.collect()
    assert reviewer.client.get(address).status_code == 200


@pytest.mark.parametrize(
    ("count", "held", "code", "most"), [(20, 0, "too_large", 48), (6, 90, "transient", 24)]
)
def test_attachments_without_room_are_not_loaded(
    api: Api, alice: User, count: int, held: int, code: str, most: int
) -> None:
    files = [{"handle": uploaded(api, FOUR_MB)}] * count
    api.tool("send_email", **HELLO)  # loads what calls need
    with provider_calls.ANSWERS.hold(alice.pk) as note:
        note(held * MEGABYTE)
        tracemalloc.start()
        refused = problem_of(api.tool("send_email", **HELLO, attachments=files))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert refused["code"] == code
    assert peak < most * MEGABYTE
