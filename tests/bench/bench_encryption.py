"""The cost of encrypting stored content, compared with storing it as it is. `make bench` prints it.

BENCH_QUICK=1 runs a few rounds and writes nothing: it shows that the benchmark still works.
Collected only by name: a test must not measure time.
"""

import os
import statistics
import time
from collections.abc import Callable
from hashlib import sha256

import pytest
from django.db import connection, transaction

from accounts.infra.keys import decrypt_content, encrypt_content
from approvals.models import Blob, PendingAction
from tests.bench.page import write_section
from tests.conftest import Api

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(900),
    pytest.mark.postgres_only,
]

QUICK = bool(os.environ.get("BENCH_QUICK"))
ROUNDS = 20 if QUICK else 400
SMALL = 40 * 1024
SIZES = {"a mail of 40 KB": SMALL, "a mail of 10 MB": 10 * 1024**2}
INSERT = "INSERT INTO approvals_blob (action_id, sha256, content) VALUES (%s, %s, %s)"
SELECT = "SELECT content FROM approvals_blob WHERE action_id = %s AND sha256 = %s"


def median_of(*calls: Callable[[], object], rounds: int) -> list[float]:
    """Return the median milliseconds of each call; the calls alternate."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, taken in zip(calls, times, strict=True):
            began = time.perf_counter()
            call()
            taken.append((time.perf_counter() - began) * 1000)
    return [statistics.median(taken) for taken in times]


def rows_of(action: PendingAction, title: str, size: int) -> list[str]:
    plain, name = os.urandom(size), sha256(b"another").hexdigest()
    encrypted, bare = (sha256(title.encode() + how).hexdigest() for how in (b"encrypted", b"bare"))
    bound_to = f"approvals_blob:content:{action.pk}:{encrypted}"
    record = encrypt_content(plain, bound_to=bound_to)
    Blob.objects.create(action=action, sha256=encrypted, content=plain)
    with connection.cursor() as cursor:
        cursor.execute(INSERT, [action.pk, bare, plain])

    def store_encrypted() -> None:
        with transaction.atomic():
            Blob.objects.create(action=action, sha256=name, content=plain)
            transaction.set_rollback(True)

    def store_bare() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(INSERT, [action.pk, name, plain])
            transaction.set_rollback(True)

    def read_encrypted() -> bytes:
        return bytes(Blob.objects.get(action=action, sha256=encrypted).content)

    def read_bare() -> bytes:
        with connection.cursor() as cursor:
            cursor.execute(SELECT, [action.pk, bare])
            return bytes(cursor.fetchone()[0])

    assert read_encrypted() == plain == read_bare()
    medians = median_of(
        lambda: encrypt_content(plain, bound_to=bound_to),
        lambda: decrypt_content(record, bound_to=bound_to),
        store_encrypted,
        store_bare,
        read_encrypted,
        read_bare,
        rounds=max(ROUNDS * SMALL // size, 10),
    )
    encrypting, decrypting, write, bare_write, read, bare_read = medians
    return [
        f"| {title}, encrypted | {encrypting:.2f} ms | {write:.1f} / {bare_write:.1f} ms = {write / bare_write:.2f} |",
        f"| {title}, decrypted | {decrypting:.2f} ms | {read:.1f} / {bare_read:.1f} ms = {read / bare_read:.2f} |",
    ]


def test_cost_of_encrypted_content(api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    api.propose()
    action = PendingAction.objects.get()
    lines = ["| what | alone | with the database / as it is, in SQL |", "| --- | --- | --- |"]
    for title, size in SIZES.items():
        lines += rows_of(action, title, size)
    with capsys.disabled():
        text = (
            "\n" + "\n".join(lines)
            if QUICK
            else "\n" + write_section("Content, encrypted at rest", lines)
        )
        print(text)  # noqa: T201
