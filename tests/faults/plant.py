"""All processes of the proof: database, broker, mail servers, web servers, sweepers, workers.

All of it is private, on free ports, started by the block and ended with it.
"""

import json
import secrets
import signal
import subprocess
import sys
from base64 import b64encode
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self
from uuid import UUID

import amqp
import rq
from celery import Celery  # type: ignore[import-untyped]
from redis import Redis as RedisClient
from rq.serializers import JSONSerializer

from tests.faults.databases import Connection, OnPostgres, OnSqlite
from tests.faults.facts import Ruling, Tables
from tests.faults.jobs import read_jobs
from tests.faults.machines import Home, Proxy
from tests.faults.plan import (
    CANARY,
    LEASE_SECONDS,
    LINKS,
    OFFICES,
    PROGRAMS,
    WIRE_SECONDS,
    Setup,
)
from tests.faults.process import Process, write_at_once
from tests.faults.provider import Provider
from tests.faults.tables import id_of, read_tables
from tests.faults.worlds import Restore, forgotten
from tests.support.power.clock import Clock, preload
from tests.support.power.disk import Disk
from tests.support.processes.person import request
from tests.support.processes.programs import environment, until
from tests.support.servers.imap_service import PASSWORD
from tests.support.servers.services import RabbitMQ, Redis, Service, free_port
from tests.support.servers.smtp import FaultySmtp

COMMAND_SECONDS = 240.0  # on a busy machine a start takes a minute


@dataclass(frozen=True, kw_only=True)
class AgentProgram:
    """A program of the agent: a token, or a sign-in by OAuth, which has a client too."""

    id: str
    secret: str
    client: str = ""
    refresh: str = ""


class Plant:
    """The processes under proof. `recorded`: disks note every sync of the database and the
    programs, so that the power can be cut.
    """

    def __init__(
        self, setup: Setup, home: Path, provider: Provider, *, recorded: bool = False
    ) -> None:
        self.encryption_key = b64encode(secrets.token_bytes(32)).decode()
        self.setup = setup
        self.home = home
        self.kept = home / "kept"  # MAILHUB_HOME; the output of the programs is kept outside it
        self.journal = self.kept / "journal.jsonl"
        # The worker machines come first, then the web machines. Their volume is `kept` itself.
        own = [f"machine-{number}" for number in range(setup.workers + setup.webs)]
        self.homes = [Home(self.kept / name) for name in (own if setup.on_machines else [""])]
        self.records = Home(self.kept)  # beside the journal, for all machines
        self.disk = Disk(self.kept, home) if recorded else None
        self.server = (
            OnSqlite(self.kept, home, self.disk)
            if setup.on_sqlite
            else OnPostgres(recorded=recorded)
        )
        # Each worker has a wall clock, which the sweeper beside it shares. The others follow the right
        # one: it dates the sessions and sign-in links of people.
        count = 0 if setup.on_sqlite else setup.workers
        self.clocks = [Clock(home / "clocks", f"worker-{number}") for number in range(count)]
        self.began = datetime.now(UTC)
        self.broker: Service | None = None
        if setup.queue == "celery on RabbitMQ":
            self.broker = RabbitMQ()
        elif not setup.queue.startswith("database"):
            self.broker = Redis()
        self.provider = provider
        self.post = FaultySmtp()  # takes mailhub's own mail: invitations
        self.ports = [free_port() for _ in range(setup.webs)]
        self.proxy = Proxy(self.ports) if setup.webs > 1 else None
        self.url = f"http://127.0.0.1:{self.proxy.port if self.proxy else self.ports[0]}"
        self.metrics_token = secrets.token_urlsafe(16)
        self.environment = self._environment()
        self.workers: list[Process] = []
        self.webs: list[Process] = []
        self.sweepers: list[Process] = []
        self._ended: list[Process] = []
        self._journaled: Counter[str] = Counter()  # in the journals of earlier homes
        self._stack = ExitStack()
        self._programs: list[AgentProgram] = []  # the present one first
        self._ended_programs: list[AgentProgram] = []
        self.owner_links: list[str] = []  # of the person who owns the programs
        self.links: list[list[str]] = []
        self.mailboxes: list[str] = []  # their ids
        # The approver whom the manager removes and brings back.
        self.second_person, self.second_address = 0, ""

    def _environment(self) -> dict[str, object]:
        kind = self.setup.queue.partition(" ")[0]
        url = getattr(self.broker, "url", "")
        return {
            "MAILHUB_HOME": self.homes[0].folder,
            "MAILHUB_SEND_JOURNAL": self.journal,
            "DATABASE_URL": self.server.url,
            "SECRET_KEY": secrets.token_urlsafe(40),
            "MAILHUB_ENCRYPTION_KEYS": self.encryption_key,
            "MAILHUB_PUBLIC_URL": self.url,
            "MAILHUB_METRICS_TOKEN": self.metrics_token,
            "MAILHUB_UNDO_SECONDS": self.setup.undo_seconds,
            "MAILHUB_LEASE_SECONDS": LEASE_SECONDS,
            "MAILHUB_WIRE_TIMEOUT_SECONDS": WIRE_SECONDS,
            "MAILHUB_QUEUE": kind,
            "EMAIL_URL": f"smtp://127.0.0.1:{self.post.port}",
            "MAILHUB_INVITATIONS_PER_HOUR": 10**6,
            "MAILHUB_MAILBOX_INVITATIONS_PER_HOUR": 10**6,
            "MAILHUB_ADDRESS_MAILS_PER_HOUR": 10**6,
            "MAILHUB_SECOND_FACTOR": "optional",  # its people have links only
            "REDIS_URL": url if kind == "rq" else "",
            "CELERY_BROKER_URL": url if kind == "celery" else "",
            "DJANGO_SETTINGS_MODULE": "mailhub.settings",
            "PYTHONPATH": self.setup.tree,
            **self.provider.environment(),
            **self.server.environment,
        }

    def __enter__(self) -> Self:
        try:
            self._stack.enter_context(self.server)
            if self.broker is not None:
                self._stack.enter_context(self.broker)
            self._stack.enter_context(self.provider)
            self._stack.enter_context(self.post)
            if self.proxy is not None:
                self._stack.enter_context(self.proxy)
            self._run("manage.py", "migrate", "--verbosity", "0")
            self._furnish()
            if self.disk is not None:
                self.disk.begin()
                self.environment = preload(self.environment, self.disk.environment)
            self.start_programs()
            until(self.answers, seconds=COMMAND_SECONDS, say=self.log)
        except BaseException:
            self.close()
            raise
        return self

    def start_programs(self) -> None:
        self.webs = [self._web(number) for number in range(self.setup.webs)]
        self.sweepers = [self._sweeper(number) for number in range(len(self.homes))]
        self.workers = [self._worker(number) for number in range(self.setup.workers)]

    def kill_programs(self) -> None:
        """Kill all of mailhub's processes at once."""
        programs = [
            each
            for each in (*self.workers, *self._ended, *self.webs, *self.sweepers)
            if each.process is not None
        ]
        for program in programs:
            program.signal_all(signal.SIGKILL)
        for program in programs:
            program.kill()  # and its later forks
        self._ended.clear()

    def cut_power(self) -> None:
        """Kill everything at once and lose unsynced data: the database, the home, the broker's
        memory.
        """
        assert self.disk is not None
        self.kill_programs()
        self.server.cut_off()
        self.disk.cut()
        self.flush_broker()
        self.server.start()
        self.start_programs()

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self._stack:
            for process in (*self.workers, *self._ended, *self.webs, *self.sweepers):
                process.kill()

    def _worker_command(self) -> list[str]:
        if self.setup.queue.startswith("celery"):
            options = ["--without-mingle", "--without-gossip", "-P", "prefork", "-c", "2"]
            return ["-m", "celery", "-A", "mailhub", "worker", *options]
        return ["manage.py", "worker"]

    def _line(self, *arguments: str) -> list[str]:
        script = arguments[0]
        first = str(self.setup.tree / script) if script.endswith(".py") else script
        return [sys.executable, first, *arguments[1:]]

    def _web(self, number: int) -> Process:
        machine = self.setup.workers + number
        return self._process(machine, "manage.py", "web", "--port", str(self.ports[number]))

    def _sweeper(self, machine: int) -> Process:
        every = "3" if self.setup.on_machines else "1"  # five of them share the cores of one
        return self._process(machine, "manage.py", "maintain", "--every", every, clocked=True)

    def _worker(self, machine: int) -> Process:
        return self._process(machine, *self._worker_command(), clocked=True)

    def _process(self, machine: int, *arguments: str, clocked: bool = False) -> Process:
        """Start a program on a machine; without several machines all have one home."""
        home = self.homes[machine % len(self.homes)].folder
        clock = self.clocks[machine : machine + 1] if clocked else []
        changes = preload(self.environment, *(each.environment for each in clock))
        changes["MAILHUB_HOME"] = home
        process = Process(self.home, self._line(*arguments), **changes)
        process.start()
        return process

    def _run(
        self, *arguments: str, given: object = None, check: bool = True, **changes: object
    ) -> str:
        """Run one command to its end, and return its output. `given` is text, or becomes JSON."""
        done = subprocess.run(
            self._line(*arguments),
            env=environment(self.home, {**self.environment, **changes}),
            cwd=self.home,
            input=given if isinstance(given, str) else json.dumps(given),
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    def _furnish(self) -> None:
        given = {
            "mailboxes": {
                address: self.provider.access(address, self.setup.kind_of(address))
                for address in self.setup.addresses
            },
            "two_needed": self.setup.addresses[1::4] if self.setup.two_needed else [],
            "links": LINKS * OFFICES,
            "programs": PROGRAMS,
        }
        found = json.loads(self._run("-m", "tests.faults.furnish", "furnish", given=given))
        self._programs = [AgentProgram(**each) for each in found["programs"]]
        self.owner_links = found["owner_links"]
        self.links = found["links"]
        self.mailboxes = found["mailboxes"]
        self.second_person, self.second_address = found["second"], found["address"]

    @property
    def program(self) -> AgentProgram:
        """Return the program with which the agent works now."""
        return self._programs[0]

    @property
    def has_next_program(self) -> bool:
        return len(self._programs) > 1

    def next_program(self) -> None:
        """Let the agent go on with another program, because this one has ended."""
        self._ended_programs.append(self._programs.pop(0))

    def mailbox_of(self, address: str) -> str:
        return self.mailboxes[self.setup.addresses.index(address)]

    def connect(self, address: str, *, change: str = "", number: int = 0) -> bool:
        """Connect a mailbox again, as an operator does; return False if that was refused."""
        kind = self.setup.kind_of(address)
        options, given = self.provider.connection(address, kind, change=change, number=number)
        command = (
            "connect_mailbox",
            *options,
            "--address",
            address,
            "--owner",
            "ada@proof.example",
        )
        return bool(self._run("manage.py", *command, given=given, check=False))

    def rule(self, action_ids: list[str]) -> list[Ruling]:
        """Rule as a person that these were not sent."""
        began = datetime.now(UTC)
        fences = json.loads(self._run("-m", "tests.faults.furnish", "rule", given=action_ids))
        ended = datetime.now(UTC)
        return [
            Ruling(
                action=action, fence=fence, ruling="not_sent", began=began, ended=ended, taken=True
            )
            for action, fence in fences.items()
        ]

    def tables(self) -> Tables:
        with self.database() as connection:
            return read_tables(connection, self.encryption_key, self.began)

    def restore(self, name: str, *, new_home: bool) -> Restore:
        """Restore the copy into a database of that name, and let an operator run `after_restore`.

        The files of the home stay, unless it is a new one. The workers must pause by themselves.
        """
        self.kill_programs()
        if new_home:
            self._journaled = self.journaled()
            self.journal.unlink(missing_ok=True)
            self.records.empty()
            if self.disk is not None:  # else a power cut would bring the files of the old one back
                self.disk.begin()
        lost, at = self.tables(), datetime.now(UTC)
        self.environment["DATABASE_URL"] = self.server.restore(name)
        restore = Restore(at=at, ended=at, lost=lost, copy=self.tables())
        self.start_programs()
        until(self.answers, seconds=COMMAND_SECONDS, say=self.log)
        noticed = new_home or bool(forgotten(restore))
        if noticed:
            until(
                lambda: "paused" in self._ready(),
                seconds=COMMAND_SECONDS,
                say=lambda: str(self._ready()),
            )
        before = self.records.identity()
        options = ["--yes"] if noticed else ["--yes", "--force"]
        # Refused while the copy still counts an action as being sent.
        until(
            lambda: (
                "Mail may leave again."
                in self._run("manage.py", "after_restore", *options, check=False)
            ),
            seconds=COMMAND_SECONDS,
        )
        until(lambda: self.records.identity() != before, seconds=COMMAND_SECONDS)
        with self.database(writes=True) as connection:
            # It ended all links to sign in. People get new ones; here theirs work again.
            connection.execute("UPDATE accounts_signinlink SET used_at = NULL")
        self.records.begin_after_restore()
        return replace(restore, ended=datetime.now(UTC))

    def journaled(self) -> Counter[str]:
        """Count the whole lines of all send journals by their action."""
        lines = self.journal.read_bytes().splitlines() if self.journal.exists() else []
        found = Counter(self._journaled)
        for line in lines:
            with suppress(ValueError, KeyError):  # half a line, or the beginning of a generation
                found[id_of(json.loads(line)["action"])] += 1
        return found

    def _ready(self) -> Any:
        return request(f"{self.url}/statusz").json()

    def audit(self) -> list[str]:
        """Return the findings of the audit chain's verifier."""
        folder = self.records.copy_heads(self.home / "verified")
        said = self._run(
            *("manage.py", "verify_audit"),
            check=False,
            MAILHUB_HOME=folder,
            MAILHUB_SEND_JOURNAL=folder / self.journal.name,
        )
        assert said, "the verifier said nothing"
        return [line for line in said.splitlines() if "are what they were" not in line]

    def answers(self) -> bool:
        """Return True if each web server answers."""
        try:
            answers = [request(f"http://127.0.0.1:{port}/healthz") for port in self.ports]
        except OSError:
            return False
        return all(answer.status == 200 for answer in answers)

    def metrics(self) -> str:
        headers = {"Authorization": f"Bearer {self.metrics_token}"}
        return "\n".join(
            request(f"http://127.0.0.1:{port}/metrics", headers=headers).text for port in self.ports
        )

    def log(self) -> str:
        path = self.home / "stderr"
        return path.read_text() if path.exists() else ""

    def database(self, *, writes: bool = False) -> Connection:
        """Return a connection of the proof's own; on SQLite, set `writes` only after the last power
        cut.
        """
        return self.server.connect(str(self.environment["DATABASE_URL"]), writes=writes)

    def new_worker(self, number: int) -> None:
        """Start a worker in place of another, which may still be alive."""
        self._ended.append(self.workers[number])
        self.workers[number] = self._worker(number)

    def new_web(self, number: int) -> None:
        self.webs[number].kill()
        self.webs[number] = self._web(number)

    def kill_machine(self, machine: int) -> None:
        """Kill all programs of one machine, and start them again."""
        self.sweepers[machine].kill()
        if machine < self.setup.workers:
            self.workers[machine].kill()
            self.new_worker(machine)
        else:
            self.new_web(machine - self.setup.workers)
        self.sweepers[machine] = self._sweeper(machine)

    def notify(self, action_id: str) -> None:
        """Put one more job into the queue."""
        match self.setup.queue:
            case "database":
                with self.database() as connection:
                    connection.execute("SELECT pg_notify('mailhub_due', %s)", [action_id])
            case "database on SQLite":
                with suppress(OSError):  # no worker has made the FIFO yet, or none listens
                    write_at_once(self.kept / "bell", UUID(action_id).bytes)
            case "rq":
                queue = rq.Queue("default", connection=self._redis(), serializer=JSONSerializer)
                queue.enqueue(
                    "approvals.queues.rq.carry_out",
                    action_id,
                    job_timeout=60,
                    result_ttl=0,
                    failure_ttl=60,
                )
            case _:
                app = Celery(broker=self.environment["CELERY_BROKER_URL"])
                app.send_task(
                    "approvals.carry_out", (action_id,), queue="mailhub", ignore_result=True
                )
                app.close()

    def flush_broker(self) -> None:
        """Delete all notifications in the broker."""
        if isinstance(self.broker, Redis):
            self._redis().flushall()
        elif isinstance(self.broker, RabbitMQ):
            with amqp.Connection(f"127.0.0.1:{self.broker.port}", connect_timeout=5) as connection:
                connection.channel().queue_purge("mailhub")

    def jobs(self) -> str:
        """Return everything in the broker, where it can be read."""
        if not isinstance(self.broker, Redis):
            return ""
        return read_jobs(self._redis())

    def _redis(self) -> Any:
        return RedisClient.from_url(str(getattr(self.broker, "url", "")), socket_timeout=5)

    def canaries(self) -> list[str]:
        secrets = [each.secret for each in (*self._programs, *self._ended_programs)]
        return [CANARY, PASSWORD, *secrets]
