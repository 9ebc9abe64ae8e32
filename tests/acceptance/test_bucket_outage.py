"""Real processes with message bytes in a bucket that fails for a while."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes.mailhub import Mailhub
from tests.support.processes.person import Forms
from tests.support.processes.programs import until
from tests.support.servers.s3 import TestBucket, make_bucket

pytestmark = [pytest.mark.process, pytest.mark.long]
MIRA = "mira@northwind.example"


@pytest.fixture
def bucket(s3: int) -> Iterator[TestBucket]:
    with make_bucket(s3) as bucket:
        yield bucket


@pytest.fixture
def mailhub(bucket: TestBucket, tmp_path: Path) -> Iterator[Mailhub]:
    variables: dict[str, Any] = {**bucket.variables, "MAILHUB_S3_TIMEOUT_SECONDS": 2}
    with Mailhub(tmp_path, MAILHUB_UNDO_SECONDS=0, **variables) as running:
        yield running


def test_approved_mail_waits_for_the_bucket_and_leaves_once(
    mailhub: Mailhub, bucket: TestBucket
) -> None:
    subject = f"Thursday {uuid.uuid4().hex}"
    action = mailhub.propose(subject)
    stored = len(bucket.names())
    person = mailhub.person()
    page = person.get(action["review_url"]).text
    assert stored >= 1
    assert "Hello Mira." in page

    bucket.proxy.fail["GET"] = "silent"
    assert "does not answer" in person.get(action["review_url"]).text
    bucket.proxy.fail["GET"] = "500"
    address, fields = Forms(page).found["approve"]
    assert person.post(address, fields).status == 302
    until(
        lambda: mailhub.action(action["id"]).get("error", {}).get("code") == "content_unreachable",
        say=mailhub.log,
    )
    assert mailhub.action(action["id"])["state"] == "approved"
    assert mailhub.mail(MIRA, "INBOX", subject) == []

    bucket.proxy.fail.clear()
    assert mailhub.ended(action["id"])["state"] == "succeeded"
    assert len(mailhub.mail(MIRA, "INBOX", subject)) == 1
    assert len(bucket.names()) == stored
