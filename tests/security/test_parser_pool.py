"""The processes that parse foreign content: limited, few, and ended with their parent."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from accounts.access.provider_calls import limit_waiting
from tests.security import jobs
from tests.support.processes.proc import proc
from tests.support.processes.programs import until
from tools.mail.parsers import Unparsable
from tools.mail.parsers.pool import Limits, Pool

ROOT = Path(__file__).resolve().parent.parent.parent
SECONDS = 60.0  # for a job that ends by itself
SHORT = 0.5
SPIN = 120.0
SCRIPT = """
import sys, threading, time
sys.path.insert(0, {root!r})
from tests.security import jobs
from tools.mail.parsers.pool import Limits, Pool
pool = Pool(Limits(seconds=1, memory=512 * 1024**2, processes=2))
print(pool.run(jobs.pid), flush=True)
{rest}
"""


@pytest.fixture
def pool() -> Iterator[Pool]:
    made = Pool(Limits(seconds=SECONDS, memory=512 * 1024**2, processes=2))
    yield made
    made.close()


@pytest.fixture
def hurried() -> Iterator[Pool]:
    made = Pool(Limits(seconds=SHORT, memory=512 * 1024**2, processes=2))
    yield made
    made.close()


def reason(pool: Pool, function: object, *arguments: object) -> str:
    assert callable(function)
    with pytest.raises(Unparsable) as caught:
        pool.run(function, *arguments)
    return caught.value.reason


def test_processes_stay_and_are_reused_by_a_large_parent(pool: Pool) -> None:
    large = b"x" * 300 * 1024**2
    assert len({pool.run(jobs.pid) for _ in range(3)}) == 1
    assert large


def test_slow_job_is_ended_and_another_process_is_ready(hurried: Pool) -> None:
    with ThreadPoolExecutor(1) as beside:
        slow = beside.submit(reason, hurried, jobs.spin, SPIN)
        (first,) = until(lambda: hurried.pids)
        assert slow.result() == "slow"  # a job that ends by itself is "done"
    until(partial(gone, first))
    (ready,) = hurried.pids
    assert not gone(ready)


def test_job_that_was_too_slow_is_not_retried(hurried: Pool) -> None:
    reason(hurried, jobs.spin, SPIN)
    processes = hurried.pids
    assert reason(hurried, jobs.spin, SPIN) == "slow"
    assert hurried.pids == processes  # a second attempt would have cost another process


@pytest.mark.parametrize(
    ("job", "arguments", "why"),
    [
        pytest.param(jobs.allocate, (2 * 1024**3,), "slow", id="memory"),
        pytest.param(jobs.crash, (), "slow", id="crash"),
        pytest.param(jobs.fail, (), "broken", id="exception"),
        pytest.param(jobs.lie, (), "broken", id="answer-of-another-type"),
    ],
)
def test_bad_job_is_refused_and_harms_no_other(
    pool: Pool, job: object, arguments: tuple[int, ...], why: str
) -> None:
    assert reason(pool, job, *arguments) == why
    assert pool.run(jobs.spin, 0.0) == "done"


def test_process_that_has_grown_is_replaced(pool: Pool) -> None:
    grown = pool.run(jobs.pid)
    assert pool.run(jobs.keep, 300 * 1024**2) == 1
    assert pool.run(jobs.pid) != grown


def test_number_of_processes_is_bounded(pool: Pool) -> None:
    with ThreadPoolExecutor(8) as threads:
        used = set(threads.map(lambda _: pool.run(jobs.pid), range(40)))
    assert len(used) <= 2
    assert len(pool.pids) <= 2


def for_person(person: str, pool: Pool, *job: Any) -> Any:
    with limit_waiting(person):
        return pool.run(*job)


def test_jobs_of_one_person_let_the_next_person_go_first(pool: Pool) -> None:
    with ThreadPoolExecutor(7) as threads:
        flood = [threads.submit(for_person, "a", pool, jobs.rest, 0.5) for _ in range(6)]
        until(lambda: pool.pids)
        assert threads.submit(for_person, "b", pool, jobs.spin, 0.0).result() == "done"
        assert sum(each.done() for each in flood) < 4
        assert {each.result() for each in flood} == {"done"}


def test_slow_files_of_one_person_leave_a_process_to_others() -> None:
    pool = Pool(Limits(seconds=SECONDS, memory=512 * 1024**2, processes=2, of_person=1))
    with ThreadPoolExecutor(3) as threads:
        slow = [threads.submit(for_person, "a", pool, jobs.rest, SPIN) for _ in range(2)]

        def ended() -> bool:
            pool.close()
            return all(each.done() for each in slow)

        try:
            until(lambda: pool.pids)
            assert threads.submit(for_person, "b", pool, jobs.spin, 0.0).result() == "done"
            assert not any(each.done() for each in slow)
        finally:
            until(ended)


def test_process_has_no_secrets_no_network_and_no_files(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_KEY", "for tests only")
    found = pool.run(jobs.surroundings)
    assert found["environment"] in ("", "LC_CTYPE")
    assert found["network"] != "allowed"
    assert found["file"] != "allowed"
    assert found["process"] != "allowed" or os.getuid() == 0  # the limit does not apply to root
    assert int(found["descriptors"]) <= 6


def test_process_has_no_active_network_interface(pool: Pool) -> None:
    if subprocess.run(
        ["unshare", "--user", "--net", "true"], capture_output=True, check=False
    ).returncode:
        pytest.skip("this kernel lets nobody give up the network")
    assert pool.run(jobs.interfaces) == ["lo"]


def gone(pid: int) -> bool:
    try:
        return proc(pid, "stat").read_text().split()[2] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def parent(rest: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(root=str(ROOT), rest=rest)],
        stdout=subprocess.PIPE,
        text=True,
    )


def first_line(process: "subprocess.Popen[str]") -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


def test_processes_end_with_their_parent() -> None:
    with parent("") as process:
        child = first_line(process)
    assert process.returncode == 0
    until(lambda: gone(child))


@pytest.mark.parametrize("busy", [False, True])
def test_processes_end_when_their_parent_is_killed(busy: bool) -> None:
    spins = (
        "threading.Thread(target=pool.run, args=(jobs.spin, 600.0), daemon=True).start()\n"
        if busy
        else ""
    )
    rest = f"{spins}time.sleep(0.3); print(0, flush=True); time.sleep(600)"
    with parent(rest) as process:
        child = first_line(process)
        first_line(process)
        process.kill()
    until(lambda: gone(child))


def test_fork_uses_processes_of_its_own() -> None:
    rest = (
        "import os\n"
        "if os.fork() == 0:\n"
        "    print(pool.run(jobs.pid), flush=True); os._exit(0)\n"
        "os.wait(); print(pool.run(jobs.pid), flush=True)"
    )
    with parent(rest) as process:
        ours, of_fork, ours_again = (first_line(process) for _ in range(3))
    assert of_fork != ours
    assert ours_again == ours
    for pid in (ours, of_fork):
        until(partial(gone, pid))


def test_terminal_interrupt_does_not_disturb_jobs(pool: Pool) -> None:
    pid = pool.run(jobs.pid)
    killer = threading.Timer(0.2, os.kill, (pid, signal.SIGINT))
    killer.start()
    assert pool.run(jobs.spin, 0.5) == "done"
    killer.join()
