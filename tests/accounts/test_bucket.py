"""A bucket of S3: each call is one bounded request, and what failed says so."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.core.files.base import ContentFile

from accounts.infra.bucket import Bucket
from tests.support.servers.s3 import Fault, QuickBucket, TestBucket, make_bucket

SHORT = 2  # seconds: less than any wait of the library, the proxy or botocore
CONTENT = os.urandom(300_000)


@pytest.fixture
def bucket(s3: int) -> Iterator[TestBucket]:
    with make_bucket(s3) as bucket:
        yield bucket


@pytest.fixture
def storage(bucket: TestBucket) -> Iterator[Bucket]:
    storage = QuickBucket(**{**bucket.options, "seconds": 60})
    yield storage
    storage.client.close()


@pytest.fixture
def hurried(bucket: TestBucket) -> Iterator[Bucket]:
    storage = QuickBucket(**{**bucket.options, "seconds": SHORT})
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
    [("500", "ClientError"), ("denied", "AccessDenied"), ("cut", "ConnectionError")],
)
def test_failed_read_is_not_repeated(
    bucket: TestBucket, storage: Bucket, fault: Fault, error: str
) -> None:
    bucket.write("a/b", CONTENT)
    bucket.proxy.fail["GET"] = fault
    assert failure(lambda: read(storage)) == error
    assert bucket.proxy.seen == ["GET"]


@pytest.mark.parametrize(
    ("fault", "error"), [("silent", "ReadTimeoutError"), ("slow", "TimeoutError")]
)
def test_read_ends_before_a_slow_server_does(
    bucket: TestBucket, hurried: Bucket, fault: Fault, error: str
) -> None:
    bucket.proxy.fail["GET"] = fault
    assert failure(lambda: read(hurried)) == error  # and not that the server disconnected
    assert bucket.proxy.seen == ["GET"]


CHANGES: dict[str, Callable[[Bucket], object]] = {
    "PUT": lambda storage: storage.save("a/b", ContentFile(b"x")),
    "DELETE": lambda storage: storage.delete("a/b"),
}


@pytest.mark.parametrize("method", CHANGES)
def test_failed_change_is_not_repeated(bucket: TestBucket, storage: Bucket, method: str) -> None:
    bucket.proxy.fail[method] = "500"
    assert failure(lambda: CHANGES[method](storage)) == "ClientError"
    assert bucket.proxy.seen == [method]


@pytest.mark.parametrize("method", CHANGES)
def test_change_ends_before_a_silent_server_does(
    bucket: TestBucket, hurried: Bucket, method: str
) -> None:
    bucket.proxy.fail[method] = "silent"
    assert failure(lambda: CHANGES[method](hurried)) == "ReadTimeoutError"
    assert bucket.proxy.seen == [method]


def failure(call: Callable[[], object]) -> str:
    """Return the name of the error that a call raises."""
    with pytest.raises(Exception) as raised:
        call()
    return type(raised.value).__name__


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
