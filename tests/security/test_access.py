"""Tokens and mailboxes that are no longer valid, or are not this caller's, open nothing."""

from datetime import timedelta
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils import timezone

from accounts.infra.credentials import CannotDecrypt, Secrets, decrypt_text, encrypt_text
from accounts.models import ApiToken, Mailbox, Membership, Role, User
from tests.conftest import Api, make_api, make_mailbox, problem_of
from tests.support.people.browser import browser, set_rules
from tests.support.people.office import Office, letter, office
from tests.support.servers.memory import MemoryServer
from tests.support.work import work
from tools.schemas import MAX_ATTACHMENT_BYTES

__all__ = ["office"]
pytestmark = pytest.mark.django_db
SECOND = timedelta(seconds=1)


def test_expired_token_opens_nothing(api: Api) -> None:
    ApiToken.objects.update(expires_at=timezone.now() + timedelta(hours=1))
    assert api.get("/tools").status_code == 200
    ApiToken.objects.update(expires_at=timezone.now() - SECOND)
    assert api.get("/tools").status_code == 401


def test_token_of_inactive_person_opens_nothing(api: Api, alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert api.get("/tools").status_code == 401


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_scheme_is_read_in_any_case(api: Api, scheme: str) -> None:
    answer = Client().get("/api/v1/tools", headers={"Authorization": f"{scheme} {api.secret}"})
    assert answer.status_code == 200


def test_last_use_is_written_once_a_minute(api: Api) -> None:
    recent, old = timezone.now() - timedelta(seconds=30), timezone.now() - timedelta(seconds=90)
    ApiToken.objects.update(last_used_at=recent)
    api.get("/tools")
    assert ApiToken.objects.get().last_used_at == recent
    ApiToken.objects.update(last_used_at=old)
    api.get("/tools")
    assert ApiToken.objects.get().last_used_at not in (None, old)


@pytest.mark.parametrize("name", ["", "address", "id"])
def test_disconnected_mailbox_does_not_exist(api: Api, mailbox: Mailbox, name: str) -> None:
    Mailbox.objects.update(status=Mailbox.Status.DISCONNECTED)
    assert api.tool("list_mailboxes").json() == {"mailboxes": []}
    named = {"mailbox": str(getattr(mailbox, name))} if name else {}
    assert api.tool("list_emails", **named).status_code == (404 if name else 422)


def test_one_of_two_mailboxes_must_be_named(api: Api, alice: User, server: MemoryServer) -> None:
    second = make_mailbox("second@lovelace.example", server, alice)
    ApiToken.objects.get().mailboxes.add(second)
    answer = api.tool("list_emails")
    assert problem_of(answer)["code"] == "invalid_input"
    assert problem_of(answer)["errors"][0]["field"] == "mailbox"
    assert api.tool("list_emails", mailbox=str(second.id)).status_code == 200


def test_token_sees_no_other_mailbox_of_its_owner(
    api: Api, alice: User, server: MemoryServer
) -> None:
    other = make_mailbox("second@lovelace.example", server, alice)
    listed = api.tool("list_mailboxes").json()["mailboxes"]
    assert [row["address"] for row in listed] == ["alice@lovelace.example"]
    assert api.tool("list_emails", mailbox=str(other.id)).status_code == 404


def test_actions_of_an_unbound_mailbox_are_gone(api: Api, mailbox: Mailbox) -> None:
    action_id = api.propose()
    ApiToken.objects.get().mailboxes.remove(mailbox)
    assert api.get(f"/actions/{action_id}").status_code == 404
    assert api.post(f"/actions/{action_id}/cancel").status_code == 404


def test_upload_needs_a_scope_and_has_a_limit(alice: User, mailbox: Mailbox) -> None:
    def upload(api: Api, size: int) -> Any:
        given = {"file": SimpleUploadedFile("note.txt", b"x" * size)}
        return Client().post(
            "/api/v1/attachments", given, headers={"Authorization": f"Bearer {api.secret}"}
        )

    reader = make_api(alice, mailbox, name="reader", scopes=["mail:read"])
    writer = make_api(alice, mailbox, name="writer", scopes=["mail:draft"])
    assert upload(reader, 1).status_code == 403
    assert upload(writer, MAX_ATTACHMENT_BYTES + 1).status_code == 413
    assert upload(writer, 1).status_code == 201


def test_webhook_needs_its_scope(alice: User, mailbox: Mailbox) -> None:
    api = make_api(alice, mailbox, scopes=["mail:read", "mail:propose"])
    assert api.get("/webhooks").status_code == 403
    assert api.post("/webhooks", {"url": "https://hooks.example/x"}).status_code == 403


def test_token_without_read_gets_no_words_of_a_mail(
    api: Api, alice: User, mailbox: Mailbox, server: MemoryServer
) -> None:
    mail = letter(to=mailbox.address, subject="Payroll", text="SECRET", sender="boss@other.example")
    server.deliver(mailbox.address, mail.as_bytes())
    writer = make_api(alice, mailbox, name="writer", scopes=["mail:draft", "mail:propose"])
    named = {"message_id": api.tool("list_emails").json()["emails"][0]["id"]}
    assert writer.tool("read_email", **named).status_code == 403
    drafted = writer.tool("draft_reply", **named, body="x")
    changed = writer.tool("update_draft", draft_id=drafted.json()["id"], body="y")
    draft = {"draft_id": changed.json()["id"]}
    original = {**named, "comment": "x"}
    answers = [drafted, changed, writer.tool("list_drafts"), writer.tool("list_actions")]
    for confirm in (False, True):
        answers += [
            writer.tool("send_draft", **draft, confirm=confirm),
            writer.tool("reply_email", **original, confirm=confirm),
            writer.tool("forward_email", **original, to=["paul@lovelace.example"], confirm=confirm),
        ]
    assert {answer.status_code for answer in answers} == {200, 202}
    set_rules(alice, mailbox, refused=["other.example"])
    for confirm in (False, True):
        answers.append(writer.tool("reply_email", **original, confirm=confirm))
        assert problem_of(answers[-1])["code"] == "policy_blocked"
    text = b"".join(answer.content for answer in answers).decode()
    for word in ("Payroll", "SECRET", "other.example"):
        assert word not in text


def test_refused_recipient_is_not_named_without_read(office: Office) -> None:
    named = {"message_id": office.receive(letter(to=office.ada))}
    scopes = ["mail:draft", "mail:propose"]
    writer = make_api(office.reviewer.user, office.mailbox, name="writer", scopes=scopes)
    office.smtp.reply("550 5.1.1 nobody here", at="rcpt", times=None)
    action = writer.tool("reply_email", **named, comment="x", confirm=True).json()["action"]["id"]
    assert office.reviewer.decide(action, "approve").status_code == 302
    work()
    found = writer.get(f"/actions/{action}")
    assert found.json()["error"] == {"code": "invalid_recipient", "detail": ""}
    assert b"northwind" not in found.content + writer.tool("list_actions").content
    assert "refused mira@northwind.example" in office.reviewer.page(action).content.decode()


def test_stored_secret_belongs_to_one_row() -> None:
    record = encrypt_text("a secret", bound_to="one row")
    assert decrypt_text(record, bound_to="one row") == "a secret"
    for other in ("another row", ""):
        with pytest.raises(CannotDecrypt):
            decrypt_text(record, bound_to=other)


def test_access_data_shows_no_value() -> None:
    assert "hunter2" not in f"{Secrets(password='hunter2')!r} {Secrets(password='hunter2')}"


def test_viewer_is_offered_no_mailbox_to_write_from(charlie: User, mailbox: Mailbox) -> None:
    membership = Membership.objects.create(mailbox=mailbox, user=charlie, role=Role.VIEWER)
    offered = b"alice@lovelace.example"
    assert offered not in browser(charlie).get("/compose/").content
    membership.role = Role.PROPOSER
    membership.save()
    assert offered in browser(charlie).get("/compose/").content
