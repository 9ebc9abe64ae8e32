"""A mail server that says nothing keeps few threads, no database connection, and nobody else."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Any, cast

import dns.resolver
import pytest
from django.db import connection
from django.test import Client

from accounts.access import provider_calls
from accounts.connect.connecting import connect_mailbox
from accounts.infra import credentials
from accounts.infra.database import database_now
from accounts.models import Mailbox, Membership, Role, User
from approvals.models import PendingAction, WatchedMailbox
from approvals.outbound.notifications.channels.adding import add_chat
from approvals.worker import background, watch
from tests.approvals.conftest import approve
from tests.conftest import HELLO, Api, Reviewer, make_api, make_mailbox, problem_of
from tests.support.people.browser import browser
from tests.support.processes.programs import until
from tests.support.servers.hostile import Hostile, HostileImap
from tests.support.servers.memory import MemoryServer
from tests.support.work import work
from tools.mail.parsers import MAIL
from tools.providers.imap.sessions import POOL

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def silent() -> Iterator[HostileImap]:
    with HostileImap("silent") as server:
        yield server
    POOL.close_all()


def connected(person: User, server: HostileImap, name: str = "quiet") -> Mailbox:
    address = f"127.0.0.1:{server.port}:plain"
    secrets = {"imap": address, "smtp": address, "username": "ada", "password": "secret"}
    return connect_mailbox(
        owner=person, address=f"{name}@lovelace.example", provider="imap", secrets=secrets,
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
    quiet, quieter = connected(alice, silent), connected(alice, silent, "quieter")
    Membership.objects.create(user=bob, mailbox=quiet, role=Role.VIEWER)
    answering = make_mailbox("other@lovelace.example", server, alice, bob)
    mine, his = make_api(alice, quiet, quieter, answering), make_api(bob, quiet, answering)
    answers: list[tuple[int, str]] = []

    def read(caller: Api, mailbox: Mailbox) -> None:
        try:
            answer = Api(secret=caller.secret).tool("list_emails", mailbox=mailbox.address)
            answers.append((answer.status_code, answer.json()["code"]))
        finally:
            connection.close()

    threads: list[threading.Thread] = []

    def begin(*callers: tuple[Api, Mailbox]) -> None:
        for each in callers:
            threads.append(threading.Thread(target=read, args=each))
            threads[-1].start()
        until(lambda: silent.connections == len(threads))

    before = count_borrowed()
    try:
        begin(*[(mine, quiet)] * 3)
        # The fourth place of the mailbox is for others.
        assert problem_of(mine.tool("list_emails", mailbox=quiet.address))["code"] == "transient"
        begin((his, quiet), (mine, quieter))

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

    assert answers == [(503, "transient")] * len(threads)
    assert provider_calls._running == []


def test_doors_of_people_are_counted(
    api: Api, reviewer: Reviewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    action = api.propose()
    reviewer.look(action)
    monkeypatch.setattr(provider_calls, "AT_ONCE", 0)

    changed = reviewer.decide(action, "edit", subject="Kept as typed")
    assert "Too many calls wait" in changed.content.decode()
    reviewer.decide(action, "approve")  # the worker looks again before it leaves
    assert PendingAction.objects.get(pk=action).status == "approved"


class SilentWeb(Hostile):
    def serve(self, sock: socket.socket) -> None:
        self.do_harm(sock, line=b"x")

    def cut(self) -> None:
        """Cut all connections, and each later one at once."""
        self._ended.set()
        super().cut()


@contextmanager
def silent_name_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Ask a name server that says nothing; yield a call after which it answers with an error."""
    ended = threading.Event()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        resolver = dns.resolver.Resolver(configure=False)
        resolver.nameservers, resolver.port = ["127.0.0.1"], server.getsockname()[1]
        monkeypatch.setattr(dns.resolver, "default_resolver", resolver)

        def fail() -> None:
            ended.wait()
            query, client = server.recvfrom(512)
            while query != b"end":
                server.sendto(query[:2] + b"\x81\x82" + query[4:], client)
                query, client = server.recvfrom(512)

        thread = threading.Thread(target=fail)
        thread.start()
        try:
            yield ended.set
        finally:
            ended.set()
            server.sendto(b"end", server.getsockname())
            thread.join()


@contextmanager
def waiting(call: Callable[[], object]) -> Iterator[None]:
    """Run a call on four threads, and yield when all of them wait for a foreign server."""

    def run() -> None:
        try:
            call()
        finally:
            connection.close()

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    until(lambda: len(provider_calls._running) >= len(threads))
    yield
    for thread in threads:
        thread.join()


def test_silent_name_server_holds_no_connection(
    alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = browser(alice)
    form = {"address": "a@silent.example"}
    before = count_borrowed()
    with (
        silent_name_server(monkeypatch) as answer,
        waiting(lambda: window.post("/mailboxes/connect/", form)),
    ):
        until(lambda: count_borrowed() <= before)
        answer()


@pytest.fixture
def silent_names(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Resolve no name before the returned call, or the end of the test."""
    ended = threading.Event()

    def ask(*args: Any, **more: Any) -> Any:
        ended.wait()
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", ask)
    yield ended.set
    ended.set()


def test_silent_name_of_a_webhook_holds_no_connection(
    api: Api, silent_names: Callable[[], None]
) -> None:
    given = {"url": "https://silent.example/hook"}
    before = count_borrowed()
    with waiting(lambda: Api(secret=api.secret).post("/webhooks", given)):
        until(lambda: count_borrowed() <= before)
        silent_names()


def test_silent_name_of_a_callback_holds_no_connection(
    api: Api, silent_names: Callable[[], None]
) -> None:
    assert api.post("/webhooks", {"callbacks": True}).status_code == 201
    asked = {**HELLO, "confirm": True, "callback_url": "https://silent.example/hook"}
    before = count_borrowed()
    with waiting(lambda: Api(secret=api.secret).tool("send_email", **asked)):
        until(lambda: threads_named("resolve-host") == 4)
        until(lambda: count_borrowed() <= before)
        silent_names()


def test_few_documents_of_programs_are_read_at_once(
    db: None, silent_names: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider_calls, "AT_ONCE", 4)
    asked = {"client_id": "https://silent.example/program.json"}
    with waiting(lambda: Client().post("/oauth/device/code", asked)):
        busy = Client().post("/oauth/device/code", asked)
        assert (busy.status_code, busy.json()["error"]) == (429, "temporarily_unavailable")
        silent_names()


def test_documents_of_strangers_are_not_in_the_way_of_a_person(
    alice: User, silent_names: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider_calls, "AT_ONCE", 1)
    silent_names()
    with provider_calls.limit_waiting(provider_calls.STRANGERS):
        asked = {"client_id": "https://silent.example/program.json"}
        page = browser(alice).get("/oauth/authorize", asked)
    assert "could not be read" in page.content.decode()


def test_tests_of_a_silent_channel_are_counted(
    alice: User, silent_names: Callable[[], None]
) -> None:
    channel = add_chat(alice, "jsons://silent.example/hook", label="")
    window = browser(alice)
    before = count_borrowed()
    with waiting(lambda: window.post(f"/notifications/{channel.pk}/test/")):
        until(lambda: count_borrowed() <= before)
        silent_names()


def test_wait_for_a_parser_holds_no_connection(api: Api) -> None:
    long = {**HELLO, "body": "<p>" + "<b>Hello</b>" * 1000, "body_type": "html"}
    before = count_borrowed()
    with ExitStack() as turns:
        for _ in range(MAIL._limits.processes):
            turns.enter_context(MAIL._turns.take(None))
        with waiting(lambda: Api(secret=api.secret).tool("send_email", **long)):
            until(lambda: len(MAIL._turns._waiting) == 4)
            until(lambda: count_borrowed() <= before)
            turns.close()


def threads_named(name: str) -> int:
    return sum(thread.name == name for thread in threading.enumerate())


def test_silent_token_endpoint_holds_no_connection(alice: User, settings: Any) -> None:
    with SilentWeb("silent") as google:
        settings.GOOGLE_TOKEN_URI = settings.GMAIL_BASE_URL = f"http://127.0.0.1:{google.port}"
        quiet = connect_mailbox(
            owner=alice, address="quiet@lovelace.example", provider="gmail", scopes=["read"],
            secrets={"client_id": "c", "client_secret": "s", "refresh_token": "r", "expires_at": 0.0},
        )  # fmt: skip
        api = make_api(alice, quiet)
        before = count_borrowed()
        with waiting(lambda: Api(secret=api.secret).tool("list_emails")):
            until(lambda: count_borrowed() <= before)
            google.cut()


def test_silent_mailboxes_of_one_person_leave_looks_to_others(
    alice: User,
    charlie: User,
    api: Api,
    server: MemoryServer,
    silent: HostileImap,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their owner has as many as there are threads, and they are the first whose look is due."""
    monkeypatch.setattr(watch.LOOKS, "_idle_seconds", 0)
    approve(api.propose(), alice)
    for number in range(background.AT_ONCE):
        mailbox = make_mailbox(f"m{number}@stranger.example", server, charlie)
        program = make_api(charlie, mailbox, name=f"agent {number}")
        # A look goes on until the time of a follow-up, although the account becomes another one.
        approve(program.propose(follow_up={"after_days": 3}), charlie)
    work()
    address = f"127.0.0.1:{silent.port}:plain"
    secrets = {"imap": address, "smtp": address, "username": "ada", "password": "secret"}
    for mailbox in Mailbox.objects.filter(address__endswith="@stranger.example"):
        mailbox.provider = "imap"
        mailbox.credentials = credentials.encrypt(secrets, mailbox_id=mailbox.pk)
        mailbox.save()
    now = database_now()
    due = WatchedMailbox.objects.all()
    due.update(look_at=now - timedelta(minutes=2))
    mine = due.filter(mailbox__address=alice.email)
    mine.update(look_at=now - timedelta(minutes=1))

    watch.LOOKS.start()

    until(lambda: mine.filter(look_at__gt=now).exists())
    owners = [owner for owner, _ in cast(Any, watch.LOOKS._busy)]
    assert owners.count(charlie.pk) == background.AT_ONCE - 1
    watch.LOOKS._left.clear()

    def is_idle() -> bool:
        silent.cut()  # each thread connects once more
        return not watch.LOOKS._busy

    until(is_idle)
