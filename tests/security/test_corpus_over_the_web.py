"""Hostile mail in a real mailbox, read through REST: it slows down its own reader, and nobody else.

The other reader is `/healthz`, which is requested all the time. The same calls for harmless mail
come first: they measure how busy the machine is by itself.
"""

import random
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.security import corpus
from tests.support.processes.installation import Installation
from tests.support.processes.person import request
from tests.support.servers.dovecot import Dovecot
from tests.support.servers.sandbox import ADA
from tests.support.servers.smtp import FaultySmtp

pytestmark = [pytest.mark.process, pytest.mark.sqlite_only]
QUICK, FULL = 5, 300
HEALTH_SECONDS = 0.250
HARMLESS = 15
EVERY_SECONDS = 0.02
READERS = 2
PLAIN_HEAD = b"From: m@x.example\r\nTo: ada@lovelace.example\r\nSubject: x\r\nMIME-Version: 1.0\r\n"
HTML_HEAD = (
    PLAIN_HEAD
    + b"Content-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n"
)


class Health:
    """A thread that requests `/healthz` until the end of the block; `took` holds the seconds of
    each answer.
    """

    def __init__(self, url: str) -> None:
        self.took: list[float] = []
        self._url = f"{url}/healthz"
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self) -> "Health":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _ask(self) -> None:
        while not self._ended.wait(EVERY_SECONDS):
            began = time.monotonic()
            assert request(self._url).status == 200
            self.took.append(time.monotonic() - began)


def mails(count: int) -> Iterator[bytes]:
    """Yield so many mails for each of three parsers, without bytes that no mail server accepts."""
    for html in corpus.html(random.Random(corpus.SEED), count):
        yield HTML_HEAD + html.encode("utf-8", "replace").replace(b"\0", b"")
    for block in corpus.header_blocks(random.Random(corpus.SEED), count):
        yield block.replace(b"\0", b"") + b"Hello\r\n"
    for source in corpus.messages(random.Random(corpus.SEED), count):
        yield source.replace(b"\0", b"")


def listed(installation: Installation) -> list[str]:
    """Return the ids of all mails; the list itself must be readable."""
    found: list[str] = []
    page: dict[str, object] = {"max_results": 50}
    while True:
        answer = installation.rest("POST", "/tools/list_emails", page)
        assert answer.status == 200, answer.text
        found += [card["id"] for card in answer.json()["emails"]]
        if "next_page_token" not in answer.json():
            return found
        page["page_token"] = answer.json()["next_page_token"]


def run(home: Path, count: int) -> str:
    """Let two agents read the corpus at once; return the times of theirs and of `/healthz`."""
    with (
        Dovecot() as dovecot,
        FaultySmtp() as smtp,
        Installation(home, smtp, dovecot) as installation,
    ):
        installation.prepare()
        web = installation.serve()
        statuses: dict[int, int] = {}
        slowest = 0.0

        def read(message_id: str) -> None:
            nonlocal slowest
            for tool, given in (
                ("read_email", {}),
                ("read_email", {"format": "html"}),
                ("read_thread", {}),
            ):
                began = time.monotonic()
                answer = installation.rest(
                    "POST", f"/tools/{tool}", {"message_id": message_id, **given}
                )
                slowest = max(slowest, time.monotonic() - began)
                statuses[answer.status] = statuses.get(answer.status, 0) + 1
                assert answer.status in (200, 422, 503), (answer.text, web.log())

        for number in range(HARMLESS):
            dovecot.deliver(ADA, HTML_HEAD + f"<p>Mail <b>{number}</b></p>".encode() * 200)
        harmless = listed(installation)
        for each in harmless[:READERS]:
            # The first call imports modules and starts processes, whatever the mail contains.
            read(each)
        with Health(installation.url) as quiet, ThreadPoolExecutor(READERS) as readers:
            list(readers.map(read, harmless))
        for mail in mails(count):
            dovecot.deliver(ADA, mail)
        ids = [each for each in listed(installation) if each not in harmless]
        statuses.clear()
        slowest = 0.0
        with Health(installation.url) as busy, ThreadPoolExecutor(READERS) as readers:
            list(readers.map(read, ids))
        worst, usual = max(busy.took), max(quiet.took)
        said = (
            f"{len(ids)} mails, {sum(statuses.values())} calls, answers {statuses}, the slowest {slowest:.1f} s; "
            f"/healthz: {worst * 1000:.0f} ms at worst of {len(busy.took)}, {usual * 1000:.0f} ms beside harmless mail"
        )
        assert len(ids) == 3 * count
        assert worst < HEALTH_SECONDS + usual, said
        assert statuses.get(200, 0) > 2 * len(ids), said
        return said


@pytest.mark.long  # it measures times, which vary on a busy machine
@pytest.mark.timeout(240)
def test_hostile_mail_does_not_delay_other_readers(tmp_path: Path) -> None:
    sys.stdout.write(run(tmp_path, QUICK))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_hostile_corpus_does_not_delay_other_readers(tmp_path: Path) -> None:
    sys.stdout.write(run(tmp_path, FULL))
