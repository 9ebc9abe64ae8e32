"""A bucket of S3: each call is one bounded request, and what failed says so."""

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.core.files.base import ContentFile

from accounts.infra.bucket import Bucket
from tests.support.servers.s3 import QuickBucket, TestBucket, make_bucket

IN_TIME = 4  # seconds: one wait, on a busy machine
CONTENT = os.urandom(300_000)


@pytest.fixture
def bucket(s3: int) -> Iterator[TestBucket]:
    with make_bucket(s3) as bucket:
        yield bucket


@pytest.fixture
def storage(bucket: TestBucket) -> Iterator[Bucket]:
    storage = QuickBucket(**{**bucket.options, "seconds": 1})
    assert storage.client  # made before a test measures the time
    yield storage
    storage.client.close()


def read(storage: Bucket, name: str = "a/b") -> bytes:
    with storage.open(name) as file:
        return bytes(file.read())


def test_object_is_written_read_and_deleted_by_one_request_each(
    bucket: TestBucket, storage: Bucket
) -> None:
    storage.save("a/b", ContentFile(CONTENT))
    assert (bucket.names(), bucket.read("a/b")) == (["a/b"], CONTENT)

    assert read(storage) == CONTENT
    storage.delete("a/b")
    storage.delete("a/b")

    assert bucket.names() == []
    assert bucket.proxy.seen == ["PUT", "GET", "DELETE", "DELETE"]
    assert bucket.proxy.connections == 1, "the connection is kept"


def test_missing_object_is_not_found(storage: Bucket) -> None:
    with pytest.raises(FileNotFoundError):
        read(storage)


def test_missing_bucket_is_not_a_missing_object(bucket: TestBucket, storage: Bucket) -> None:
    bucket.client.delete_bucket(Bucket=bucket.name)
    with pytest.raises(Exception, match="NoSuchBucket"):
        read(storage)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("500", "ClientError"),
        ("denied", "AccessDenied"),
        ("silent", "ReadTimeoutError"),
        ("slow", "TimeoutError"),
        ("cut", "ConnectionError"),
    ],
)
def test_failed_read_ends_in_time_and_is_not_repeated(
    bucket: TestBucket, storage: Bucket, fault: str, error: str
) -> None:
    bucket.write("a/b", CONTENT)
    bucket.proxy.fail["GET"] = fault  # type: ignore[assignment]
    began = time.monotonic()
    with pytest.raises(Exception) as raised:
        read(storage)
    assert type(raised.value).__name__ == error
    assert time.monotonic() - began < IN_TIME
    assert bucket.proxy.seen == ["GET"]


@pytest.mark.parametrize(
    ("fault", "error"), [("500", "ClientError"), ("silent", "ReadTimeoutError")]
)
@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_failed_change_ends_in_time_and_is_not_repeated(
    bucket: TestBucket, storage: Bucket, method: str, fault: str, error: str
) -> None:
    bucket.proxy.fail[method] = fault  # type: ignore[assignment]
    began = time.monotonic()
    changes: dict[str, Callable[[], object]] = {
        "PUT": lambda: storage.save("a/b", ContentFile(CONTENT)),
        "DELETE": lambda: storage.delete("a/b"),
    }
    with pytest.raises(Exception) as raised:
        changes[method]()
    assert type(raised.value).__name__ == error
    assert time.monotonic() - began < IN_TIME
    assert bucket.proxy.seen == [method]


def test_forked_process_makes_a_client_of_its_own(
    storage: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = storage.client
    monkeypatch.setattr(os, "getpid", lambda: 1)
    assert storage.client is not before


def test_threads_share_one_client(bucket: TestBucket, storage: Bucket) -> None:
    with ThreadPoolExecutor(4) as pool:
        for number in range(4):
            pool.submit(storage.save, f"a/{number}", ContentFile(b"x")).result()
        clients = {id(each) for each in pool.map(lambda _: storage.client, range(8))}
    assert len(clients) == 1
    assert len(bucket.names()) == 4
