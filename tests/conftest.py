"""Alice manages the mailbox, Bob may approve, Charlie is a stranger with a mailbox of his own."""

import functools
import gc
import json
import os
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpcore2
import hypothesis
import pytest
from django.conf import settings
from django.core.cache import cache
from django.core.signals import setting_changed
from django.db import connection
from django.dispatch import receiver
from django.http.response import HttpResponseBase
from django.test import Client
from django.utils import translation
from django.utils.crypto import get_random_string

from accounts.access import quotas
from accounts.infra import credentials, first_rows
from accounts.models import SCOPES, ApiToken, Mailbox, Membership, Role, User
from approvals.audit import chain
from approvals.gate import decide
from approvals.gate.pauses import restored
from approvals.models import PendingAction
from tests.support.documented import check_answer
from tests.support.people.browser import sign_in
from tests.support.processes.template import make_test_database
from tests.support.servers.memory import MemoryServer, serving

# Servers and programs, many of which all tests of a process share; a fixture that modules import is
# one for each of them.
pytest_plugins = [
    "tests.support.costs",
    "tests.support.people.chromium",
    "tests.support.processes.shared",
    "tests.support.servers.courier",
    "tests.support.servers.cyrus",
    "tests.support.servers.dovecot",
    "tests.support.servers.sandbox",
    "tests.support.servers.smtp",
]

# The time of an example depends on the machine more than on the code.
hypothesis.settings.register_profile("mailhub", deadline=None)
hypothesis.settings.load_profile("mailhub")

# The suite acts as a worker that began long ago: otherwise it would look in Sent for the first
# test's approval.
restored._began.append(datetime(2000, 1, 1, tzinfo=UTC))

# As in manage.py: garbage collection after every 700 new objects takes a tenth of the suite's time.
gc.set_threshold(50_000)

# Each client of httpx2 would read the authorities of the system: 15 ms, also for http://.
_read_authorities = httpcore2.default_ssl_context
_authorities_of = functools.cache(lambda file: _read_authorities())
httpcore2.default_ssl_context = lambda **_: _authorities_of(os.environ.get("SSL_CERT_FILE"))

# bin/test runs tests with one of these on SQLite.
SQLITE_HALF = ("both", "sqlite_only", "process", "browser")
HELLO: dict[str, Any] = {
    "to": ["mira@northwind.example"],
    "subject": "Hello",
    "body": "Hello Mira,\nuntil Thursday.\nAlice",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sqlite-half", action="store_true", help="import only files of this half")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Importing all files takes longer than many of the tests that run on SQLite."""
    half = config.getoption("--sqlite-half") and collection_path.match("test_*.py")
    return True if half and not _names_a_marker(collection_path) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    of_half = {each.path for each in items if any(map(each.get_closest_marker, SQLITE_HALF))}
    hidden = [path for path in of_half if not _names_a_marker(path)]
    assert not hidden, f"a fixture brings their marker: name it in a comment: {hidden}"


@functools.cache
def _names_a_marker(file: Path) -> bool:
    return re.search(rf"mark\.({'|'.join(SQLITE_HALF)})\b", file.read_text()) is not None


def pytest_collection_finish() -> None:
    """Spare the garbage collector what stays: pytest calls it ten times at the end of a process."""
    gc.freeze()


pytest_sessionstart = pytest_collection_finish  # a process that only hands out tests collects none


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("postgres_only") and connection.vendor != "postgresql":
        pytest.skip(f"this runs on {connection.vendor}")


@pytest.fixture(scope="session")
def django_db_setup(django_test_environment: None, django_db_blocker: Any) -> None:
    """Give this process a copy of a migrated database, which takes a moment; migrating takes seconds."""
    with django_db_blocker.unblock():
        make_test_database(connection)


@dataclass(frozen=True, kw_only=True)
class Api:
    """A program that speaks REST with a token."""

    secret: str
    client: Client = field(default_factory=Client)

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        content = (
            body if isinstance(body, bytes | str) else json.dumps(body if body is not None else {})
        )
        answer = self.client.post(
            f"/api/v1{path}",
            content,
            content_type="application/json",
            headers=self._headers(headers),
        )
        check_answer("post", f"/api/v1{path}", answer)
        return answer

    def get(self, path: str, **headers: str) -> Any:
        answer = self.client.get(f"/api/v1{path}", headers=self._headers(headers))
        check_answer("get", f"/api/v1{path}", answer)
        return answer

    def tool(self, name: str, *, key: str | None = None, **arguments: Any) -> Any:
        return self.post(
            f"/tools/{name}", arguments, **({"Idempotency-Key": key} if key is not None else {})
        )

    def propose(self, *, key: str | None = None, **changes: Any) -> str:
        """Propose a mail, and return the action's id."""
        answer = self.tool("send_email", key=key, **{**HELLO, "confirm": True, **changes})
        assert answer.status_code == 202, answer.content
        return str(answer.json()["action"]["id"])

    def _headers(self, more: dict[str, str]) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.secret}", **more}


@dataclass(frozen=True, kw_only=True)
class Reviewer:
    """A person in front of the review page, with CSRF checks on."""

    user: User
    client: Client

    @classmethod
    def signed_in(cls, user: User) -> "Reviewer":
        client = Client(enforce_csrf_checks=True)
        sign_in(client, user)
        # A sign-in leaves this cookie too.
        client.cookies[settings.CSRF_COOKIE_NAME] = get_random_string(32)
        return cls(user=user, client=client)

    def page(self, action_id: str) -> Any:
        return self.client.get(f"/actions/{action_id}/")

    def look(self, action_id: str) -> None:
        """Open the page and report the revision that is in view, as its script does."""
        assert self.page(action_id).status_code == 200
        revision = PendingAction.objects.get(pk=action_id).revision
        token = self.client.cookies[settings.CSRF_COOKIE_NAME].value
        shown = {"revision": revision, "csrfmiddlewaretoken": token}
        assert self.client.post(f"/actions/{action_id}/presence/", shown).status_code == 200

    def decide(self, action_id: str, verdict: str, **fields: Any) -> Any:
        """Post the form of the page in its current state, with some fields changed.

        The page itself is not opened.
        """
        action = PendingAction.objects.filter(pk=action_id).first()
        shown: dict[str, Any] = {}
        if action:
            shown = {"digest": action.digest, "revision": action.revision}
            shown["restored"] = decide.mark_of_restore(action)
        token = self.client.cookies[settings.CSRF_COOKIE_NAME].value
        return self.client.post(
            f"/actions/{action_id}/{verdict}/", {**shown, "csrfmiddlewaretoken": token, **fields}
        )


@receiver(setting_changed)
def _compile_again(setting: str, **_: Any) -> None:
    """Forget the statements that name a setting."""
    if setting == "MAILHUB_STAFF_KINDS":
        first_rows.forget_compiled()


@pytest.fixture(autouse=True)
def _quick(settings: Any) -> None:
    """Turn the undo window off, except in tests about it, so that nothing waits for a clock.

    Forget failed sign-ins.
    """
    settings.MAILHUB_UNDO_SECONDS = 0
    # The home's records of an earlier test, whose database is gone, would look like a restore.
    for kept in (restored.journal_file(), restored.home_file(), chain.heads_file()):
        kept.unlink(missing_ok=True)
    cache.clear()
    quotas._slices.clear()  # each test starts with an empty database
    translation.deactivate()  # a request leaves its language in the thread


@pytest.fixture
def server() -> Iterator[MemoryServer]:
    """Yield the in-memory mail server; its ledger is independent of the database."""
    with serving() as found:
        yield found


def make_mailbox(address: str, server: MemoryServer, *managers: User) -> Mailbox:
    mailbox_id = uuid.uuid4()
    mailbox = Mailbox.objects.create(
        id=mailbox_id,
        address=address,
        provider="memory",
        credentials=credentials.encrypt({"server": server.name}, mailbox_id=mailbox_id),
        scopes=["read", "send"],
    )
    for manager in managers:
        Membership.objects.create(mailbox=mailbox, user=manager, role=Role.MANAGER)
    return mailbox


def make_api(
    user: User, *mailboxes: Mailbox, name: str = "agent", scopes: list[str] | None = None
) -> Api:
    token_scopes = list(SCOPES) if scopes is None else scopes
    return Api(
        secret=ApiToken.issue(user=user, name=name, scopes=token_scopes, mailboxes=list(mailboxes))[
            1
        ]
    )


@pytest.fixture
def alice(db: None) -> User:
    return User.objects.create_user("alice@lovelace.example", first_name="Alice")


@pytest.fixture
def bob(mailbox: Mailbox) -> User:
    user = User.objects.create_user("bob@lovelace.example", first_name="Bob")
    Membership.objects.create(mailbox=mailbox, user=user, role=Role.APPROVER)
    return user


@pytest.fixture
def charlie(db: None) -> User:
    return User.objects.create_user("charlie@stranger.example", first_name="Charlie")


@pytest.fixture
def mailbox(alice: User, server: MemoryServer) -> Mailbox:
    return make_mailbox("alice@lovelace.example", server, alice)


@pytest.fixture
def foreign_mailbox(charlie: User, server: MemoryServer) -> Mailbox:
    return make_mailbox("charlie@stranger.example", server, charlie)


@pytest.fixture
def api(alice: User, mailbox: Mailbox) -> Api:
    return make_api(alice, mailbox)


@pytest.fixture
def foreign_api(charlie: User, foreign_mailbox: Mailbox) -> Api:
    return make_api(charlie, foreign_mailbox)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Serve the application, and yield its address."""
    from mailhub.asgi import application
    from tests.conformance.served import served

    with served(application) as address:
        yield address


@pytest.fixture
def reviewer(alice: User) -> Reviewer:
    return Reviewer.signed_in(alice)


def problem_of(answer: HttpResponseBase) -> dict[str, Any]:
    """Return the problem document of an answer."""
    assert answer["Content-Type"] == "application/problem+json", answer
    document: dict[str, Any] = json.loads(b"".join(answer))
    assert document["status"] == answer.status_code
    return document
