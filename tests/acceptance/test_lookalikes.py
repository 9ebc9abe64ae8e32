"""Domains that look like others: no mail to them and no answer from them ends the alarm."""

from email.message import EmailMessage
from typing import Any

import pytest

from accounts.models import Mailbox, Membership, Role, User
from approvals.models import AuditEvent, PendingAction
from tests.approvals.conftest import approve
from tests.conftest import Api
from tests.support.growth import is_expensive
from tests.support.people.browser import browser, post_rules
from tests.support.servers.memory import MemoryServer
from tests.support.work import work
from tools.models import Acquaintance
from tools.sending.surroundings import digest_of_address

pytestmark = pytest.mark.django_db(transaction=True)

ALICE, MIRA = "alice@lovelace.example", "mira@northwind.example"
FALSE = "mira@northwlnd.example"


def letter(sender: str, to: str, number: str, **headers: str) -> bytes:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = sender, to, "Offer"
    message["Message-ID"] = f"<{number}@{sender.partition('@')[2]}>"
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    message.set_content("Hello")
    return message.as_bytes()


def exchange(server: MemoryServer, other: str, *, is_answered: bool = True) -> None:
    """Put a mail to this address into Sent, and the answer into the inbox."""
    number = other.partition("@")[2]
    server.deliver(ALICE, letter(ALICE, other, number), folder="sent")
    if is_answered:
        answer = letter(other, ALICE, "answer", In_Reply_To=f"<{number}@lovelace.example>")
        server.deliver(ALICE, answer)


def flagged(api: Api, to: str) -> bool:
    answer = api.tool("send_email", to=[to], subject="Offer", body="Hello.")
    return "lookalike_domain" in [each["code"] for each in answer.json()["warnings"]]


@pytest.fixture
def mistaken(api: Api, alice: User, server: MemoryServer) -> None:
    """Let one mail to the false domain leave, while Sent has mail to the right one."""
    exchange(server, MIRA)
    assert not flagged(api, MIRA)
    approve(api.propose(to=[FALSE]), alice)
    work()
    assert len(server.ledger) == 1


@pytest.mark.usefixtures("mistaken")
def test_mail_to_a_lookalike_does_not_end_the_alarm(api: Api, server: MemoryServer) -> None:
    assert flagged(api, FALSE)
    assert not flagged(api, MIRA)

    # Nor does an answer, because the other domain is known for longer.
    exchange(server, FALSE)
    assert flagged(api, FALSE)
    assert Acquaintance.objects.get(domain="northwlnd.example").answered
    assert not flagged(api, MIRA)


def test_domain_that_answered_outranks_one_that_was_written_to(
    api: Api, server: MemoryServer
) -> None:
    exchange(server, FALSE, is_answered=False)
    assert not flagged(api, FALSE)
    exchange(server, MIRA)
    assert not flagged(api, ALICE)

    assert flagged(api, MIRA)  # younger: a person checks once which one is right
    assert flagged(api, FALSE)


@pytest.mark.usefixtures("mistaken")
def test_manager_ends_the_alarm_and_another_brings_it_back(
    api: Api, alice: User, bob: User, mailbox: Mailbox
) -> None:
    assert post_rules(bob, mailbox, confirmed_domains="northwlnd.example").status_code == 403
    assert flagged(api, FALSE)

    assert post_rules(alice, mailbox, confirmed_domains="Northwlnd.example.").status_code == 302
    assert not flagged(api, FALSE)
    page = browser(alice).get(f"/mailboxes/{mailbox.pk}/").content
    assert b"except mail to northwlnd.example" in page

    Membership.objects.filter(user=bob).update(role=Role.MANAGER)
    assert post_rules(bob, mailbox).status_code == 302
    assert flagged(api, FALSE)
    told = [
        (event.actor, event.data["changed"]["confirmed_domains"])
        for event in AuditEvent.objects.filter(event="policy_changed").order_by("pk")
    ]
    assert told == [
        (f"user:{alice.pk}", [[], ["northwlnd.example"]]),
        (f"user:{bob.pk}", [["northwlnd.example"], []]),
    ]


def test_address_is_no_domain_to_confirm(alice: User, mailbox: Mailbox) -> None:
    refused = post_rules(alice, mailbox, confirmed_domains=FALSE)

    assert "is not a domain" in refused.content.decode()


def severity_of_reply(api: Api) -> str:
    cards = api.tool("list_emails").json()["emails"]
    asked = next(card["id"] for card in cards if card["subject"] == "Question")
    api.tool("reply_email", message_id=asked, comment="Yes.", confirm=True)
    warnings = PendingAction.objects.get().current.preview["warnings"]
    (found,) = (each for each in warnings if each["code"] == "reply_to_differs")
    return str(found["severity"])


@pytest.mark.parametrize(
    ("headers", "severity"),
    [
        pytest.param({}, "risk", id="unasked"),
        pytest.param({"References": "<contoso.example@lovelace.example>"}, "notice", id="answer"),
        pytest.param(
            {"References": "<contoso.example@lovelace.example>", "Auto_Submitted": "auto-replied"},
            "risk",
            id="automatic",
        ),
        pytest.param({"References": "<made-up@lovelace.example>"}, "risk", id="made-up"),
    ],
)
def test_only_an_answer_makes_a_domain_known(
    api: Api, server: MemoryServer, headers: dict[str, str], severity: str
) -> None:
    exchange(server, MIRA)
    exchange(server, "eve@contoso.example", is_answered=False)
    question = letter(MIRA, ALICE, "question", Reply_To="eve@contoso.example")
    server.deliver(ALICE, question.replace(b"Subject: Offer", b"Subject: Question"))

    server.deliver(ALICE, letter("eve@contoso.example", ALICE, "answer", **headers))

    assert severity_of_reply(api) == severity


def test_many_recipients_cost_little_where_many_are_known(api: Api, mailbox: Mailbox) -> None:
    known = [f"mira@partner-{number:04}.com" for number in range(2_000)]
    Acquaintance.objects.bulk_create(
        Acquaintance(mailbox=mailbox, digest=digest_of_address(each), domain=each.partition("@")[2])
        for each in known
    )
    lists: dict[str, Any] = {
        name: [f"mira@{name}-stranger-{number:03}.com" for number in range(500)]
        for name in ("to", "cc", "bcc")
    }

    def preview() -> None:
        assert api.tool("send_email", **lists, subject="Offer", body="Hello.").status_code == 200

    assert not is_expensive(preview, millions=200)
