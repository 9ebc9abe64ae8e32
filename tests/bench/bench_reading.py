"""The CPU of reading over REST, against imapclient on a kept connection with its folder selected.

BENCH_QUICK=1 runs a few rounds and writes nothing. Collected only by name: a test must not measure
time.
"""

import json
import os
import pwd
import statistics
import time
from collections.abc import Callable
from email import message_from_bytes, policy
from email.utils import formatdate
from typing import Any

import pytest
from imapclient import IMAPClient

from tests.bench.page import QUICK, Measured, report
from tests.support.people.office import Office, letter, office

__all__ = ["office"]
pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(300),
    pytest.mark.postgres_only,
]
ROUNDS, MESSAGES = (5, 200) if QUICK else (100, 3_000)
A_DAY = 20  # mails
MORE_MS = 10


def filled(office: Office, count: int) -> None:
    """Put `count` messages into Ada's inbox at once, twenty a day until now: as files, because
    APPEND would take minutes.
    """
    folder = office.imap.folder / "mail" / office.ada / "cur"
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        sender = f"Person {number % 97} <p{number % 97}@{'northwind' if number % 15 else 'insura'}.example>"
        message = letter(
            to=office.ada,
            subject=f"Order {number} is on its way",
            sender=sender,
            text="word " * 400,
        )
        arrived = time.time() - (count - number) * 86_400 / A_DAY
        message.replace_header("Date", formatdate(arrived))
        file = folder / f"{arrived:.0f}.M{number}P1.bench:2,S"
        file.write_bytes(message.as_bytes())
        os.utime(file, (arrived, arrived))  # the INTERNALDATE
    owner = pwd.getpwnam("nobody") if os.getuid() == 0 else pwd.getpwuid(os.getuid())
    for path in (folder.parent, folder, *folder.iterdir()):
        os.chown(path, owner.pw_uid, owner.pw_gid)


def read_whole(client: IMAPClient, uid: int) -> None:
    """Read as a client without BODYSTRUCTURE does: fetch all of it, and then take the text."""
    source = client.fetch([uid], ["BODY.PEEK[]"])[uid][b"BODY[]"]
    text = message_from_bytes(source, policy=policy.default).get_body(("plain",))
    assert text is not None
    assert "word" in text.get_content()


def newest_ten(client: IMAPClient) -> None:
    uids = client.search(["UID", "1:*"])[-10:]
    client.fetch(uids, ["ENVELOPE", "FLAGS", "BODYSTRUCTURE"])


def found(client: IMAPClient) -> None:
    uids = client.search(["FROM", "insura"])[-10:]
    client.fetch(uids, ["ENVELOPE", "FLAGS", "BODYSTRUCTURE"])


def cpu_in_turn(*calls: Callable[[], object]) -> list[float]:
    """Return the median CPU milliseconds of each call in this process; every round runs all."""
    taken: list[list[float]] = [[] for _ in calls]
    for _ in range(ROUNDS + 2):
        for call, times in zip(calls, taken, strict=True):
            began = time.process_time()
            call()
            times.append((time.process_time() - began) * 1000)
    return [statistics.median(times[2:]) for times in taken]


@pytest.mark.goal("P2")
def test_cpu_of_reading(office: Office, settings: Any) -> None:
    settings.MAILHUB_REQUESTS_PER_MINUTE = 1_000_000
    settings.MAILHUB_REQUEST_LOG_SECONDS = 30  # as in production, where a thread writes the log
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
    report(
        "P2",
        *(
            Measured(
                what=f"CPU of a read, over REST / imapclient: {name}, of {MESSAGES:,} mails",
                measured=f"{ours - floor:+.1f} ms ({ours:.1f} / {floor:.1f})",
                limit=f"+{MORE_MS} ms",
                met=ours - floor <= MORE_MS,
            )
            for name, ours, floor in zip(names, times[::2], times[1::2], strict=True)
        ),
    )
