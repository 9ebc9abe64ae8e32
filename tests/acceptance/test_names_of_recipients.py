"""The names that people gave to addresses stay with them in answers and in drafts that are sent."""

from email import policy
from email.headerregistry import Address
from email.message import EmailMessage
from email.parser import BytesParser

import pytest

from tests.support.people.office import Office, letter, office

__all__ = ["office"]
pytestmark = pytest.mark.django_db(transaction=True)

NAMES = {
    "jorg@northwind.example": "Müller, Jörg",
    "bo@northwind.example": 'Bo "B" O\'Neil (Sales)',
    "wang@northwind.example": "王小明",
}
DECEIVING = {
    "eve@northwind.example": "boss@bank.example",
    "mallory@northwind.example": "in\u202evoice",
}


def addressed(office: Office) -> EmailMessage:
    """Return a mail to Ada with all these people in Cc."""
    message = letter(to=office.ada, sender=f"Mira Holm <{office.mira}>")
    everybody = [
        Address(name, addr_spec=address) for address, name in {**NAMES, **DECEIVING}.items()
    ]
    message["Cc"] = ", ".join(map(str, everybody))
    return message


def names_of(message: EmailMessage) -> dict[str, str]:
    return {
        each.addr_spec: each.display_name
        for header in ("To", "Cc")
        if message[header]
        for each in message[header].addresses
    }


def test_answer_to_all_keeps_the_names(office: Office) -> None:
    answered = office.receive(addressed(office))
    proposal = office.tool(
        "reply_email", message_id=answered, comment="Yes.\n", reply_all=True, confirm=True
    )
    page = office.reviewer.page(proposal["action"]["id"]).content.decode()
    assert "王小明" in page
    assert "Müller, Jörg" in page
    office.approve(proposal)

    expected = {office.mira: "Mira Holm", **NAMES, **dict.fromkeys(DECEIVING, "")}
    (arrived,) = office.inbox(office.mira)
    assert names_of(arrived) == expected
    source = office.smtp.ledger[-1].content
    assert max(map(len, source.split(b"\r\n"))) < 100
    assert "王小明" in str(BytesParser(policy=policy.default).parsebytes(source)["Cc"])


def test_edited_answer_keeps_the_names_that_are_left(office: Office) -> None:
    answered = office.receive(addressed(office))
    action = office.tool(
        "reply_email", message_id=answered, comment="Yes.\n", reply_all=True, confirm=True
    )["action"]["id"]
    office.reviewer.look(action)
    kept = ["wang@northwind.example", "new@northwind.example"]
    answer = office.reviewer.decide(action, "edit", cc=", ".join(kept), to=office.mira)
    assert answer.status_code == 302, answer.content.decode()
    office.approve({"action": {"id": action}})

    (arrived,) = office.inbox(office.mira)
    assert names_of(arrived) == {office.mira: "Mira Holm", kept[0]: "王小明", kept[1]: ""}


def test_draft_of_a_person_keeps_the_names(office: Office) -> None:
    draft = letter(to=f'"Holm, Mira" <{office.mira}>', sender=office.ada)
    office.imap.deliver(office.ada, draft.as_bytes(), folder="Drafts")
    (card,) = office.tool("list_drafts")["drafts"]
    office.approve(office.tool("send_draft", draft_id=card["id"], confirm=True))
    (arrived,) = office.inbox(office.mira)
    assert names_of(arrived) == {office.mira: "Holm, Mira"}
