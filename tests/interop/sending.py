"""The ways of a mail through a server that relays it, from a program's call to the next server."""

import base64
from typing import Any

from accounts.connect.imap import ImapAccess
from accounts.infra import credentials
from accounts.models import Mailbox
from tests.faults.smtp_road import now_it_is_time
from tests.interop.matrix import Operation, connect
from tests.support.people.office import SENT, Office, parsed
from tests.support.processes.programs import until
from tests.support.servers.imap_service import PASSWORD
from tests.support.servers.smtp import Accepted
from tests.support.servers.smtp_service import FORBIDDEN, SIZE_LIMIT, SmtpService
from tests.support.work import work
from tools.providers.imap.smtp_sessions import SESSIONS

SERVERS = {
    "postfix": "Postfix 3.7; Dovecot checks its passwords",
    "exim": "Exim 4.96 with its own passwords",
}
TEXT = "Größe 7 €\n.\n..\n" + "x" * 3_000 + "\n"


def send(office: Office, **changes: Any) -> tuple[str, str]:
    """Propose and approve a mail; return the state of the action, and the code of its error."""
    mail = {"to": [office.mira], "subject": "Offer", "body": "Hello.\n"} | changes
    return result(office.approve(office.tool("send_email", **mail, confirm=True)))


def result(action: dict[str, Any]) -> tuple[str, str]:
    return action["state"], action.get("error", {}).get("code", "")


def server(office: Office) -> SmtpService:
    assert office.sender
    return office.sender


def arrived(office: Office, mails: int = 1) -> list[Accepted]:
    """Return the mails in the ledger, when there are so many; the server relays in its own time."""
    until(lambda: len(office.smtp.ledger) >= mails, say=server(office).log)
    assert len(office.smtp.ledger) == mails
    return list(office.smtp.ledger)


def nothing_arrived(office: Office) -> None:
    """See that a mail which is sent now is the only one."""
    assert send(office, subject="Next") == ("succeeded", "")
    (accepted,) = arrived(office)
    assert parsed(accepted.content)["Subject"] == "Next"


def sign_in_as(office: Office, username: str, password: str = PASSWORD) -> None:
    mailbox = Mailbox.objects.get(pk=office.mailbox.pk)
    secrets = credentials.decrypt(bytes(mailbox.credentials), mailbox_id=mailbox.pk)
    access = ImapAccess.from_secrets(secrets).as_secrets()
    access |= {"username": username, "password": password}
    mailbox.credentials = credentials.encrypt(access, mailbox_id=mailbox.pk)
    mailbox.credentials_version += 1
    mailbox.status = "active"
    mailbox.save()


def sign_in(office: Office) -> None:
    connect(office)


def whole(office: Office) -> None:
    """Send a mail to three people, and compare each byte after the server's own headers."""
    file = {"name": "Größe.pdf", "content_base64": base64.b64encode(bytes(range(256))).decode()}
    people = {office.mira, "bo@alps.example", "cy@alps.example"}
    sent = send(office, cc=["bo@alps.example"], bcc=["cy@alps.example"], attachments=[file])
    assert sent == ("succeeded", "")
    # A server may relay it once for each domain.
    ledger = office.smtp.ledger
    until(lambda: {to for each in ledger for to in each.recipients} == people)
    (copy,) = office.imap.messages(office.ada, SENT)
    for each in ledger:
        assert each.content.endswith(copy.partition(b"\r\nBcc: cy@alps.example\r\n")[2])
        assert each.sender == office.ada


def one_session(office: Office) -> None:
    for number in (1, 2, 3):
        assert send(office, subject=f"Offer {number}") == ("succeeded", "")
    arrived(office, 3)


def long_lines(office: Office) -> None:
    """Send a draft of another program, with 8-bit bytes, lines of dots and one of 3,000 bytes."""
    head = f"From: {office.ada}\nTo: {office.mira}\nSubject: Raw\nMIME-Version: 1.0\n"
    kind = "Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n"
    source = f"{head}{kind}\n{TEXT}".replace("\n", "\r\n").encode()
    office.imap.deliver(office.ada, source, folder="Drafts")
    (shown,) = office.tool("list_drafts")["drafts"]
    proposal = office.tool("send_draft", draft_id=shown["id"], confirm=True)
    assert result(office.approve(proposal)) == ("succeeded", "")
    (accepted,) = arrived(office)
    assert parsed(accepted.content).get_content() == TEXT


def beyond_ascii(office: Office) -> None:
    problem = office.refused("send_email", to=["jörg@alps.example"], subject="x", body="x\n")
    assert problem["status"] == 422, problem
    assert send(office, to=["mira@zürich.example"]) == ("succeeded", "")
    (accepted,) = arrived(office)
    assert accepted.recipients == ("mira@xn--zrich-kva.example",)


def too_large(office: Office) -> None:
    content = base64.b64encode(bytes(SIZE_LIMIT)).decode()
    file = {"name": "a.bin", "content_base64": content}
    assert send(office, attachments=[file]) == ("failed", "too_large")
    nothing_arrived(office)


def recipient(office: Office) -> None:
    server(office).answer("gone@alps.example", "550 5.1.1 no such user")
    proposal = office.tool(
        "send_email",
        to=[office.mira, "gone@alps.example"],
        subject="x",
        body="x\n",
        confirm=True,
    )
    action = office.approve(proposal)
    assert result(action) == ("failed", "invalid_recipient")
    assert "gone@alps.example" in action["error"]["detail"]
    assert office.mira not in action["error"]["detail"]
    nothing_arrived(office)


def sender(office: Office) -> None:
    sign_in_as(office, "bo@lovelace.example")
    assert send(office) == ("failed", "send_as_denied")
    sign_in_as(office, office.ada)
    nothing_arrived(office)


def later(office: Office) -> None:
    """Let the server put a recipient off, as greylisting does, and take it at the next attempt."""
    server(office).answer(office.mira, "451 4.7.1 greylisted")
    assert send(office) == ("approved", "smtp_451")
    assert office.smtp.ledger == []
    server(office).heal()
    now_it_is_time()
    work()
    arrived(office)


def down(office: Office) -> None:
    """Approve a mail while the server is down, and start the server again."""
    SESSIONS.close_all()
    server(office).stop()
    assert send(office) == ("approved", "unreachable")
    server(office).start()
    now_it_is_time()
    work()
    arrived(office)


def password(office: Office) -> None:
    """Keep the mail when the password has changed, and send it when the mailbox has the new one."""
    sign_in_as(office, office.ada, "old")
    assert send(office) == ("approved", "auth_error")
    assert office.smtp.ledger == []
    sign_in_as(office, office.ada)
    now_it_is_time()
    work()
    arrived(office)


def content(office: Office) -> None:
    assert send(office, subject=FORBIDDEN) == ("failed", "refused")
    nothing_arrived(office)


OPERATIONS = {
    "sign_in": Operation("sign in over STARTTLS", sign_in),
    "whole": Operation("a mail with a file to three people, byte for byte", whole),
    "one_session": Operation("three mails, one after the other", one_session),
    "long_lines": Operation("a draft with 8-bit bytes and a line of 3,000 bytes", long_lines),
    "beyond_ascii": Operation("an address beyond ASCII: domain sent, name refused", beyond_ascii),
    "too_large": Operation("a mail over the server's limit: `too_large`", too_large),
    "recipient": Operation("an unknown recipient: `invalid_recipient`, nobody gets it", recipient),
    "sender": Operation("a sender that is not the sign-in: `send_as_denied`", sender),
    "later": Operation("a recipient put off with 451: sent later, once", later),
    "down": Operation("a server that is down: sent later, once", down),
    "password": Operation("a wrong password: waits for the right one", password),
    "content": Operation("refused after its content: `refused`", content),
}
