"""The CPU of reading over REST, against imapclient on a kept connection with its folder selected.

`make bench` prints it.

BENCH_QUICK=1 runs a few rounds and writes nothing: it shows that the benchmark still works.
Collected only by name: a test must not measure time.
"""

import json
import os
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.bench import goals
from tests.bench.bench_reading import filled, found, newest_ten, read_whole
from tests.bench.page import QUICK, write_section
from tests.support.people.office import Office, letter, office

__all__ = ["office"]
pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(300),
    pytest.mark.postgres_only,
]
ROUNDS, MESSAGES = (5, 200) if QUICK else (100, 3_000)
TITLE = "CPU of a read over a kept imapclient connection"


def cpu_in_turn(*calls: Callable[[], object]) -> list[float]:
    """Return the median CPU milliseconds of each call in this process; every round runs all."""
    taken: list[list[float]] = [[] for _ in calls]
    for _ in range(ROUNDS + 2):
        for call, times in zip(calls, taken, strict=True):
            began = time.process_time()
            call()
            times.append((time.process_time() - began) * 1000)
    return [statistics.median(times[2:]) for times in taken]


def test_cpu_of_reading(office: Office, settings: Any) -> None:
    settings.MAILHUB_REQUESTS_PER_MINUTE = 1_000_000
    filled(office, MESSAGES)
    name = office.receive(letter(to=office.ada, subject="40 KB", text="word " * 8_000))
    client = office.imap.signed_in(office.ada)
    client.select_folder("INBOX")
    uid = client.search(["ALL"])[-1]
    headers = {"Authorization": f"Bearer {office.api.secret}"}

    def call(tool: str, **arguments: Any) -> Callable[[], None]:
        content = json.dumps(arguments)

        def post() -> None:  # without the comparison of the answer with its published type
            answer = office.api.client.post(
                f"/api/v1/tools/{tool}", content, content_type="application/json", headers=headers
            )
            assert answer.status_code == 200, answer.content

        return post

    times = cpu_in_turn(
        call("list_emails"),
        lambda: newest_ten(client),
        call("search_emails", **{"from": "insura"}),
        lambda: found(client),
        call("read_email", message_id=name),
        lambda: read_whole(client, uid),
    )
    names = ("newest ten", "search by a common sender", "a mail of 40 KB")
    lines = table(dict(zip(names, zip(times[::2], times[1::2], strict=True), strict=True)))
    goals.collected.extend(lines)
    if not QUICK:
        write_section(TITLE, lines)


def table(times: dict[str, tuple[float, float]]) -> list[str]:
    """Return the section: the CPU milliseconds of each read over REST and with imapclient."""
    return [
        f"Of {MESSAGES:,} mails. Measured {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, load average"
        f" {os.getloadavg()[0]:.1f}.",
        "",
        "| what | over REST | imapclient | more |",
        "| --- | --- | --- | --- |",
        *(
            f"| {what} | {ours:.1f} ms | {floor:.1f} ms | {ours - floor:+.1f} ms |"
            for what, (ours, floor) in times.items()
        ),
    ]
