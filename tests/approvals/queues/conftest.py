"""Workers of every queue on the test's database; the ledger of an SMTP server is the witness."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from email import message_from_bytes
from pathlib import Path
from signal import SIGTERM
from typing import Any

import pytest
from django.test import Client
from redis import Redis as RedisClient

from accounts.connect.connecting import connect_mailbox
from accounts.models import Mailbox, User
from approvals.core.queue import queue
from approvals.models import Heartbeat, PendingAction
from tests.conftest import Api, Reviewer, make_api
from tests.support.processes.programs import MANAGE, PROJECT, Program, this_test, until
from tests.support.servers.sandbox import ADA, SandboxServer
from tests.support.servers.services import Redis, Service
from tests.support.servers.smtp import FaultySmtp

# Without the messages between workers: they take a second at the start and nothing here uses them.
CELERY = [
    sys.executable,
    "-m",
    "celery",
    "-A",
    "mailhub",
    "worker",
    "--without-mingle",
    "--without-gossip",
]
RESIDENT = "approvals.queues.rq.ResidentWorker"
COMMANDS = {
    "database": [*MANAGE, "worker"],
    "rq": [*MANAGE, "rqworker"],
    "rq-resident": [*MANAGE, "rqworker", "--worker-class", RESIDENT],
    "celery": [*CELERY, "-P", "prefork", "-c", "2"],
    "celery-solo": [*CELERY, "-P", "solo"],
}


class Worker(Program):
    """A worker, started by its command line."""

    def __init__(self, home: Path, command: list[str], **changes: object) -> None:
        super().__init__(home, **changes)
        self._command = command

    def command(self) -> list[str]:
        return self._command


@dataclass(kw_only=True)
class Site:
    """One kind of queue: an agent that proposes, a person who approves, workers, and the mail
    server's ledger.
    """

    kind: str
    home: Path
    server: Service | None
    smtp: FaultySmtp
    api: Api
    reviewer: Reviewer
    workers: ExitStack
    environment: dict[str, object]
    started: list[Worker] = field(default_factory=list)

    def worker(self, *arguments: str) -> Worker:
        """Start a worker of this kind, and return it when it is ready."""
        command = [*COMMANDS[self.kind], *arguments]
        worker = self.workers.enter_context(Worker(self.home, command, **self.environment))
        self.started.append(worker)

        def lives() -> bool:
            assert worker.process is not None
            assert worker.process.poll() is None, worker.log()
            return Heartbeat.objects.filter(worker__endswith=f":{worker.pid}").exists()

        until(lives, say=worker.log)
        return worker

    def approved(self, subject: str = "Hello", **changes: Any) -> PendingAction:
        action_id = self.api.propose(subject=subject, **changes)
        assert self.reviewer.decide(action_id, "approve").status_code == 302
        return PendingAction.objects.get(pk=action_id)

    def reaches(self, action: PendingAction, state: str) -> PendingAction:
        def there() -> bool:
            action.refresh_from_db()
            return action.status == state

        until(there, say=lambda: f"{action.status} {action.error}\n{self.log()}")
        return action

    def sent(self) -> list[str]:
        """Return the Message-IDs in the ledger of the SMTP server."""
        return [
            str(message_from_bytes(accepted.content)["Message-ID"]) for accepted in self.smtp.ledger
        ]

    def ready(self) -> Any:
        return Client().get("/statusz")

    def log(self) -> str:
        return "".join(worker.log() for worker in self.started[:1])


def asked_to_end(worker: Worker) -> int:
    """End a worker by SIGTERM, and return its exit code when none of its processes is left."""
    assert worker.process is not None
    worker.process.send_signal(SIGTERM)
    return worker.wait()


@pytest.fixture(scope="session")
def redis_server() -> Iterator[Redis]:
    with Redis() as server:
        yield server


@pytest.fixture
def redis(redis_server: Redis) -> Redis:
    """Return an empty Redis."""
    if redis_server.pid is None:  # a failed test stopped it
        redis_server.start()
    RedisClient.from_url(redis_server.url).flushall()
    return redis_server


@pytest.fixture
def keys(redis: Redis) -> Any:
    """Return a client of the Redis; latin-1 decodes every byte."""
    return RedisClient.from_url(redis.url, decode_responses=True, encoding="latin-1")


def use(settings: Any, kind: str, url: str = "") -> dict[str, object]:
    """Make this process notify as the kind does, and return the environment of its workers."""
    settings.MAILHUB_QUEUE = kind.partition("-")[0]
    changes: dict[str, object] = {"MAILHUB_QUEUE": settings.MAILHUB_QUEUE, "PYTHONPATH": PROJECT}
    if settings.MAILHUB_QUEUE == "rq":
        settings.REDIS_URL = url
        changes["REDIS_URL"] = url
    if settings.MAILHUB_QUEUE == "celery":
        from mailhub.celery import app  # imported only if Celery is the queue

        settings.CELERY_BROKER_URL = url
        changes["CELERY_BROKER_URL"] = url
        if app.conf.broker_url != url:  # its pools keep the address that they were made with
            app.conf.broker_url = url
            app._after_fork()
    queue.cache_clear()
    return changes


@pytest.fixture
def broker(request: pytest.FixtureRequest, kind: str) -> Service | None:
    """Return the server that carries the notifications, or None for the database queue."""
    return None if kind == "database" else request.getfixturevalue("redis")


@pytest.fixture
def site(
    kind: str,
    broker: Service | None,
    tmp_path: Path,
    sandbox: SandboxServer,
    alice: User,
    settings: Any,
) -> Iterator[Site]:
    settings.MAILHUB_HOME = tmp_path  # the folder of the notification FIFO
    changes = use(settings, kind, getattr(broker, "url", ""))
    with FaultySmtp() as smtp, ExitStack() as workers:
        api = agent_of(alice, sandbox, smtp)
        yield Site(
            kind=kind,
            home=tmp_path,
            server=broker,
            smtp=smtp,
            api=api,
            reviewer=Reviewer.signed_in(alice),
            workers=workers,
            environment=changes | this_test(),  # which names the servers of the mailbox
        )
    queue.cache_clear()


@pytest.fixture
def more(site: Site, sandbox: SandboxServer, alice: User) -> Iterator[list[Site]]:
    """Yield three more mailboxes, each with its own SMTP server, for the workers of the site."""
    with ExitStack() as servers:
        found = []
        for number in range(3):
            smtp = servers.enter_context(FaultySmtp())
            api = agent_of(alice, sandbox, smtp, address=f"alice.{number}@lovelace.example")
            found.append(replace(site, smtp=smtp, api=api))
        site.environment |= this_test()
        yield found


def agent_of(person: User, sandbox: SandboxServer, smtp: FaultySmtp, address: str = "") -> Api:
    """Return an agent for a mailbox that sends through this server."""
    secrets = sandbox.access(ADA, smtp_port=smtp.port).as_secrets()
    mailbox = connect_mailbox(
        owner=person,
        address=address or person.email,
        provider="imap",
        secrets=secrets,
        scopes=["read", "send"],
    )
    # as after its first mail
    Mailbox.objects.filter(pk=mailbox.pk).update(provider_files_copies=False)
    return make_api(person, mailbox, name=address or "agent")
