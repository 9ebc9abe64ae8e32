"""Faults around the programs: blows drawn from the seed, each of them undone by `heal`."""

import contextlib
import fcntl
import json
import os
import resource
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from tests.faults.checker import STRANGER
from tests.faults.databases import Connection
from tests.faults.opened import opened, payload_of
from tests.faults.plan import JUMP_HOURS, JUMPS, Plan
from tests.faults.plant import Plant
from tests.faults.process import Process
from tests.faults.rights import Rights
from tests.faults.tables import id_of
from tests.faults.worlds import Restore
from tests.support.power.clock import Clock
from tests.support.processes.programs import session_of

TAMPERED_SECONDS = 4.0
READ_ONLY_SECONDS = 3.0
HELD_SECONDS = 8.0
FULL_SECONDS = 6.0
JUMP_SECONDS = (2.0, 8.0)
SIGN_IN_SECONDS = 8.0
LOOKS_SECONDS = 1.0
LOCKS = Path("/proc/locks")
DOWN_SECONDS = 0.3
# There is no server to restart, and a write behind its guards would bypass the recorded disk. All of
# a machine's programs have one clock, so none is wrong beside the others.
NOT_ON_SQLITE = (
    "database restarted",
    "database crashed",
    "database read-only",
    "disk full",
    "content altered in the database",
    "bytes altered in the database",
    "database's clock jumped",
    "worker's clock jumped",
)
NOT_WITHOUT_BROKER = (
    "broker flushed",
    "broker restarted",
    "only the worker's parent killed",
    "worker's child killed",
)


@dataclass(frozen=True, kw_only=True)
class Later:
    """An action that is due at a moment."""

    at: float
    act: Callable[[], None]


class Nemesis:
    """One blow after another; `blows` counts those that were dealt."""

    def __init__(self, plant: Plant, plan: Plan) -> None:
        self._plant = plant
        self._plan = plan
        self._random = Random(f"{plant.setup.seed} nemesis")
        self._blows = dict(plan.blows)
        if plant.broker is None:
            for blow in NOT_WITHOUT_BROKER:
                self._blows.pop(blow, None)
        if plant.setup.on_sqlite:
            for blow in NOT_ON_SQLITE:
                self._blows.pop(blow, None)
        if not plant.setup.on_machines:
            self._blows.pop("machine killed", None)
        if plant.setup.queue == "celery on RabbitMQ":
            # it takes longer than all the others together
            self._blows.pop("broker restarted", None)
        self._later: list[Later] = []
        self._planned: list[Later] = []
        self.blows: Counter[str] = Counter()
        self.restores: list[Restore] = []
        self.rights = Rights(plant, self._random)

    def run(self, *, seconds: float, go_on: Callable[[], bool]) -> None:
        """Strike until the time is over or `go_on`, called about once a second, returns False.

        Call it in the main thread: a service ends with the thread that started it.
        """
        next_blow = time.monotonic()
        deadline = next_blow + seconds
        self._planned = self._at_drawn_moments(next_blow, seconds)
        while (now := time.monotonic()) < deadline and go_on():
            for later in [later for later in self._later if later.at <= now]:
                self._later.remove(later)
                later.act()
            for planned in [planned for planned in self._planned if planned.at <= now]:
                self._planned.remove(planned)
                planned.act()
            if now >= next_blow:
                self._strike()
                next_blow = time.monotonic() + self._random.uniform(*self._plan.blow_every)
            soonest = min([next_blow, deadline, now + 1, *(later.at for later in self._later)])
            time.sleep(max(soonest - time.monotonic(), 0))

    def _at_drawn_moments(self, began: float, seconds: float) -> list[Later]:
        """Return the heavy blows, each at a drawn moment within its part of the time."""
        planned = []
        for number in range(self._plan.power_cuts):
            share = (number + self._random.uniform(0.3, 0.9)) / self._plan.power_cuts
            planned.append(Later(at=began + share * seconds, act=self._cut_power))
        for number in range(self._plan.restores):
            for act, (first, last) in (
                (self._copy, (0.1, 0.4)),
                (self._restore, (0.5, 0.65)),
                (self._restore_again, (0.75, 0.9)),
            ):
                share = (number + self._random.uniform(first, last)) / self._plan.restores
                planned.append(Later(at=began + share * seconds, act=act))
        return planned

    def _copy(self) -> None:
        """Copy under load, without the rows that were written behind the guards."""
        self._undo()
        self._plant.server.dump(str(self._plant.environment["DATABASE_URL"]))

    def _restore(self, *, new_home: bool = False) -> None:
        self._undo()
        name = f"restored{len(self.restores)}"
        self.restores.append(self._plant.restore(name, new_home=new_home))
        self.blows["older copy restored"] += 1

    def _restore_again(self) -> None:
        """Restore the same copy once more, for a home without its journal and its heads."""
        self._restore(new_home=True)
        self.blows["same copy restored again, in a new home"] += 1

    def _cut_power(self) -> None:
        self._plant.cut_power()
        self.blows["power cut"] += 1

    def _undo(self) -> None:
        for later in self._later:
            later.act()
        self._later.clear()
        self.rights.connect_all_again()

    def heal(self) -> None:
        """Repair everything that is still wrong."""
        self._undo()
        for number, worker in enumerate(self._plant.workers):
            if not worker.runs():
                self._plant.new_worker(number)
        for number, web in enumerate(self._plant.webs):
            if not web.runs():
                self._plant.new_web(number)

    def _strike(self) -> None:
        if not self._blows:
            return
        blow = self._random.choices(list(self._blows), list(self._blows.values()))[0]
        acts: dict[str, Callable[[], bool]] = {
            "worker killed": self._kill_worker,
            "worker told to end": self._end_worker,
            "worker frozen beyond its lease": self._freeze_worker,
            "only the worker's parent killed": self._kill_parent,
            "worker's child killed": self._kill_child,
            "broker flushed": self._flush,
            "broker restarted": self._restart_broker,
            "database restarted": lambda: self._restart_database(self._plant.server.stop),
            "database crashed": lambda: self._restart_database(self._plant.server.crash),
            "database read-only": self._forbid_writes,
            "journal held": self._hold_journal,
            "worker frozen with the journal": self._freeze_holder,
            "disk full": self._fill_disk,
            "jobs doubled": self._double_jobs,
            "web server killed": self._kill_web,
            "machine killed": self._kill_machine,
            "content altered in the database": self._alter_content,
            "bytes altered in the database": self._alter_bytes,
            "database's clock jumped": self._move_clock_of_database,
            "worker's clock jumped": lambda: self._move(self._random.choice(self._plant.clocks)),
            "token revoked": self.rights.revoke_token,
            "program's sign-in ended": self.rights.end_sign_in,
            "connection of a mailbox changed": self.rights.change_connection,
            "mailbox's sign-in ended": self._end_mailbox_sign_in,
        }
        if acts[blow]():
            self.blows[blow] += 1

    def _after(self, seconds: float, act: Callable[[], None]) -> None:
        self._later.append(Later(at=time.monotonic() + seconds, act=act))

    def _any_worker(self) -> tuple[int, Process]:
        number = self._random.randrange(len(self._plant.workers))
        return number, self._plant.workers[number]

    def _kill_worker(self) -> bool:
        """Kill the worker that has lived longest, after its first heartbeat.

        On a busy machine a start takes a while, and a worker that is killed while it starts has
        done nothing that could go wrong.
        """
        number, worker = min(enumerate(self._plant.workers), key=lambda each: each[1].started_at)
        with self._plant.database() as connection:
            seen = connection.execute(
                "SELECT 1 FROM approvals_heartbeat WHERE worker LIKE %s", [f"%:{worker.pid}"]
            )
            if seen.fetchone() is None:
                return False
        worker.signal_all(signal.SIGKILL)
        worker.kill()
        self._plant.new_worker(number)
        return True

    def _end_worker(self) -> bool:
        number, worker = self._any_worker()
        if worker.process is not None:
            worker.process.send_signal(signal.SIGTERM)
        self._plant.new_worker(number)
        return True

    def _freeze_worker(self) -> bool:
        _, worker = self._any_worker()
        worker.signal_all(signal.SIGSTOP)
        self._after(
            self._random.uniform(*self._plan.frozen_seconds),
            lambda: worker.signal_all(signal.SIGCONT),
        )
        return True

    def _kill_parent(self) -> bool:
        """Kill a parent process; its forks continue by themselves."""
        number, worker = self._any_worker()
        if worker.process is not None:
            worker.process.kill()
        self._plant.new_worker(number)
        return True

    def _kill_child(self) -> bool:
        _, worker = self._any_worker()
        children = [pid for pid in session_of(worker.pid) if pid != worker.pid]
        if not children:
            return False
        return _killed(self._random.choice(sorted(children)))

    def _flush(self) -> bool:
        self._plant.flush_broker()
        return True

    def _restart_broker(self) -> bool:
        assert self._plant.broker is not None
        self._plant.broker.stop()
        time.sleep(DOWN_SECONDS)
        self._plant.broker.start()
        return True

    def _restart_database(self, stop: Callable[[], None]) -> bool:
        stop()
        time.sleep(DOWN_SECONDS)
        self._plant.server.start()
        return True

    def _forbid_writes(self) -> bool:
        """Let the server take no writes for a while, as one that was demoted."""
        self._set_read_only("on")
        self._after(READ_ONLY_SECONDS, lambda: self._set_read_only("off"))
        return True

    def _set_read_only(self, value: str) -> None:
        with self._plant.database() as connection:
            connection.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
            connection.execute("SELECT pg_reload_conf()")

    def _hold_journal(self) -> bool:
        """Hold the journal for longer than a worker waits, as a frozen machine does."""
        file = self._plant.journal.open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # a worker or an earlier blow has it
            file.close()
            return False
        self._after(HELD_SECONDS, file.close)
        return True

    def _freeze_holder(self) -> bool:
        """Freeze a process while it holds the journal."""
        inode = f":{self._plant.journal.stat().st_ino} " if self._plant.journal.exists() else ""
        deadline = time.monotonic() + LOOKS_SECONDS
        while inode and time.monotonic() < deadline:
            for line in LOCKS.read_text().splitlines():
                if inode not in line or "->" in line:
                    continue
                if (pid := int(line.split()[4])) != os.getpid():  # it may hold the journal itself
                    os.kill(pid, signal.SIGSTOP)
                    self._after(HELD_SECONDS, partial(_continue, pid))
                    return True
        return False

    def _fill_disk(self) -> bool:
        """Let no file of a worker grow for a while; the next line of the journal fits only in part."""
        _, worker = self._any_worker()
        if not self._plant.journal.exists():
            return False
        _limit_files(worker, self._plant.journal.stat().st_size + 20)
        self._after(FULL_SECONDS, lambda: _limit_files(worker, resource.RLIM_INFINITY))
        return True

    def _double_jobs(self) -> bool:
        """Notify twice more for each of a few open actions, all at once."""
        with self._plant.database() as connection:
            rows = connection.execute(
                "SELECT id FROM approvals_pendingaction WHERE status IN ('approved', 'executing', 'unknown')"
            ).fetchall()
        for (action_id,) in self._random.sample(rows, min(3, len(rows))):
            for _ in range(2):
                self._plant.notify(id_of(action_id))
        return bool(rows)

    def _kill_web(self) -> bool:
        # No draw where there is no choice: each seed keeps the blows that it had.
        webs = len(self._plant.webs)
        self._plant.new_web(self._random.randrange(webs) if webs > 1 else 0)
        return True

    def _kill_machine(self) -> bool:
        self._plant.kill_machine(self._random.randrange(len(self._plant.homes)))
        return True

    def _move_clock_of_database(self) -> bool:
        clock = self._plant.server.clock
        return clock is not None and self._move(clock)

    def _move(self, clock: Clock) -> bool:
        """Set a clock wrong by hours, and right again after a while."""
        clock.move(timedelta(hours=JUMP_HOURS * self._random.choice(JUMPS)))
        self._after(self._random.uniform(*JUMP_SECONDS), lambda: clock.move(timedelta()))
        return True

    def _end_mailbox_sign_in(self) -> bool:
        address = self.rights.end_mailbox_sign_in()
        if address:
            self._after(SIGN_IN_SECONDS, lambda: self.rights.connect_again(address))
        return bool(address)

    def _alter_content(self) -> bool:
        """Write another recipient, in clear as an earlier version stored it, as the owner of the
        database and the key, unless one was written before.
        """
        with self._plant.database() as connection:
            row = _one_approved(
                connection,
                "SELECT r.id, r.payload, r.sealed_payload, r.action_id, r.number"
                " FROM approvals_revision r JOIN approvals_pendingaction a"
                " ON r.action_id = a.id AND r.sealed_payload IS NOT NULL",
            )
            if row is None:
                return False
            stored = dict(
                zip(("id", "payload", "sealed_payload", "action", "number"), row, strict=True)
            )
            payload = payload_of(stored, self._plant.encryption_key)
            altered = json.dumps(payload | {"to": [STRANGER]})
            statement = (
                "UPDATE approvals_revision SET payload = %s, sealed_payload = %s WHERE id = %s"
            )
            _behind_the_guards(connection, statement, altered, None, row[0])
        self._after(
            TAMPERED_SECONDS, lambda: self._put_back(statement, json.dumps(row[1]), row[2], row[0])
        )
        return True

    def _alter_bytes(self) -> bool:
        """Write other bytes under the old name."""
        with self._plant.database() as connection:
            row = _one_approved(
                connection,
                "SELECT b.id, b.content, b.action_id, b.sha256"
                " FROM approvals_blob b JOIN approvals_pendingaction a ON b.action_id = a.id",
            )
            if row is None:
                return False
            content = opened(
                row[1], f"approvals_blob:content:{row[2]}:{row[3]}", self._plant.encryption_key
            )
            statement = "UPDATE approvals_blob SET content = %s WHERE id = %s"
            _behind_the_guards(connection, statement, content + b"One more line.\r\n", row[0])
        self._after(TAMPERED_SECONDS, lambda: self._put_back(statement, bytes(row[1]), row[0]))
        return True

    def _put_back(self, statement: str, *values: object) -> None:
        with self._plant.database() as connection:
            _behind_the_guards(connection, statement, *values)


def _limit_files(worker: Process, most: int) -> None:
    for pid in session_of(worker.pid):
        with contextlib.suppress(ProcessLookupError):
            _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, hard))


def _continue(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def _killed(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _one_approved(connection: Connection, select: str) -> Any:
    """Return the row of an action that will be sent soon."""
    return connection.execute(
        f"{select} WHERE a.status = 'approved' AND a.undo_until > now() LIMIT 1"
    ).fetchone()


def _behind_the_guards(connection: Connection, statement: str, *values: object) -> None:
    """Execute as the owner of the database can: triggers do not fire in a session that plays a
    replica.
    """
    connection.execute("SET session_replication_role = replica")
    connection.execute(statement, values)
