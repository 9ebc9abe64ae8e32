"""An operator's day on PostgreSQL, Redis and RQ: `python -m tests.operations.day [STEP …]`.

It installs 0.2.0, lets agents propose and a person approve all the time, updates, backs up, loses the
machine, restores, and meets a full disk, dead workers, an empty Redis and an expired certificate.
It prints what alarmed and after how many seconds; docs/operate/a-day.md keeps what one run printed.

It needs root (for a disk that can be full), PostgreSQL, Redis, Dovecot, Prometheus and Caddy.
"""

import itertools
import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from email import message_from_bytes
from pathlib import Path
from typing import Any, ClassVar, Self
from urllib.parse import urlsplit

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

from tests.operations.machine import Machine, Prometheus
from tests.support.power.postgres import DurablePostgres
from tests.support.processes.person import Answer, Person, request
from tests.support.processes.programs import PROJECT, until
from tests.support.processes.releases import unpack
from tests.support.servers.caddy import Caddy
from tests.support.servers.certificates import Authority
from tests.support.servers.dovecot import Dovecot
from tests.support.servers.imap_service import PASSWORD
from tests.support.servers.services import Redis
from tests.support.servers.smtp import Accepted, FaultySmtp
from tests.support.servers.tls_relay import TlsRelay

EARLIER = "e6f283cc"  # 0.2.0
OWNER = "olive@lovelace.example"
MAILBOXES = [f"{name}@lovelace.example" for name in ("ada", "grace", "mary")]
WORKERS = ("worker", "worker-2", "worker-3", "worker-4")
SERVICES = ("web", "stream", "scheduler", *WORKERS)
PACE_SECONDS = 1.5  # between two proposals of one agent
LONGEST = 600.0
HERE = "127.0.0.1"


class Load:
    """An agent for each mailbox that proposes, and a person who approves, until the block ends."""

    actions: ClassVar[dict[str, str]] = {}  # the ids of all loads by their subjects
    _numbers = itertools.count(1)

    def __init__(self, day: "Day") -> None:
        self._day = day
        self._ended = threading.Event()
        self._proposed: queue.Queue[str] = queue.Queue()
        self.calls: list[tuple[float, int]] = []  # seconds and status of each first call
        self.pages: Counter[int] = Counter()
        self._threads = [
            *(threading.Thread(target=self._propose, args=[each]) for each in MAILBOXES),
            threading.Thread(target=self._approve),
        ]

    def _propose(self, mailbox: str) -> None:
        while not self._ended.wait(PACE_SECONDS):
            subject = f"Mail {next(self._numbers)}"
            began = time.monotonic()
            answer = self._day.propose(mailbox, subject)
            status = answer.status if answer else 0
            self.calls.append((time.monotonic() - began, status))
            while status != 202 and not self._ended.wait(PACE_SECONDS):
                answer = self._day.propose(mailbox, subject)  # the same key
                status = answer.status if answer else 0
            if answer and status == 202:
                self.actions[subject] = answer.json()["action"]["id"]
                self._proposed.put(self.actions[subject])

    def _approve(self) -> None:
        while not self._ended.is_set():
            with suppress(queue.Empty):
                action = self._proposed.get(timeout=PACE_SECONDS)
                status = self._day.approve(action)
                self.pages[status] += 1
                if status != 302:
                    self._proposed.put(action)
                    self._ended.wait(PACE_SECONDS)

    def __str__(self) -> str:
        accepted = [seconds for seconds, status in self.calls if status == 202]
        refused = Counter(status for _, status in self.calls if status != 202)
        return (
            f"{len(self.calls)} proposals, refused at the first call: {dict(refused) or 'none'}, slowest answer"
            f" {max(accepted, default=0):.1f} s; approvals answered {dict(self.pages)}"
        )

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(LONGEST)


class Day:
    """The servers around mailhub, and the steps of the day in their order."""

    def __init__(self, folder: Path) -> None:
        self._stack = ExitStack()
        enter = self._stack.enter_context
        self.folder = folder
        self.database, self.redis, self.imap = (
            enter(DurablePostgres()),
            enter(Redis()),
            enter(Dovecot()),
        )
        self._filing = threading.Lock()
        self.smtp = enter(FaultySmtp(on_accept=self._file_copy))
        folder.chmod(0o755)  # PostgreSQL runs as another account
        self.authority = Authority.create(folder)
        self.certificate = self.authority.server_context(HERE)
        imap = enter(TlsRelay(self.certificate, (HERE, self.imap.port))).port
        smtp = enter(TlsRelay(self.certificate, (HERE, self.smtp.port))).port
        self._servers = (f"{HERE}:{imap}", f"{HERE}:{smtp}")
        settings = {
            "SSL_CERT_FILE": str(self.authority.file),
            "MAILHUB_LOOPBACK_SERVERS": ",".join(self._servers),
            "MAILHUB_ALLOW_LOOPBACK_HOSTS": "1",  # its name in 0.2.0
        }
        self.machine = Machine(folder / "machine", settings)
        self.proxy = enter(Caddy(web=self.machine.web_port, stream=self.machine.stream_port))
        self.machine.settings["MAILHUB_PUBLIC_URL"] = self.proxy.url
        self.prometheus = enter(Prometheus(urlsplit(self.proxy.url).netloc, "m" * 40))
        self._token = ""
        self._person = Person(self.proxy.url)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.machine.stop(signum=signal.SIGKILL)
        self.machine.close_ports()
        with suppress(subprocess.CalledProcessError):
            self.machine.unmount()
        self._stack.close()

    def _file_copy(self, accepted: Accepted) -> None:
        """Save what was accepted in Sent, as many providers do."""
        with self._filing:
            self.imap.deliver(accepted.sender, accepted.content, folder="Sent Messages")

    # Programs and people

    def propose(self, mailbox: str, subject: str) -> Answer | None:
        """Propose a mail with its subject as the key; None if there was no answer."""
        mail = (
            f'{{"mailbox": "{mailbox}", "to": ["mira@northwind.example"], "subject": "{subject}", '
        )
        mail += f'"body": "About {subject}.", "confirm": true}}'
        headers = {"Authorization": f"Bearer {self._token}", "Idempotency-Key": subject}
        headers["Content-Type"] = "application/json"
        with suppress(OSError):
            url = f"{self.proxy.url}/api/v1/tools/send_email"
            return request(url, "POST", body=mail.encode(), headers=headers)
        return None

    def approve(self, action: str) -> int:
        """Approve on the page, and return the status of the answer; 0 without one."""
        try:
            return self._person.submit(f"/actions/{action}/", "approve").status
        except (OSError, AssertionError):
            return 0

    def state(self, action: str) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self._token}"}
        answer = request(f"{self.proxy.url}/api/v1/actions/{action}", headers=headers)
        found: dict[str, Any] = answer.json()
        return found

    # The view of the operator

    def missing(self) -> list[str]:
        with suppress(OSError, ValueError):
            found: list[str] = self._statusz().json()["missing"]
            return found
        return ["no answer"]

    def _statusz(self) -> Answer:
        return request(f"http://{HERE}:{self.machine.web_port}/statusz")

    def wait(self, condition: Callable[[], object], since: float) -> str:
        """Return the seconds until the condition holds."""
        until(lambda: condition() or None, seconds=LONGEST, say=lambda: str(self.missing()))
        return f"{time.monotonic() - since:.0f} s"

    def alarm(self, part: str, rule: str, since: float) -> None:
        """Print when /statusz named the part, and when the alarm fired."""
        self.say(
            f"/statusz named `{part}` after {self.wait(lambda: part in self.missing(), since)}"
        )
        self.say(f"{rule} fired after {self.wait(lambda: rule in self.prometheus.firing(), since)}")
        self.say(f"/statusz said {self._statusz().text}")

    def well(self, since: float) -> None:
        """Print when all is well again and mail leaves."""
        self.say(f"/statusz was well after {self.wait(lambda: not self.missing(), since)}")
        before = len(self.smtp.ledger)
        self.say(f"mail left after {self.wait(lambda: len(self.smtp.ledger) > before + 2, since)}")

    def run_in(self) -> None:
        """Wait until mail leaves."""
        before = len(self.smtp.ledger)
        self.wait(lambda: len(self.smtp.ledger) > before + 3, 0)

    def say(self, what: object) -> None:
        print(f"  {what}", flush=True)

    # The steps

    def install(self, code: Path) -> None:
        """Install as deploy.md says, and connect the mailboxes."""
        began = time.monotonic()
        machine = self.machine
        machine.mount()
        for name, value in {
            "secret_key": "s" * 64,
            "encryption_keys": b64encode(b"k" * 32).decode(),
            "metrics_token": "m" * 40,
            "database_url": self.database.url,
            "redis_url": self.redis.url,
        }.items():
            machine.secret(name, value)
        machine.link(code)
        machine.listen(web=machine.web_port)
        if code == PROJECT:  # the server of streams of 0.2.0 opens its port itself
            machine.listen(stream=machine.stream_port)
        machine.run("migrate")
        machine.start(*SERVICES)
        self.wait(lambda: self._answers("/readyz"), began)
        machine.manage("create_user", "--email", OWNER, "--name", "Olive Owner")
        imap, smtp = self._servers
        for address in MAILBOXES:
            self.imap.signed_in(address)
            connect = ("connect_mailbox", "imap", "--address", address, "--owner", OWNER)
            servers = ("--imap", f"{imap}:tls", "--smtp", f"{smtp}:tls", "--password-stdin")
            machine.manage(*connect, *servers, stdin=PASSWORD)
        named = ("--name", "agent", "--scopes", "mail:read,mail:propose")
        every = ("--mailboxes", ",".join(MAILBOXES))
        self._token = machine.manage("create_token", "--user", OWNER, *named, *every)
        self._sign_in()
        with Load(self):
            self.run_in()
        self.say(f"installed, connected, first mails sent: {time.monotonic() - began:.0f} s")

    def _sign_in(self) -> None:
        link = self.machine.manage("sign_in_link", "--user", OWNER)
        person = Person(self.proxy.url)
        assert person.submit(self.proxy.url + urlsplit(link).path, "sign-in").status == 302
        self._person = person

    def _answers(self, path: str) -> bool:
        with suppress(OSError):
            return request(f"http://{HERE}:{self.machine.web_port}{path}").status == 200
        return False

    def update(self) -> None:
        """Update 0.2.0 to this tree under load: stop, migrate, start."""
        with Load(self) as load:
            self.run_in()
            began = time.monotonic()
            self.machine.stop()
            stopped = time.monotonic()
            self.machine.link(PROJECT)
            self.machine.listen(stream=self.machine.stream_port)
            self.machine.run("migrate")
            migrated = time.monotonic()
            self.machine.start(*SERVICES)
            self.wait(lambda: self._answers("/readyz"), began)
            ready = time.monotonic()
            self._sign_in()  # the update has ended all sessions
            self.say(
                f"stop {stopped - began:.0f} s, migrate {migrated - stopped:.0f} s,"
                f" start {ready - migrated:.0f} s"
            )
            self.well(began)
        self.say(load)

    def restart(self) -> None:
        """Restart everything, as an update from a release with the same tables does."""
        with Load(self) as load:
            self.run_in()
            began = time.monotonic()
            self.machine.stop()
            self.machine.run("migrate")
            self.machine.start(*SERVICES)
            self.well(began)
        self.say(load)

    def loss(self) -> None:
        """Back up under load, lose the machine a little later, and restore on another one."""
        machine = self.machine
        with Load(self) as load:
            self.run_in()
            began = time.monotonic()
            machine.run("backup")
            (backup,) = machine.backups.iterdir()
            size = sum(path.stat().st_size for path in backup.rglob("*") if path.is_file())
            self.say(f"backup of {size / 1e6:.1f} MB in {time.monotonic() - began:.1f} s")
            at_backup = len(self.smtp.ledger)
            self.run_in()
            self.say(load)
            lost = time.monotonic()
            self.proxy.stop()
            machine.stop(signum=signal.SIGKILL)
            machine.close_ports()
            self.database.close()
            machine.unmount()
        self.say(f"{len(self.smtp.ledger) - at_backup} mails had left since the backup")
        down = self.wait(lambda: "MailhubDown" in self.prometheus.firing(), lost)
        self.say(f"MailhubDown fired after {down}")

        began = time.monotonic()
        self.database = self._stack.enter_context(DurablePostgres())
        machine.secret("database_url", self.database.url)
        machine.mount()
        said = machine.manage("restore", str(backup), stdin="y\ny\n")
        self.say(f"restore in {time.monotonic() - began:.0f} s:\n{said}")
        machine.listen(web=machine.web_port, stream=machine.stream_port)
        machine.start(*SERVICES)
        self.proxy.start()
        self.wait(lambda: self._answers("/readyz"), began)
        self._sign_in()  # the restore has ended all sessions
        with Load(self) as load:
            self.well(began)
        self.say(load)
        self.say(f"verify_audit: {machine.manage('verify_audit')}")

    def disk(self) -> None:
        """Fill the disk of the home."""
        full = self.machine.home / "other-program"
        with Load(self) as load:
            self.run_in()
            began = time.monotonic()
            with full.open("wb") as file, suppress(OSError):
                while True:
                    file.write(bytes(1 << 20))
            self.alarm("home", "MailhubHomeFull", began)
            self.say(f"under a full disk: {load}")
            full.unlink()
            self.say("room again")
            self.well(time.monotonic())
        self.say(load)

    def workers(self) -> None:
        """Kill all workers in the middle of a send; later let them stay dead."""
        with Load(self) as load:
            self.run_in()
            hold = self.smtp.hold(at="accepted")
            hold.wait()
            subject = message_from_bytes(self.smtp.ledger[-1].content)["Subject"]
            began = time.monotonic()
            for name in WORKERS:
                self.machine.services[name].kill()
            hold.release()
            action = load.actions[subject]
            ended = ("succeeded", "failed")
            self.well(began)
            found = self.wait(lambda: self.state(action)["state"] in ended, began)
            self.say(f"the mail that was leaving was {self.state(action)['state']} after {found}")
            self.say(f"lease_expired in the log: {self.machine.logged('lease_expired')}")
            began = time.monotonic()
            self.machine.stop(*WORKERS, signum=signal.SIGKILL)
            self.alarm("worker", "MailhubNoWorker", began)
            self.machine.start(*WORKERS)
            self.say("started again")
            self.well(time.monotonic())
        self.say(load)

    def flush(self) -> None:
        """Let Redis forget everything."""
        with Load(self) as load:
            self.run_in()
            before = self.prometheus.firing()  # an alarm of the step before may still be on
            began = time.monotonic()
            with socket.create_connection((HERE, self.redis.port)) as client:
                client.sendall(b"FLUSHALL\r\n")
                assert client.recv(16).startswith(b"+OK")
            self.well(began)
            self.run_in()
            new = self.prometheus.firing() - before
            self.say(f"new alarms: {new or 'none'}, missing: {self.missing()}")
        self.say(load)

    def expired(self) -> None:
        """Let the certificate of the mail server expire, and renew it."""
        with Load(self) as load:
            self.run_in()
            self.certificate.load_cert_chain(self.authority.server_file(HERE, expired=True))
            began = time.monotonic()
            self.alarm("sending", "MailhubNothingLeaves", began)
            newest = reversed([*load.actions.values()])
            waiting = next(each for each in newest if self.state(each).get("error"))
            self.say(f"a program reads {self.state(waiting)['error']}")
            story = self.machine.manage("explain", waiting).splitlines()
            self.say(f"explain says {[line for line in story if 'unreachable' in line][:2]}")
            self.certificate.load_cert_chain(self.authority.server_file(HERE))
            self.say("renewed")
            self.well(time.monotonic())
        self.say(load)

    def nothing_twice(self) -> None:
        subjects = Counter(message_from_bytes(each.content)["Subject"] for each in self.smtp.ledger)
        twice = [subject for subject, number in subjects.items() if number > 1]
        self.say(f"{len(subjects)} mails sent so far, twice: {twice or 'none'}")
        assert not twice


STEPS = ("update", "restart", "loss", "disk", "workers", "flush", "expired")


def main(chosen: list[str]) -> None:
    """Run all steps, or those that are named; without `update`, begin with this tree."""
    steps = [each for each in STEPS if not chosen or each in chosen]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="mailhub-day-") as place:
        code = PROJECT
        if "update" in steps:
            began = time.monotonic()
            code = Path(place) / "0.2.0"
            unpack(EARLIER, code, "agent")
            print(f"0.2.0 is there after {time.monotonic() - began:.0f} s", flush=True)
        with Day(Path(place)) as day:
            print("install", flush=True)
            day.install(code)
            for step in steps:
                print(step, flush=True)
                getattr(day, step)()
                day.nothing_twice()


if __name__ == "__main__":
    main(sys.argv[1:])
