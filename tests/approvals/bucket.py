"""Fixtures with message bytes in a bucket; each of its calls fails inside a transaction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.files.base import File
from django.core.files.storage import storages
from django.db import connection

from tests.support.servers.s3 import QuickBucket, TestBucket, make_bucket

__all__ = ["bucket"]


class Guarded(QuickBucket):
    """The bucket of mailhub, for tests that hold no transaction themselves."""

    def _open(self, name: str, mode: str = "rb") -> Any:
        _refuse_in_transaction()
        return super()._open(name, mode)

    def _save(self, name: str, content: File[bytes]) -> str:
        _refuse_in_transaction()
        return super()._save(name, content)

    def delete(self, name: str) -> None:
        _refuse_in_transaction()
        super().delete(name)


def _refuse_in_transaction() -> None:
    assert not connection.in_atomic_block, "the bucket is called inside a transaction"


@pytest.fixture
def bucket(s3: int, settings: Any) -> Iterator[TestBucket]:
    """Let new bytes go to an empty bucket."""
    with make_bucket(s3) as bucket:
        guarded = {"BACKEND": f"{__name__}.Guarded", "OPTIONS": {**bucket.options, "seconds": 1}}
        settings.STORAGES = {**settings.STORAGES, "messages": guarded}
        settings.MAILHUB_CONTENT_STORE = "s3"
        yield bucket
        messages = storages["messages"]
        assert isinstance(messages, Guarded)
        messages.client.close()
