"""Drafts that a program did not write change only after an approval; on a real IMAP server."""

from email.message import EmailMessage
from io import StringIO
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command

from accounts.models import Membership
from approvals.gate import notes
from approvals.models import AuditEvent, PendingAction
from tests.approvals.test_restored import home
from tests.conftest import Api, make_api
from tests.support.loopback import on_ports
from tests.support.people.browser import sign_in
from tests.support.people.office import Office, letter, office

__all__ = ["home", "office"]
pytestmark = pytest.mark.django_db(transaction=True)

NOTE = {"to": ["mira@northwind.example"], "subject": "Offer", "body": "Dear Mira,\nour offer.\n"}
SEALED = "Content-Type: application/pkcs7-mime; name=smime.p7m"
CHANGED: dict[str, Any] = {**NOTE, "bcc": ["eve@out.example"], "body": "Please pay to IBAN 4711.\n"}


@pytest.fixture
def other_program(office: Office) -> Api:
    return make_api(
        Membership.objects.get(mailbox=office.mailbox).user,
        office.mailbox,
        name="other",
        scopes=["mail:draft"],
    )


def persons_draft(office: Office) -> str:
    """Write a draft in Ada's own mail program, and return its id."""
    message = letter(
        to="mira@northwind.example",
        sender=office.ada,
        subject="Invoice",
        text="IBAN 1234\n",
        Bcc="jo@x.example",
    )
    office.imap.signed_in(office.ada).append("Drafts", message.as_bytes(), flags=[rb"\Draft"])
    return str(office.tool("list_drafts")["drafts"][0]["id"])


def events(office: Office) -> list[str]:
    return list(
        AuditEvent.objects.filter(mailbox=office.mailbox)
        .order_by("sequence")
        .values_list("event", flat=True)
    )


def only_draft(office: Office) -> EmailMessage:
    (draft,) = office.folder("Drafts")
    return draft


def test_proposed_change_carries_the_words_of_the_program(office: Office, settings: Any) -> None:
    settings.MAILHUB_LOOPBACK_FOR_PEOPLE = on_ports(9)
    draft = persons_draft(office)
    assert office.api.post("/webhooks", {"callbacks": True}).status_code == 201
    words = {"reason": "She moved.", "metadata": {"order": "4711"}}
    called = {**words, "callback_url": "http://127.0.0.1:9/back"}
    for tool, content in (("update_draft", CHANGED), ("delete_draft", {})):
        action = office.tool(tool, draft_id=draft, **content, **called)["action"]
        assert action["metadata"] == {"order": "4711"}
        assert "She moved." in office.reviewer.page(action["id"]).content.decode()
        said = notes.remarks_of(PendingAction.objects.get(pk=action["id"]))
        assert said.callback_url == "http://127.0.0.1:9/back"
    wrong = office.refused("delete_draft", draft_id=draft, callback_url="ftp://x.example/")
    assert [each["field"] for each in wrong["errors"]] == ["callback_url"]


def test_update_of_a_persons_draft_waits_for_approval(office: Office) -> None:
    draft = persons_draft(office)

    proposal = office.tool("update_draft", draft_id=draft, **CHANGED)

    assert proposal["status"] == "pending"
    assert only_draft(office).get_content() == "IBAN 1234\n"
    page = office.reviewer.page(proposal["action"]["id"]).content.decode()
    for shown in (
        "Replace this draft",
        "IBAN 1234",
        "Please pay to IBAN 4711.",
        "eve@out.example",
        "jo@x.example",
    ):
        assert shown in page
    assert office.approve(proposal)["state"] == "succeeded"
    assert only_draft(office).get_content() == CHANGED["body"]
    assert only_draft(office)["Bcc"] == "eve@out.example"
    assert office.smtp.ledger == []
    assert "created" in events(office)


def test_restored_change_of_a_draft_asks_to_check_drafts(office: Office) -> None:
    proposal = office.tool("update_draft", draft_id=persons_draft(office), **CHANGED)

    call_command("after_restore", "--yes", "--force", stdout=StringIO())

    sign_in(office.reviewer.client, office.reviewer.user)
    page = office.reviewer.page(proposal["action"]["id"]).content.decode()
    assert "mailhub cannot look whether it happened already." in page
    assert "Check the drafts folder before you approve it." in page
    assert "Sent folder" not in page


def test_deletion_of_a_persons_draft_waits_for_approval(office: Office) -> None:
    draft = persons_draft(office)

    proposal = office.tool("delete_draft", draft_id=draft)

    assert len(office.folder("Drafts")) == 1
    assert "Delete this draft" in office.reviewer.page(proposal["action"]["id"]).content.decode()
    assert office.approve(proposal)["state"] == "succeeded"
    assert office.folder("Drafts") == []


def test_bulk_page_takes_no_change_of_a_draft_for_a_mail(office: Office) -> None:
    found = (
        office.tool("delete_draft", draft_id=persons_draft(office)),
        office.tool("send_email", **{**NOTE, "to": [office.ada]}, confirm=True),
    )
    actions = [PendingAction.objects.get(pk=each["action"]["id"]) for each in found]
    for each in actions:
        office.reviewer.look(str(each.pk))
    client = office.reviewer.client
    form = {
        "item": [f"{each.pk}:{each.digest}:{each.revision}" for each in actions],
        "csrfmiddlewaretoken": client.cookies[settings.CSRF_COOKIE_NAME].value,
    }

    page = client.post("/bulk/", form).content.decode()

    assert "deletes a draft" in page
    for button in ("Approve 1 proposal", "Approve and send 1"):
        assert button in " ".join(page.split())


def test_same_change_proposed_twice_is_one_action(office: Office) -> None:
    draft = persons_draft(office)

    first, second = (office.tool("update_draft", draft_id=draft, **CHANGED) for _ in range(2))

    assert first["action"]["id"] == second["action"]["id"]


@pytest.mark.parametrize("verdict", ["cancel", "reject"])
def test_withdrawn_change_can_be_proposed_again(office: Office, verdict: str) -> None:
    draft = persons_draft(office)
    first = office.tool("delete_draft", draft_id=draft)["action"]
    office.reviewer.decide(first["id"], verdict)

    again = [office.tool("delete_draft", draft_id=draft)["action"] for _ in range(2)]

    is_new = verdict == "cancel"  # a person's no stays one
    assert again[0]["id"] == again[1]["id"]
    assert (again[0]["id"] != first["id"]) is is_new
    assert (again[0]["state"] == "pending") is is_new


def test_approved_change_is_refused_if_draft_moved_on(office: Office) -> None:
    proposal = office.tool("delete_draft", draft_id=persons_draft(office))
    client = office.imap.signed_in(office.ada)
    client.select_folder("Drafts")
    client.delete_messages(client.search())
    client.expunge()
    persons_draft(office)

    assert office.approve(proposal)["error"]["code"] == "draft_changed"
    assert len(office.folder("Drafts")) == 1


def test_draft_of_another_program_is_held(office: Office, other_program: Api) -> None:
    draft = office.tool("create_draft", **NOTE)

    answers = [
        other_program.tool("update_draft", draft_id=draft["id"], **CHANGED),
        other_program.tool("delete_draft", uid=draft["uid"]),
    ]

    assert [answer.status_code for answer in answers] == [202, 202]
    assert only_draft(office).get_content() == NOTE["body"]


@pytest.mark.parametrize(
    "header",
    [
        "Reply-To: desk@lovelace.example",
        "Disposition-Notification-To: ada@lovelace.example",
        SEALED,
    ],
)
def test_draft_that_would_lose_something_is_not_changed(office: Office, header: str) -> None:
    lines = [header, "From: ada@lovelace.example", "To: mira@northwind.example", "", "Words"]
    source = "\r\n".join(lines).encode()
    office.imap.signed_in(office.ada).append("Drafts", source, flags=[rb"\Draft"])
    (draft,) = office.tool("list_drafts")["drafts"]

    problem = office.refused("update_draft", draft_id=draft["id"], subject="New")

    assert "draft" in problem["detail"]
    assert office.imap.messages(office.ada, "Drafts") == [source]


def test_own_unchanged_draft_is_changed_at_once_and_audited(office: Office) -> None:
    draft = office.tool("create_draft", **NOTE)

    draft = office.tool("update_draft", draft_id=draft["id"], **CHANGED)
    assert office.tool("delete_draft", draft_id=draft["id"]) == {"deleted": True}

    assert office.folder("Drafts") == []
    assert events(office)[-2:] == ["draft_changed", "draft_deleted"]
