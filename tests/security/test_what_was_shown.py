"""An approval is for what its person could see: nothing unseen, unreadable or changed is approved."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models.functions import Now

from accounts.access.caller import Caller
from accounts.models import ApiToken, Mailbox, User
from accounts.oauth import grants
from approvals import guards
from approvals.core.at_rest import READABLE
from approvals.core.signatures import digest_of
from approvals.gate import revise
from approvals.gate.restore import reconcile_after_restore
from approvals.models import AuditEvent, Blob, PendingAction, Revision
from tests.approvals.conftest import script
from tests.approvals.kinds import Script, handed_over
from tests.conftest import Api, Reviewer
from tests.support.servers.memory import MemoryServer
from tests.support.stored import store_mail
from tests.support.work import work

__all__ = ["script"]

pytestmark = pytest.mark.django_db(transaction=True)

LONG = "Dear Mira, thank you for the pleasant meeting on Thursday. " * 6 + "We accept your price."


def item_of(action_id: str) -> str:
    action = PendingAction.objects.get(pk=action_id)
    return f"{action_id}:{action.digest}:{action.revision}"


def post_bulk(reviewer: Reviewer, path: str, *items: str) -> Any:
    token = reviewer.client.cookies["csrftoken"].value
    return reviewer.client.post(path, {"item": items, "csrfmiddlewaretoken": token})


def test_bulk_approval_takes_only_mails_that_were_open(
    api: Api, reviewer: Reviewer, server: MemoryServer
) -> None:
    opened, unopened = (api.propose(subject=name, body=LONG) for name in ("One", "Two"))
    reviewer.look(opened)
    items = [item_of(opened), item_of(unopened)]

    page = post_bulk(reviewer, "/bulk/", *items)
    forced = post_bulk(reviewer, "/bulk/approve/", *items)

    assert (page.status_code, forced.status_code) == (200, 409)
    for shown in (page.content.decode(), forced.content.decode()):
        assert "1 mail is left out" in shown
        assert f'href="/actions/{unopened}/">Open it' in shown
        assert f'value="{items[0]}"' in shown
        assert f'value="{items[1]}"' not in shown
    assert not PendingAction.objects.exclude(status="pending").exists()

    assert post_bulk(reviewer, "/bulk/approve/", items[0]).status_code == 200
    work()
    assert [b"Subject: One" in sent.source for sent in server.ledger] == [True]


def test_bulk_approval_needs_the_present_revision_open(
    api: Api, reviewer: Reviewer, bob: User
) -> None:
    action_id = api.propose()
    reviewer.look(action_id)
    action = PendingAction.objects.get(pk=action_id)
    revise.edit(
        action_id=action.pk,
        person=bob,
        digest=action.digest,
        revision=1,
        changes={"subject": "Changed"},
    )

    assert post_bulk(reviewer, "/bulk/approve/", item_of(action_id)).status_code == 409
    reviewer.look(action_id)
    assert post_bulk(reviewer, "/bulk/approve/", item_of(action_id)).status_code == 200


def test_editor_has_seen_the_edit_only_on_its_page(api: Api, reviewer: Reviewer) -> None:
    action_id = api.propose(body="<p>Hello</p>", body_type="html")
    reviewer.look(action_id)
    edited = reviewer.decide(action_id, "edit", body="<p>Hello</p><p>Bye</p>")
    assert edited.status_code == 302

    assert post_bulk(reviewer, "/bulk/approve/", item_of(action_id)).status_code == 409
    assert reviewer.decide(action_id, "approve").status_code == 302
    assert AuditEvent.objects.get(event="approved").data["seen"] is False


@pytest.mark.parametrize("looked", [True, False])
def test_approval_keeps_whether_the_mail_was_in_view(
    api: Api, reviewer: Reviewer, looked: bool
) -> None:
    action_id = api.propose()
    if looked:
        reviewer.look(action_id)
    assert reviewer.decide(action_id, "approve").status_code == 302
    approved = AuditEvent.objects.get(event="approved", action_id=action_id)
    assert approved.data["seen"] is looked


def lose_bytes(action: PendingAction) -> None:
    with guards.lift_guards(connection):
        Blob.objects.filter(action=action).delete()


def remove_warnings(action: PendingAction) -> None:
    """Act as somebody who can write to the database, but has no key."""
    preview = Revision.objects.filter(action=action).values_list("preview", flat=True).get()
    assert preview["warnings"]
    with guards.lift_guards(connection):
        Revision.objects.filter(action=action).update(preview={**preview, "warnings": []})


def replace_preview(action: PendingAction) -> None:
    """Put a preview in clear in the place of the encrypted one."""
    preview = {**action.current.preview, "warnings": []}
    with guards.lift_guards(connection):
        Revision.objects.filter(action=action).update(preview=preview, sealed_preview=None)


def replace_payload(action: PendingAction) -> None:
    """Put a payload in clear in the place of the encrypted one, with its digest."""
    payload = {**action.current.payload, "to": ["eve@elsewhere.example"]}
    digest = digest_of(payload)
    with guards.lift_guards(connection):
        Revision.objects.filter(action=action).update(
            payload=payload, sealed_payload=None, digest=digest
        )
        PendingAction.objects.filter(pk=action.pk).update(digest=digest)


def replace_both(action: PendingAction) -> None:
    """Put payload and preview in clear in the place of the encrypted ones, with their digest."""
    payload = {**action.current.payload, "bcc": ["eve@elsewhere.example"]}
    preview, digest = action.current.preview, digest_of(payload)
    with guards.lift_guards(connection):
        Revision.objects.filter(action=action).update(
            payload=payload,
            preview=preview,
            sealed_payload=None,
            sealed_preview=None,
            digest=digest,
        )
        PendingAction.objects.filter(pk=action.pk).update(digest=digest)


def empty_preview(action: PendingAction) -> None:
    with guards.lift_guards(connection):
        Revision.objects.filter(action=action).update(preview={}, sealed_preview=None)


def encrypt(action: PendingAction) -> None:
    with suppress(CommandError):
        call_command("encrypt_content", verbosity=0)


def move_to_the_first_key(action: PendingAction) -> None:
    with suppress(CommandError):
        call_command("rotate_keys", verbosity=0)


def restore(action: PendingAction) -> None:
    PendingAction.objects.filter(pk=action.pk).update(restored_at=Now(), unreconciled=True)
    list(reconcile_after_restore())


DOORS: dict[str, Callable[[Reviewer, str], Any]] = {
    "page": lambda reviewer, action_id: reviewer.decide(action_id, "approve"),
    "bulk": lambda reviewer, action_id: post_bulk(reviewer, "/bulk/approve/", item_of(action_id)),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("lose", [lose_bytes, remove_warnings, replace_preview, replace_payload])
def test_unreadable_content_cannot_be_approved(
    api: Api,
    reviewer: Reviewer,
    server: MemoryServer,
    lose: Callable[[PendingAction], None],
    door: str,
) -> None:
    action_id = api.propose()
    reviewer.look(action_id)
    lose(PendingAction.objects.get(pk=action_id))

    page = reviewer.page(action_id).content.decode()
    answer = DOORS[door](reviewer, action_id)
    work()

    assert f"/actions/{action_id}/approve/" not in page
    assert answer.status_code == 409
    assert "nobody can approve it" in answer.content.decode()
    assert PendingAction.objects.get(pk=action_id).status == "pending"
    assert server.ledger == []


@pytest.mark.parametrize("lose", [remove_warnings, replace_preview, replace_payload])
def test_news_does_not_make_lost_content_readable(
    api: Api, reviewer: Reviewer, lose: Callable[[PendingAction], None]
) -> None:
    action_id = api.propose(body="Our new bank details: DE02 1203 0000 0000 2020 51")
    lose(PendingAction.objects.get())

    grants.revoke(ApiToken.objects.get())

    assert PendingAction.objects.get().revision == 1
    assert reviewer.decide(action_id, "approve").status_code == 409


@pytest.mark.parametrize("later", [encrypt, move_to_the_first_key, restore])
@pytest.mark.parametrize("lose", [replace_both, empty_preview, replace_payload])
def test_nothing_later_takes_foreign_content_over(
    api: Api,
    reviewer: Reviewer,
    server: MemoryServer,
    lose: Callable[[PendingAction], None],
    later: Callable[[PendingAction], None],
) -> None:
    action_id = api.propose()
    lose(PendingAction.objects.get())

    later(PendingAction.objects.get())

    assert PendingAction.objects.get().revision == 1
    assert reviewer.page(action_id).status_code == 200
    assert reviewer.decide(action_id, "approve").status_code == 409
    work()
    assert server.ledger == []


def test_edit_loses_no_news_by_an_altered_revision(api: Api, reviewer: Reviewer) -> None:
    """News in an earlier revision too would count as no news of the later one."""
    action_id = api.propose()
    ApiToken.objects.update(revoked_at=Now(), generation=1)
    assert reviewer.decide(action_id, "approve").status_code == 409
    told = PendingAction.objects.get().current.preview["warnings"]
    first = Revision.objects.get(number=1).preview
    readable = {name: first[name] for name in READABLE} | {"warnings": told}
    with guards.lift_guards(connection):
        Revision.objects.filter(number=1).update(preview=readable)

    assert reviewer.decide(action_id, "edit", subject="Changed").status_code == 409
    assert PendingAction.objects.get().revision == 2


@pytest.mark.parametrize("lose", [replace_payload, replace_both])
def test_edit_takes_no_word_of_an_altered_payload(
    api: Api, reviewer: Reviewer, lose: Callable[[PendingAction], None]
) -> None:
    action_id = api.propose()
    lose(PendingAction.objects.get())

    answer = reviewer.decide(action_id, "edit", subject="Changed")

    assert answer.status_code == 409
    assert lose is replace_both or "eve@elsewhere.example" not in answer.content.decode()
    assert PendingAction.objects.get().revision == 1


def test_unreadable_mail_is_not_ordered_again(api: Api, reviewer: Reviewer, script: Script) -> None:
    action_id = api.propose(body="Our new bank details: DE02 1203 0000 0000 2020 51")
    reviewer.decide(action_id, "approve")
    script.instead = handed_over
    work()
    remove_warnings(PendingAction.objects.get())

    answer = reviewer.decide(action_id, "resolve", ruling="not_sent", fence=1)

    assert answer.status_code == 409
    assert PendingAction.objects.get().status == "unknown"


def test_content_of_a_newer_version_cannot_be_approved(
    mailbox: Mailbox, alice: User, reviewer: Reviewer
) -> None:
    action = store_mail(Caller(user=alice, surface="web"), mailbox, version=2)

    assert reviewer.decide(str(action.pk), "approve").status_code == 409
    assert PendingAction.objects.get(pk=action.pk).status == "pending"
