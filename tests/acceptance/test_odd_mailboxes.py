"""Mailboxes as people have them: read-only folders, deleted mails that stay, folders of any name."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from django.db.models import F

from approvals.gate.execute import execute
from approvals.gate.pauses.restored import journal_file
from approvals.models import PendingAction
from tests.support.people.office import SENT, Office, letter, opened
from tests.support.servers.dovecot import ACCESS_LISTS, ROLES, Dovecot
from tests.support.work import work
from tools.providers.imap.sessions import POOL

pytestmark = pytest.mark.django_db(transaction=True)

NAMED = ("sent", "drafts", "trash")
READ_ONLY = "owner lr"
NOT_TO_BE_OPENED = "owner l"
MORE = f"{ACCESS_LISTS}imap_capability = IMAP4rev1 LITERAL+ SPECIAL-USE LIST-EXTENDED\n"


@pytest.fixture(scope="module")
def odd_dovecot() -> Iterator[Dovecot]:
    """Yield a server with access lists and without UIDPLUS."""
    with Dovecot(namespace=ROLES, more=MORE) as server:
        yield server


@pytest.fixture
def office(db: None, odd_dovecot: Dovecot) -> Iterator[Office]:
    with opened(odd_dovecot) as found:
        yield found


def allow(office: Office, folder: str, rights: str) -> None:
    """Give the mailbox owner only these rights in a folder."""
    assert isinstance(office.imap, Dovecot)
    office.imap.allow(office.ada, folder, rights)
    POOL.close_all()  # a session keeps the rights that it has read


def test_read_only_folder_is_read(office: Office) -> None:
    office.imap.deliver(office.ada, letter(to=office.ada).as_bytes(), folder="Archive")
    allow(office, "Archive", READ_ONLY)

    (card,) = office.tool("list_emails", folder="Archive")["emails"]

    assert office.tool("read_email", message_id=card["id"])["subject"] == "Delivery on Thursday?"
    assert office.tool("search_emails", folder="archive", subject="Delivery")["emails"]


def test_draft_in_a_read_only_folder_names_the_folder(office: Office) -> None:
    draft = office.tool("create_draft", to=[office.mira], subject="Offer", body="Ours.\n")
    allow(office, "Drafts", READ_ONLY)

    problem = office.refused("delete_draft", draft_id=draft["id"])

    assert problem["detail"] == "The mail server lets mailhub only read the folder Drafts."
    assert problem["status"] != 503
    assert len(office.tool("list_drafts")["drafts"]) == 1


@pytest.mark.parametrize("rights", [READ_ONLY, NOT_TO_BE_OPENED])
def test_conversation_needs_no_folder_that_cannot_be_opened(office: Office, rights: str) -> None:
    message_id = office.receive(letter(to=office.ada, sender=office.mira))
    allow(office, "Archive", rights)

    assert len(office.tool("read_thread", message_id=message_id)["messages"]) == 1
    reply = office.tool("reply_email", message_id=message_id, comment="On Thursday.", confirm=True)
    assert office.approve(reply)["state"] == "succeeded"
    assert len(office.inbox(office.mira)) == 1


def test_folder_that_cannot_be_opened_is_named(office: Office) -> None:
    allow(office, "Archive", NOT_TO_BE_OPENED)

    assert "Archive" in office.refused("list_emails", folder="archive")["detail"]
    assert "Nowhere" in office.refused("list_emails", folder="Nowhere")["detail"]


def test_mail_marked_as_deleted_is_gone(office: Office) -> None:
    office.receive(letter(to=office.ada, subject="Kept"))
    office.receive(letter(to=office.ada, subject="Thrown away"))
    client = office.imap.signed_in(office.ada)
    client.select_folder("INBOX")
    client.add_flags(client.search(["SUBJECT", "Thrown"]), [rb"\Deleted"])

    for listed in (
        office.tool("list_emails"),
        office.tool("search_emails", to=office.ada),
        office.tool("search_emails", query="ALL"),
    ):
        assert [card["subject"] for card in listed["emails"]] == ["Kept"]


def test_replaced_draft_is_gone_without_uidplus(office: Office) -> None:
    first = office.tool("create_draft", to=[office.mira], subject="Old", body="Old.\n")
    second = office.tool(
        "update_draft", draft_id=first["id"], to=[office.mira], subject="New", body="New.\n"
    )

    assert len(office.folder("Drafts")) == 2  # the server keeps it, marked as deleted
    assert [card["subject"] for card in office.tool("list_drafts")["drafts"]] == ["New"]
    assert office.refused("send_draft", draft_id=first["id"])["status"] == 404
    office.tool("delete_draft", draft_id=second["id"])
    assert office.tool("list_drafts")["drafts"] == []
    assert office.refused("send_draft", draft_id=second["id"])["status"] == 404


def test_failed_copy_in_sent_stops_no_other_step(office: Office) -> None:
    original = office.receive(letter(to=office.ada, sender=office.mira))
    draft = office.tool("create_draft", to=[office.mira], subject="Offer", body="Ours.\n")
    allow(office, SENT, READ_ONLY)

    for proposal in (
        office.tool("send_draft", draft_id=draft["id"], confirm=True),
        office.tool("reply_email", message_id=original, comment="Yes.", confirm=True),
    ):
        action = office.approve(proposal)
        assert action["state"] == "succeeded"

    assert len(office.smtp.ledger) == 2
    assert office.tool("list_drafts")["drafts"] == []
    client = office.imap.signed_in(office.ada)
    client.select_folder("INBOX")
    assert rb"\Answered" in client.get_flags([1])[1]
    page = office.reviewer.client.get(f"/actions/{action['id']}/").content.decode()
    assert "At least one later step is not done yet" in page


def test_sent_draft_that_stays_is_not_proposed_as_new(office: Office) -> None:
    draft = office.tool("create_draft", to=[office.mira], subject="Offer", body="Ours.\n")
    allow(office, "Drafts", READ_ONLY)
    first = office.tool("send_draft", draft_id=draft["id"], confirm=True)
    assert "draft_was_sent" not in {warning["code"] for warning in first["warnings"]}
    office.approve(first)

    again = office.tool("send_draft", draft_id=draft["id"], confirm=True)

    assert "draft_was_sent" in {warning["code"] for warning in again["warnings"]}
    assert len(office.folder(SENT)) == 1
    assert office.approve(again)["state"] == "succeeded"  # a person was warned


def test_draft_proposed_twice_leaves_once(office: Office, settings: Any) -> None:
    """Approve both before the draft of the first one is removed."""
    settings.DUPLICATE_WINDOW_SECONDS = 0
    draft = office.tool("create_draft", to=[office.mira], subject="Offer", body="Ours.\n")
    first, second = (
        office.tool("send_draft", draft_id=draft["id"], confirm=True)["action"]["id"]
        for _ in range(2)
    )
    for each in (first, second):
        assert office.reviewer.decide(each, "approve").status_code == 302

    for each in (first, second):
        assert execute(UUID(each), worker="test")

    refused = office.api.get(f"/actions/{second}").json()
    assert (refused["state"], refused["error"]["code"]) == ("failed", "draft_was_sent")
    assert "Look in Sent" in refused["next"]
    page = office.reviewer.client.get(f"/actions/{second}/").content.decode()
    assert "Nobody received it" not in page
    assert len(office.smtp.ledger) == 1


def test_draft_waits_for_the_journal_and_leaves(office: Office) -> None:
    draft = office.tool("create_draft", to=[office.mira], subject="Offer", body="Ours.\n")
    waiting = office.tool("send_draft", draft_id=draft["id"], confirm=True)
    journal_file().mkdir()

    assert office.approve(waiting)["error"]["code"] == "journal_failed"
    journal_file().rmdir()
    PendingAction.objects.update(not_before=F("created_at"))
    work()

    assert office.api.get(f"/actions/{waiting['action']['id']}").json()["state"] == "succeeded"


def test_draft_in_doubt_leaves_again_by_a_ruling(office: Office) -> None:
    draft = office.tool("create_draft", to=[office.mira], subject="Offer", body="Ours.\n")
    office.smtp.drop(at="accepted")
    lost = office.approve(office.tool("send_draft", draft_id=draft["id"], confirm=True))
    assert lost["state"] == "unknown"

    ruling = {"ruling": "not_sent", "fence": "1"}
    assert office.reviewer.decide(lost["id"], "resolve", **ruling).status_code == 302
    work()

    assert office.api.get(f"/actions/{lost['id']}").json()["state"] == "succeeded"


@pytest.fixture
def bare_office(db: None) -> Iterator[Office]:
    """Yield an office on a server with the prefix INBOX. that gives no folder a role."""
    namespace = "  prefix = INBOX.\n  separator = .\n"
    with Dovecot(namespace=namespace) as server, opened(server) as found:
        yield found


def roles(office: Office) -> dict[str, str]:
    folders = office.tool("list_folders")["folders"]
    return {each["role"]: each["name"] for each in folders if each.get("role")}


def test_folders_are_known_by_their_names_in_many_languages(bare_office: Office) -> None:
    client = bare_office.imap.signed_in(bare_office.ada)
    for deeper in ("INBOX.A.Sent", "INBOX.Archiv.2019.Sent", "INBOX.Zeitung.Sent"):
        client.create_folder(deeper)
    for sent, drafts, trash in (
        ("Gesendete Elemente", "Entwürfe", "Gelöschte Elemente"),
        ("已发送", "草稿箱", "已删除邮件"),
        ("Éléments envoyés", "Brouillons", "Éléments supprimés"),
        ("Отправленные", "Черновики", "Корзина"),
    ):
        named = {
            role: f"INBOX.{name}" for role, name in zip(NAMED, (sent, drafts, trash), strict=True)
        }
        for name in named.values():
            client.create_folder(name)
        POOL.close_all()

        assert {role: roles(bare_office)[role] for role in NAMED} == named

        for name in named.values():
            client.delete_folder(name)


def test_missing_folders_are_made_at_the_first_need(bare_office: Office) -> None:
    client = bare_office.imap.signed_in(bare_office.ada)
    client.create_folder("INBOX.Zeitung.Sent")
    draft = bare_office.tool("create_draft", to=[bare_office.mira], subject="Offer", body="x.\n")
    bare_office.approve(bare_office.tool("send_draft", draft_id=draft["id"], confirm=True))

    assert len(bare_office.folder("INBOX.Sent")) == 1
    assert bare_office.folder("INBOX.Drafts") == []
    assert {"INBOX.Sent", "INBOX.Drafts"} <= {name for _, _, name in client.list_sub_folders()}
    assert roles(bare_office)["sent"] == "INBOX.Sent"
    client.select_folder("INBOX.Sent")
    date = bare_office.folder("INBOX.Sent")[0]["Date"].datetime
    client.normalise_times = False
    assert client.fetch([1], ["INTERNALDATE"])[1][b"INTERNALDATE"] == date


def test_forward_says_what_does_not_go_along(office: Office) -> None:
    plain = letter(to=office.ada).as_bytes()
    head = plain.partition(b"\r\n\r\n")[0].replace(b"Content-Transfer-Encoding: 7bit\r\n", b"")

    def mail_of(whole: bytes, second: bytes) -> bytes:
        kind = head.replace(b"text/plain", b"multipart/" + whole + b"; boundary=b")
        first = b"--b\r\nContent-Type: text/plain\r\n\r\nThe text.\r\n"
        return kind + b"\r\n\r\n" + first + b"--b\r\nContent-Type: " + second + b"\r\n--b--\r\n"

    entry = b"\r\n\r\nBEGIN:VCALENDAR\r\nMETHOD:REQUEST\r\nEND:VCALENDAR"
    status = b"message/delivery-status\r\n\r\nReporting-MTA: dns; mx.example\r\n\r\nAction: failed"
    sources = {
        mail_of(b"signed", b"application/pgp-signature; name=signature.asc\r\n\r\nx"): [
            "signature_lost"
        ],
        mail_of(b"alternative", b"text/calendar; method=REQUEST" + entry): ["original_shortened"],
        mail_of(b"mixed", b"text/calendar; name=invite.ics" + entry): [],
        mail_of(b"report", status): ["original_shortened"],
        plain + b"A line of a long text.\r\n" * 50_000: ["original_shortened"],
        plain: [],
    }
    for source, lost in sources.items():
        preview = office.tool("forward_email", message_id=office.receive(source), to=[office.mira])
        codes = [each["code"] for each in preview["warnings"]]
        assert [code for code in codes if code in ("signature_lost", "original_shortened")] == lost
