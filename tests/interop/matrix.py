"""The operations of a mailbox, from a program's call to the folders of a server that others wrote."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from imapclient import IMAPClient

from accounts.connect.imap import ImapAccess, prove
from accounts.infra import credentials
from accounts.models import Mailbox
from approvals.worker import maintenance
from tests.faults.smtp_road import now_it_is_time
from tests.support.people.office import Office, letter, parsed

CORPUS = sorted((Path(__file__).parent.parent / "corpus").glob("*.eml"))
PDF = b"%PDF-1.4\n" + bytes(range(256)) * 40
SERVERS = {
    "dovecot": "Dovecot 2.3 with SPECIAL-USE, MOVE and UIDPLUS",
    "poor_dovecot": "Dovecot 2.3 without them, folders under `INBOX.`, with an inbox only",
    "cyrus": "Cyrus 3.6, folders under `INBOX/`, with an inbox only",
    "courier": "Courier 5.0, folders under `INBOX.`, with an inbox only",
}


@dataclass(frozen=True)
class Operation:
    title: str
    run: Callable[[Office], None]


def connect(office: Office) -> None:
    """Sign in to both servers."""
    mailbox = Mailbox.objects.get(pk=office.mailbox.pk)
    secrets = credentials.decrypt(bytes(mailbox.credentials), mailbox_id=mailbox.pk)
    prove(ImapAccess.from_secrets(secrets))


def drafts(office: Office) -> None:
    first = office.tool("create_draft", to=[office.mira], subject="Old", body="x.\n")
    second = office.tool(
        "update_draft", draft_id=first["id"], to=[office.mira], subject="Größe 草稿", body="y.\n"
    )
    assert [each["subject"] for each in office.tool("list_drafts")["drafts"]] == ["Größe 草稿"]
    office.tool("delete_draft", draft_id=second["id"])
    assert office.tool("list_drafts")["drafts"] == []


def pages(office: Office) -> None:
    for number in range(5):
        office.imap.deliver(office.ada, letter(to=office.ada, subject=f"N{number}").as_bytes())
    first = office.tool("list_emails", max_results=3)
    second = office.tool("list_emails", max_results=3, page_token=first["next_page_token"])
    subjects = [card["subject"] for card in (*first["emails"], *second["emails"])]
    assert subjects[:5] == ["N4", "N3", "N2", "N1", "N0"]


def search(office: Office) -> None:
    office.receive(letter(to=office.ada, subject="Angebot für Zürich", text="Preis: 7 €\n"))
    office.receive(letter(to=office.ada, subject="Other"))
    for found in (
        office.tool("search_emails", subject="Zürich"),
        office.tool("search_emails", subject="Angebot", to=office.ada),
    ):
        assert [card["subject"] for card in found["emails"]] == ["Angebot für Zürich"]


def read(office: Office) -> None:
    """Read every mail of the corpus that the server takes."""
    for path in CORPUS:
        office.imap.deliver(office.ada, path.read_bytes())
    cards = office.tool("list_emails", max_results=len(CORPUS))["emails"]
    assert len(cards) == len(CORPUS)
    for card in cards:
        office.tool("read_email", message_id=card["id"])


def attachment(office: Office) -> None:
    message = letter(to=office.ada)
    message.add_attachment(PDF, "application", "pdf", filename="Größe 发票.pdf")
    message_id = office.receive(message)
    (info,) = office.tool("read_email", message_id=message_id)["attachments"]
    assert info["name"] == "Größe 发票.pdf"
    office.approve(
        office.tool("forward_email", message_id=message_id, to=[office.mira], confirm=True)
    )
    (arrived,) = office.inbox(office.mira)
    (file,) = arrived.iter_attachments()
    assert (file.get_filename(), file.get_payload(decode=True)) == ("Größe 发票.pdf", PDF)


def answer(office: Office) -> None:
    message = letter(to=office.ada, sender=f"Mira Holm <{office.mira}>")
    message["Cc"] = "Bo Berg <bo@northwind.example>"
    message_id = office.receive(message)
    action = office.approve(
        office.tool(
            "reply_email", message_id=message_id, comment="Yes.\n", reply_all=True, confirm=True
        )
    )
    assert action["state"] == "succeeded"
    (arrived,) = office.inbox(office.mira)
    assert (str(arrived["To"]), str(arrived["Cc"])) == (
        f"Mira Holm <{office.mira}>",
        "Bo Berg <bo@northwind.example>",
    )
    assert len(office.tool("read_thread", message_id=message_id)["messages"]) == 2


def copies(office: Office) -> None:
    """Send the first and the second mail of a mailbox, and look after all waiting times."""
    Mailbox.objects.filter(pk=office.mailbox.pk).update(provider_files_copies=False)
    for number in (1, 2):
        proposal = office.tool(
            "send_email", to=[office.mira], subject=f"Offer {number}", body="x.\n", confirm=True
        )
        assert office.approve(proposal)["state"] == "succeeded"
    now_it_is_time("settle_at")
    maintenance.settle()
    cards = office.tool("list_emails", folder="sent")["emails"]
    assert [card["subject"] for card in cards] == ["Offer 2", "Offer 1"]
    sent = [parsed(each.content) for each in office.smtp.ledger]
    sources = [office.tool("read_email", message_id=card["id"])["body"] for card in cards]
    assert sources == [str(each.get_content()).strip() for each in reversed(sent)]


def marks(office: Office) -> None:
    answered = office.receive(letter(to=office.ada, sender=office.mira))
    forwarded = office.receive(letter(to=office.ada, sender=office.mira))
    office.approve(office.tool("reply_email", message_id=answered, comment="Yes.\n", confirm=True))
    office.approve(
        office.tool("forward_email", message_id=forwarded, to=[office.mira], confirm=True)
    )
    with signed_in(office) as client:
        client.select_folder("INBOX", readonly=True)
        flags = client.get_flags(client.search())
    first, second = (set(flags[uid]) for uid in sorted(flags))
    assert rb"\Answered" in first
    assert b"$Forwarded" in second


def folders(office: Office) -> None:
    """See that Sent and Drafts exist once they were needed, with a subscription and their role."""
    with signed_in(office) as client:
        if client.has_capability("SPECIAL-USE"):
            assert client.find_special_folder(rb"\Sent")
        subscribed = {name for _, _, name in client.list_sub_folders()}
    listed = office.tool("list_folders")["folders"]
    by_role = {each["role"]: each["name"] for each in listed if each.get("role")}
    assert {by_role["sent"], by_role["drafts"]} <= subscribed
    names = [each["name"] for each in listed]
    assert len(set(names)) == len(names)


@contextlib.contextmanager
def signed_in(office: Office) -> Any:
    """Yield a new connection of the person's own mail program."""
    client: IMAPClient = office.imap.connect(office.ada)
    try:
        yield client
    finally:
        client.shutdown()


OPERATIONS = {
    "connect": Operation("sign in", connect),
    "drafts": Operation("write, change, delete a draft", drafts),
    "pages": Operation("list, page by page", pages),
    "search": Operation("search, beyond ASCII too", search),
    "read": Operation(f"read {len(CORPUS)} odd mails", read),
    "attachment": Operation("forward a file, byte for byte", attachment),
    "answer": Operation("answer to all, with names; read the conversation", answer),
    "copies": Operation("one copy in Sent", copies),
    "marks": Operation("`\\Answered`, `$Forwarded`", marks),
    "folders": Operation("missing folders are created", folders),
}
