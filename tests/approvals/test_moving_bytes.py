"""Bytes of messages move between the database and the bucket, and to another key."""

import base64
import io
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction

from accounts.infra.keys import first_key_id, is_on_first_key
from approvals.blobs import rewrite
from approvals.lifecycle.queries import blob_of
from approvals.models import Blob, PendingAction, UnusedObject
from approvals.worker import maintenance
from tests.approvals.bucket import bucket
from tests.conftest import HELLO, Api
from tests.support.processes.programs import manage, this_test
from tests.support.servers.s3 import TestBucket

__all__ = ["bucket"]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]

NEW_KEY = base64.b64encode(b"n" * 32).decode()


def run(command: str) -> str:
    printed = io.StringIO()
    call_command(command, stdout=printed)
    return printed.getvalue().strip()


def contents() -> set[bytes]:
    """Return all message bytes, as a worker reads them."""
    return {blob_of(blob.action, blob.sha256) for blob in Blob.objects.select_related("action")}


def test_content_moves_to_the_bucket_and_back(api: Api, bucket: TestBucket, settings: Any) -> None:
    settings.MAILHUB_CONTENT_STORE = "database"
    for number in range(3):
        api.propose(subject=f"Mail {number}")
    before = contents()

    settings.MAILHUB_CONTENT_STORE = "s3"
    assert contents() == before, "what is in the database is read from there"
    assert run("move_content") == "Moved: 3. All bytes are in the bucket."
    assert run("move_content") == "Moved: 0. All bytes are in the bucket."
    assert set(bucket.names()) == set(Blob.objects.values_list("stored_as", flat=True))
    assert not Blob.objects.exclude(content=None).exists()
    assert contents() == before

    settings.MAILHUB_CONTENT_STORE = "database"
    assert run("move_content") == "Moved: 3. All bytes are in the database."
    assert not Blob.objects.exclude(stored_as="").exists()
    assert set(bucket.names()) == set(UnusedObject.objects.values_list("name", flat=True))
    assert contents() == before


@pytest.mark.process
def test_variables_of_the_environment_name_the_bucket(
    api: Api, bucket: TestBucket, settings: Any, tmp_path: Path
) -> None:
    settings.MAILHUB_CONTENT_STORE = "database"
    api.propose()
    before = contents()
    variables = {**this_test(), **bucket.variables}
    moved = manage(tmp_path, "move_content", stdin="", **variables)
    assert "Moved: 1. All bytes are in the bucket." in moved.stdout, moved.stderr
    assert bucket.names() == [Blob.objects.get().stored_as]
    assert contents() == before


def test_move_that_was_interrupted_goes_on(api: Api, bucket: TestBucket, settings: Any) -> None:
    settings.MAILHUB_CONTENT_STORE = "database"
    for number in range(3):
        api.propose(subject=f"Mail {number}")
    before = contents()
    settings.MAILHUB_CONTENT_STORE = "s3"
    bucket.proxy.fail["PUT"] = "lost"
    with pytest.raises(CommandError, match=r"Moved: 0\. Run it again\."):
        run("move_content")
    assert contents() == before

    bucket.proxy.fail.clear()
    assert run("move_content") == "Moved: 3. All bytes are in the bucket."
    assert contents() == before


def test_second_process_that_moves_the_same_row_leaves_it(
    api: Api, bucket: TestBucket, settings: Any
) -> None:
    settings.MAILHUB_CONTENT_STORE = "database"
    api.propose()
    first, second = Blob.objects.get(), Blob.objects.get()
    settings.MAILHUB_CONTENT_STORE = "s3"
    assert rewrite(first, in_bucket=True)
    assert not rewrite(second, in_bucket=True)
    unused = set(UnusedObject.objects.values_list("name", flat=True))
    assert set(bucket.names()) == unused | {Blob.objects.get().stored_as}
    assert len(unused) == 1


def test_move_back_names_what_is_lost_and_moves_the_rest(
    api: Api, bucket: TestBucket, settings: Any
) -> None:
    lost = api.propose()
    api.propose(subject="Another mail")
    bucket.remove(Blob.objects.get(action__pk=lost).stored_as)
    settings.MAILHUB_CONTENT_STORE = "database"
    with pytest.raises(CommandError, match=rf"Moved: 1\. Not moved: {lost}: .* missing"):
        run("move_content")
    assert Blob.objects.get(action__pk=lost).stored_as
    assert Blob.objects.filter(stored_as="").count() == 1


def test_objects_of_a_newer_database_are_found_and_removed(api: Api, bucket: TestBucket) -> None:
    """After a restored backup, its database does not know the newest objects."""
    api.propose()
    named = Blob.objects.get().stored_as
    bucket.proxy.fail["PUT"] = "lost"
    api.tool("send_email", **HELLO, confirm=True)
    newer = {"00000000/a", "ffffffff/z"}
    for name in newer:
        bucket.write(name, b"x")

    listed = run("remove_unnamed_objects").splitlines()
    assert (set(listed[:-1]), listed[-1]) == (newer, "Objects that no row names: 2.")
    maintenance.sweep()
    assert newer < set(bucket.names())

    call_command("remove_unnamed_objects", "--remove", stdout=io.StringIO())
    maintenance.sweep()
    (waiting,) = UnusedObject.objects.values_list("name", flat=True)
    assert set(bucket.names()) == {named, waiting}


@pytest.mark.parametrize("store", ["database", "s3"])
def test_rotation_encrypts_objects_with_the_first_key(
    api: Api, bucket: TestBucket, settings: Any, store: str
) -> None:
    """It leaves bytes where they are, wherever new ones go."""
    api.propose()
    before, old = contents(), Blob.objects.get().stored_as
    settings.MAILHUB_CONTENT_STORE = store
    (old_key,) = settings.MAILHUB_ENCRYPTION_KEYS
    settings.MAILHUB_ENCRYPTION_KEYS = [NEW_KEY, old_key]

    run("rotate_keys")
    settings.MAILHUB_ENCRYPTION_KEYS = [NEW_KEY]
    new = Blob.objects.get().stored_as
    assert new.startswith(f"{first_key_id().hex()}/")
    assert is_on_first_key(bucket.read(new))
    assert contents() == before
    assert UnusedObject.objects.get().name == old

    bucket.proxy.seen.clear()
    run("rotate_keys")
    assert bucket.proxy.seen == [], "the name says which key it is"


def test_rotation_names_the_object_that_it_cannot_read(
    api: Api, bucket: TestBucket, settings: Any
) -> None:
    api.propose()
    bucket.remove(Blob.objects.get().stored_as)
    settings.MAILHUB_ENCRYPTION_KEYS = [NEW_KEY, *settings.MAILHUB_ENCRYPTION_KEYS]
    with pytest.raises(CommandError, match=f"object of blob {Blob.objects.get().pk}"):
        run("rotate_keys")
    bucket.proxy.fail["GET"] = "500"
    with pytest.raises(CommandError, match="the bucket, which does not answer"):
        run("rotate_keys")


@pytest.mark.parametrize("changes", [{"content": None}, {"stored_as": "a/b"}])
def test_database_refuses_bytes_in_no_place_or_in_two(api: Api, changes: dict[str, Any]) -> None:
    action = PendingAction.objects.get(pk=api.propose())
    with pytest.raises(IntegrityError), transaction.atomic():
        Blob.objects.update(**changes)
    values = {"content": b"x", "stored_as": "", **changes}
    with pytest.raises(IntegrityError), transaction.atomic():
        Blob.objects.create(action=action, sha256="0" * 64, **values)
