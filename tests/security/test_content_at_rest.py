"""An attacker reads the database, or a copy of it: it does not contain the content of mails."""

import base64
import io
from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from accounts.infra.fields import TEXT_MARK, UNREADABLE
from accounts.infra.keys import first_key_id, is_encrypted
from accounts.models import User
from approvals import guards
from approvals.gate import overdue
from approvals.models import Blob, Decision, PendingAction, Revision, Webhook
from tests.approvals.conftest import approve, approved
from tests.conftest import Api, Reviewer
from tests.support.servers.memory import MemoryServer
from tests.support.work import work
from tools.models import Upload

__all__ = ["approved"]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]

ENCRYPTED_ADDRESSES = import_module("approvals.migrations.0035_encrypted_addresses")
CANARY = "xylophone"
NEW_KEY = base64.b64encode(b"n" * 32).decode()


def everything() -> bytes:
    """Return the content of the database, table by table, as a leaked copy would have it."""
    found = io.BytesIO()
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f'SELECT * FROM "{table}"')
            for row in cursor.fetchall():
                for value in row:
                    found.write(
                        bytes(value)
                        if isinstance(value, bytes | memoryview)
                        else str(value).encode()
                    )
    return found.getvalue()


def upload(api: Api) -> str:
    file = SimpleUploadedFile("notes.txt", CANARY.encode(), content_type="text/plain")
    answer = api.client.post(
        "/api/v1/attachments", {"file": file}, headers={"Authorization": f"Bearer {api.secret}"}
    )
    assert answer.status_code in (200, 201), answer.content
    return str(answer.json()["handle"])


def in_clear() -> None:
    """Store the content in clear, as an earlier version did."""
    with guards.lift_guards(connection):
        for revision in Revision.objects.all():
            Revision.objects.filter(pk=revision.pk).update(
                payload=revision.payload,
                preview=revision.preview,
                sealed_payload=None,
                sealed_preview=None,
            )
        for model, column in ((Blob, "content"), (Upload, "content"), (Decision, "note")):
            for row in model._default_manager.all():
                model._default_manager.filter(pk=str(row.pk)).update(
                    **{column: getattr(row, column)}
                )


def test_database_holds_no_readable_mail_content(
    api: Api, reviewer: Reviewer, server: MemoryServer
) -> None:
    handle = upload(api)
    action_id = api.propose(
        subject="Readable", body=f"The {CANARY}.", attachments=[{"handle": handle}]
    )
    other = api.propose(subject="Other")
    reviewer.decide(other, "reject", note=f"{TEXT_MARK}No {CANARY}.")
    assert CANARY.encode() not in everything()
    assert base64.b64encode(CANARY.encode()) not in everything()
    assert b"Readable" in everything()
    assert b"mira@northwind.example" in everything()

    page = reviewer.page(action_id).content.decode()
    assert f"The {CANARY}." in page
    assert f"{TEXT_MARK}No {CANARY}." in reviewer.page(other).content.decode()
    # The beginning, in the list.
    assert f"The {CANARY}." in reviewer.client.get("/").content.decode()
    for wanted in (CANARY, "readable", "to:northwind"):
        assert action_id in reviewer.client.get(f"/?q={wanted}").content.decode()
    assert action_id not in reviewer.client.get("/?q=trombone").content.decode()

    reviewer.decide(action_id, "approve")
    work()
    (sent,) = server.ledger
    assert CANARY.encode() in sent.source


def test_content_moved_to_another_row_does_not_decrypt(
    api: Api, alice: User, server: MemoryServer
) -> None:
    first, second = (
        api.propose(body=f"The {CANARY}."),
        api.propose(body="Nothing.", subject="Second"),
    )
    record = (
        Revision.objects.filter(action__pk=first).values_list("sealed_payload", flat=True).get()
    )
    approve(second, alice)
    # The guards allow that.
    Revision.objects.filter(action__pk=second).update(sealed_payload=record)
    moved = Revision.objects.get(action__pk=second)
    assert moved.unreadable
    assert CANARY not in str(moved.payload)
    assert Reviewer.signed_in(alice).page(second).status_code == 200
    work()
    assert server.ledger == []


def test_damaged_bytes_are_shown_as_missing_and_never_sent(
    api: Api, reviewer: Reviewer, server: MemoryServer
) -> None:
    action_id = api.propose()
    content = Blob.objects.values_list("content", flat=True).get()
    assert content is not None
    Blob.objects.update(content=bytes(content)[:-1] + b"x")
    assert reviewer.page(action_id).status_code == 200
    reviewer.decide(action_id, "approve")
    work()
    assert server.ledger == []


def test_old_database_is_readable_and_can_be_encrypted(
    api: Api, reviewer: Reviewer, server: MemoryServer
) -> None:
    upload(api)
    action_id = api.propose(body=f"The {CANARY}.")
    other = api.propose(subject="Other")
    reviewer.decide(other, "reject", note=f"No {CANARY}.")
    in_clear()
    assert CANARY.encode() in everything()
    assert f"The {CANARY}." in reviewer.page(action_id).content.decode()
    assert action_id in reviewer.client.get(f"/?q={CANARY}").content.decode()

    with pytest.raises(CommandError, match=r"revision \d+\. Or it is in clear and still waits"):
        call_command("encrypt_content", verbosity=0)
    assert reviewer.decide(action_id, "approve").status_code == 409
    reviewer.decide(action_id, "reject")
    call_command("encrypt_content", verbosity=0)
    call_command("encrypt_content", verbosity=0)

    assert CANARY.encode() not in everything()
    assert f"The {CANARY}." in reviewer.page(action_id).content.decode()
    assert f"No {CANARY}." in reviewer.page(other).content.decode()
    work()
    assert server.ledger == []


def test_old_mail_leaves_without_being_encrypted(
    approved: Callable[..., PendingAction], server: MemoryServer
) -> None:
    approved()
    in_clear()
    work()
    assert len(server.ledger) == 1


def test_all_content_moves_to_the_first_key(
    api: Api, reviewer: Reviewer, alice: User, settings: Any, server: MemoryServer
) -> None:
    upload(api)
    action_id = api.propose(body=f"The {CANARY}.")
    other = api.propose(subject="Other")
    reviewer.decide(other, "reject", note=f"No {CANARY}.")
    settings.MAILHUB_ENCRYPTION_KEYS = [NEW_KEY, *settings.MAILHUB_ENCRYPTION_KEYS]
    call_command("rotate_keys", verbosity=0)
    settings.MAILHUB_ENCRYPTION_KEYS = [NEW_KEY]
    reviewer = Reviewer.signed_in(alice)

    for record in Blob.objects.values_list("content", flat=True):
        assert record is not None
        assert is_encrypted(bytes(record))
        assert bytes(record)[8:12] == first_key_id()
    assert f"The {CANARY}." in reviewer.page(action_id).content.decode()
    assert f"No {CANARY}." in reviewer.page(other).content.decode()
    assert bytes(Upload.objects.get().content) == CANARY.encode()
    reviewer.decide(action_id, "approve")
    work()
    assert len(server.ledger) == 1


def test_address_of_a_webhook_is_encrypted_on_the_first_key(api: Api, settings: Any) -> None:
    url = f"https://8.8.8.8/{CANARY}"
    assert api.post("/webhooks", {"url": url}).status_code == 201
    assert CANARY.encode() not in everything()

    Webhook.objects.update(url=url)  # as an earlier version stored it
    (shown,) = api.get("/webhooks").json()["items"]
    assert shown["url"] == url
    ENCRYPTED_ADDRESSES.encrypt_addresses(apps, None)
    assert CANARY.encode() not in everything()

    before = settings.MAILHUB_ENCRYPTION_KEYS
    settings.MAILHUB_ENCRYPTION_KEYS = [NEW_KEY, *before]
    call_command("rotate_keys", verbosity=0)
    settings.MAILHUB_ENCRYPTION_KEYS = [NEW_KEY]
    (shown,) = api.get("/webhooks").json()["items"]
    assert shown["url"] == url
    settings.MAILHUB_ENCRYPTION_KEYS = before
    (shown,) = api.get("/webhooks").json()["items"]
    assert shown["url"] == UNREADABLE


def test_content_that_no_key_decrypts_is_named(api: Api, settings: Any) -> None:
    api.propose()
    settings.MAILHUB_ENCRYPTION_KEYS = [NEW_KEY]
    with pytest.raises(CommandError, match=r"revision \d+, approvals.blob \d+"):
        call_command("encrypt_content", verbosity=0)


def test_purged_content_is_gone_in_every_form(api: Api, reviewer: Reviewer) -> None:
    action_id = api.propose(body=f"The {CANARY}.")
    reviewer.decide(action_id, "reject", note=f"No {CANARY}.")
    PendingAction.objects.update(finished_at=timezone.now() - timedelta(days=9999))
    overdue.purge()
    assert Revision.objects.filter(
        payload={}, preview={}, sealed_payload=None, sealed_preview=None
    ).exists()
    assert not Decision.objects.exclude(note="").exists()
    call_command("encrypt_content", verbosity=0)
    assert Revision.objects.get().payload == {}
