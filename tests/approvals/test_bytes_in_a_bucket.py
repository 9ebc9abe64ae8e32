"""Message bytes in a bucket: the way of a mail, and what happens if the bucket fails."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from accounts.infra.keys import is_encrypted
from approvals.models import Attempt, Blob, PendingAction, UnusedObject
from approvals.worker import maintenance
from tests.approvals.bucket import bucket
from tests.conftest import HELLO, Api, Reviewer, problem_of
from tests.support.servers.s3 import Fault, TestBucket
from tests.support.work import work
from tools.providers.memory import MemoryServer

__all__ = ["bucket"]

pytestmark = pytest.mark.django_db(transaction=True)

CANARY = "xylophone"
EDIT = {"to": "mira@northwind.example", "subject": "Hello", "body": "Another text."}


def expire_retention(settings: Any) -> None:
    """Let all finished actions be as old as their retention, and sweep."""
    settings.MAILHUB_RETENTION_DAYS = 0
    maintenance.sweep()


def make_due() -> None:
    UnusedObject.objects.update(remove_at=timezone.now() - timedelta(seconds=1))


def retry(action_id: str) -> PendingAction:
    """Let the action be due again, and do a round of work."""
    PendingAction.objects.filter(pk=action_id).update(not_before=timezone.now())
    work()
    return PendingAction.objects.get(pk=action_id)


def test_mail_goes_its_whole_way_with_its_bytes_in_the_bucket(
    api: Api, reviewer: Reviewer, server: MemoryServer, bucket: TestBucket, settings: Any
) -> None:
    action_id = api.propose(body=f"The {CANARY} is here.")
    blob = Blob.objects.get()
    assert (bucket.names(), blob.content) == ([blob.stored_as], None)
    record = bucket.read(blob.stored_as)
    assert is_encrypted(record)
    assert CANARY.encode() not in record
    assert blob.sha256 not in blob.stored_as

    source = reviewer.client.get(f"/actions/{action_id}/source/")
    assert CANARY in source.content.decode()
    answer = reviewer.decide(action_id, "edit", **EDIT)
    assert answer.status_code == 302, answer.content
    assert len(bucket.names()) == Blob.objects.count() == 2
    assert reviewer.decide(action_id, "approve").status_code == 302
    work()

    assert PendingAction.objects.get().status == "succeeded"
    (sent,) = server.ledger
    assert b"Another text." in sent.source
    assert not UnusedObject.objects.exists()
    expire_retention(settings)
    assert (bucket.names(), Blob.objects.count(), UnusedObject.objects.count()) == ([], 0, 0)


@pytest.mark.parametrize("fault", ["500", "cut"])
def test_mail_waits_while_its_bytes_cannot_be_read(
    api: Api, reviewer: Reviewer, server: MemoryServer, bucket: TestBucket, fault: Fault
) -> None:
    action_id = api.propose()
    reviewer.decide(action_id, "approve")
    bucket.proxy.fail["GET"] = fault

    waiting = retry(action_id)
    assert (waiting.status, (waiting.error or {})["code"]) == ("approved", "content_unreachable")
    assert waiting.not_before is not None
    assert waiting.not_before > timezone.now()
    assert Attempt.objects.get().verdict == "not_sent"
    assert server.ledger == []

    del bucket.proxy.fail["GET"]
    assert retry(action_id).status == "succeeded"
    assert len(server.ledger) == 1


def lose(bucket: TestBucket, name: str) -> None:
    bucket.remove(name)


def change(bucket: TestBucket, name: str) -> None:
    record = bytearray(bucket.read(name))
    record[-1] ^= 1
    bucket.write(name, bytes(record))


def replace_by_clear_bytes(bucket: TestBucket, name: str) -> None:
    bucket.write(name, b"Subject: Another mail\r\n\r\n")


def take_from_another(bucket: TestBucket, name: str) -> None:
    (other,) = (each for each in bucket.names() if each != name)
    bucket.write(name, bucket.read(other))


DAMAGES = [
    (lose, "content_missing", "is missing in the object storage"),
    (change, "content_changed", "is not what mailhub stored"),
    (replace_by_clear_bytes, "content_changed", "is not what mailhub stored"),
    (take_from_another, "content_changed", "is not what mailhub stored"),
]


def test_lost_or_changed_object_is_never_sent_and_pages_say_so(
    api: Api, reviewer: Reviewer, server: MemoryServer, bucket: TestBucket
) -> None:
    action_id = api.propose()
    api.propose(subject="Another mail")
    name = Blob.objects.get(action__pk=action_id).stored_as
    record = bucket.read(name)
    for damage, _, said in DAMAGES:
        damage(bucket, name)
        page = reviewer.page(action_id).content.decode()
        assert said in page
        assert "nobody can approve it" in page
        assert reviewer.client.get(f"/actions/{action_id}/source/").status_code == 404
        bucket.write(name, record)
    assert "nobody can approve it" not in reviewer.page(action_id).content.decode()

    reviewer.decide(action_id, "approve")
    for damage, code, said in DAMAGES:
        damage(bucket, name)
        waiting = retry(action_id)
        assert (waiting.status, (waiting.error or {})["code"]) == ("approved", code)
        assert said in reviewer.page(action_id).content.decode()
        assert api.get(f"/actions/{action_id}").json()["error"]["code"] == code
        assert server.ledger == []
        bucket.write(name, record)
    assert retry(action_id).status == "succeeded"


def test_proposal_is_refused_while_the_bucket_takes_nothing(api: Api, bucket: TestBucket) -> None:
    bucket.proxy.fail["PUT"] = "500"
    refused = api.tool("send_email", key="k", **HELLO, confirm=True)
    assert refused.status_code == 503
    problem = problem_of(refused)
    assert (problem["code"], problem["retry_after"]) == ("transient", 30)
    assert not PendingAction.objects.exists()

    del bucket.proxy.fail["PUT"]
    assert api.tool("send_email", key="k", **HELLO, confirm=True).status_code == 202


def test_refused_edit_keeps_the_mail_as_it_was(
    api: Api, reviewer: Reviewer, server: MemoryServer, bucket: TestBucket
) -> None:
    action_id = api.propose()
    bucket.proxy.fail["PUT"] = "500"
    answer = reviewer.decide(action_id, "edit", **EDIT)
    assert answer.status_code == 503
    assert "does not take the content" in answer.content.decode()
    assert PendingAction.objects.get().revision == 1

    reviewer.decide(action_id, "approve")
    work()
    assert [HELLO["body"].encode()[:10] in each.source for each in server.ledger] == [True]


def test_object_that_no_row_names_is_removed(api: Api, bucket: TestBucket) -> None:
    kept = api.propose()
    bucket.proxy.fail["PUT"] = "lost"
    assert api.tool("send_email", **HELLO, confirm=True).status_code == 503
    assert len(bucket.names()) == 2

    maintenance.sweep()
    assert len(bucket.names()) == 2, "its transaction may still be open"
    make_due()
    maintenance.sweep()
    assert bucket.names() == [Blob.objects.get(action__pk=kept).stored_as]
    assert not UnusedObject.objects.exists()


def test_removal_that_failed_is_tried_again(
    api: Api, reviewer: Reviewer, bucket: TestBucket, settings: Any
) -> None:
    reviewer.decide(api.propose(), "reject")
    bucket.proxy.fail["DELETE"] = "500"
    expire_retention(settings)
    assert (len(bucket.names()), Blob.objects.count()) == (1, 0)
    assert bucket.proxy.seen.count("DELETE") == 1
    maintenance.sweep()
    assert bucket.proxy.seen.count("DELETE") == 1, "not before its time"

    del bucket.proxy.fail["DELETE"]
    make_due()
    maintenance.sweep()
    assert (bucket.names(), UnusedObject.objects.count()) == ([], 0)


def test_object_in_use_is_never_removed(api: Api, bucket: TestBucket) -> None:
    api.propose()
    name = Blob.objects.get().stored_as
    UnusedObject.objects.create(name=name, remove_at=timezone.now())
    maintenance.sweep()
    assert (bucket.names(), UnusedObject.objects.count()) == ([name], 0)
