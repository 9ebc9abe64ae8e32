"""Nobody connects a mailbox of somebody else's address, whatever server they type in."""

import re
import uuid
from collections.abc import Iterator
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from accounts.infra import safe_hosts
from accounts.models import AddressCode, Mailbox, User
from approvals.models import AuditEvent
from tests.accounts.test_own_mail import smtp as own_mail
from tests.accounts.test_own_mail import the_mail
from tests.support.loopback import EveryServer
from tests.support.people.browser import browser
from tests.support.servers.certificates import Authority, authority
from tests.support.servers.dns import NameServer
from tests.support.servers.dovecot import Dovecot
from tests.support.servers.imap_service import PASSWORD
from tests.support.servers.smtp import FaultySmtp
from tests.support.servers.tls_relay import TlsRelay

__all__ = ["authority"]
pytestmark = pytest.mark.django_db(transaction=True)
smtp = own_mail


class Provider:
    """Mail servers behind TLS that accept any user name: those of a provider, or of an attacker."""

    def __init__(self, imap: TlsRelay, outgoing: TlsRelay) -> None:
        self.imap, self.outgoing = imap, outgoing

    def form(self, address: str, **changes: str) -> dict[str, str]:
        return {
            "address": address,
            "username": address,
            "password": PASSWORD,
            "imap": f"localhost:{self.imap.port}:tls",
            "smtp": f"localhost:{self.outgoing.port}:tls",
            **changes,
        }


@pytest.fixture
def names() -> Iterator[NameServer]:
    with NameServer() as server:
        yield server


@pytest.fixture
def provider(
    dovecot: Dovecot,
    names: NameServer,
    authority: Authority,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Provider]:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    safe_hosts.tls_context.cache_clear()
    settings.MAILHUB_LOOPBACK_FOR_PEOPLE = EveryServer()
    context = authority.server_context("localhost")
    with (
        FaultySmtp() as outgoing,
        TlsRelay(context, ("127.0.0.1", dovecot.port)) as imap,
        TlsRelay(context, ("127.0.0.1", outgoing.port)) as relay,
    ):
        yield Provider(imap, relay)
    safe_hosts.tls_context.cache_clear()


@pytest.fixture
def victim() -> str:
    return f"president.{uuid.uuid4().hex[:8]}@bigbank.example"


def connect(person: User | Client, form: dict[str, str]) -> Any:
    window = person if isinstance(person, Client) else browser(person)
    return window.post("/mailboxes/connect/imap/", form)


def proofs() -> list[str]:
    return [
        event.data["proof"]
        for event in AuditEvent.objects.exclude(mailbox=None).filter(event__contains="connect")
    ]


def test_private_server_proves_no_address(alice: User, provider: Provider, victim: str) -> None:
    answer = connect(alice, provider.form(victim))
    assert answer.status_code == 403
    assert "Prove the address with a code" in answer.content.decode()
    assert PASSWORD not in answer.content.decode()
    assert not Mailbox.objects.exists()


@pytest.mark.parametrize("wrong", ["another user", "another server", "no host", "none"])
def test_only_a_sign_in_proves_the_address(
    alice: User, provider: Provider, names: NameServer, victim: str, wrong: str
) -> None:
    hosts = {"another server": "mail.bigbank.example", "no host": "my_mail.bigbank.example"}
    host = hosts.get(wrong, "localhost")
    names.mail_of(
        "bigbank.example", host=host, imap=provider.imap.port, smtp=provider.outgoing.port
    )
    changes = {"username": "mallory@bigbank.example"} if wrong == "another user" else {}

    answer = connect(alice, provider.form(victim, **changes))

    assert answer.status_code == (302 if wrong == "none" else 403)
    assert Mailbox.objects.filter(address=victim).exists() is (wrong == "none")
    assert proofs() == (["sign_in"] if wrong == "none" else [])


def test_mailed_code_proves_an_address(
    smtp: FaultySmtp, alice: User, provider: Provider, victim: str
) -> None:
    window = browser(alice)
    begun = window.post("/mailboxes/connect/", {"address": victim})
    assert begun["Location"].startswith("/mailboxes/connect/address/?")
    form = {"address": victim, "provider": "imap"}
    assert smtp.ledger == [], "nothing is mailed before somebody asks for it"
    assert (
        b"A code is on its way"
        in window.post("/mailboxes/connect/address/", {**form, "send": "yes"}).content
    )
    code = code_in(smtp, victim)

    wrong = window.post("/mailboxes/connect/address/", {**form, "code": "BBBB-BBBB"})
    assert wrong.status_code == 422
    assert "This code is wrong or too old" in wrong.content.decode()
    right = window.post(
        "/mailboxes/connect/address/", {**form, "code": code.lower().replace("-", " ")}
    )
    assert right["Location"].startswith("/mailboxes/connect/imap/?address=president")

    connected = connect(window, provider.form(victim))
    assert connected.status_code == 302, connected.content.decode()
    assert Mailbox.objects.get().address == victim
    assert proofs() == ["code"]


def code_in(smtp: FaultySmtp, address: str) -> str:
    (code,) = re.findall(r"\n([B-Z]{4}-[B-Z]{4})\r?\n", the_mail(smtp, address).get_content())
    return str(code)


@pytest.mark.parametrize(
    "reason", ["tried too often", "too old", "of another person", "of another address", "used up"]
)
def test_code_is_valid_once_for_one_person_and_address(
    smtp: FaultySmtp, alice: User, charlie: User, victim: str, reason: str
) -> None:
    form = {"address": victim, "provider": "imap"}
    window = browser(alice)
    window.post("/mailboxes/connect/address/", {**form, "send": "yes"})
    code = code_in(smtp, victim)
    match reason:
        case "tried too often":
            for _ in range(5):
                window.post("/mailboxes/connect/address/", {**form, "code": "BBBB-BBBB"})
        case "too old":
            AddressCode.objects.update(expires_at=timezone.now())
        case "of another person":
            window = browser(charlie)
        case "of another address":
            form["address"] = "ceo@bigbank.example"
        case "used up":
            AddressCode.objects.update(proven_at=timezone.now() - timedelta(hours=2))
    assert window.post("/mailboxes/connect/address/", {**form, "code": code}).status_code == 422
    assert not AuditEvent.objects.filter(event="address_proven").exists()


def test_codes_per_hour_are_limited(
    smtp: FaultySmtp, alice: User, charlie: User, victim: str, settings: Any
) -> None:
    settings.MAILHUB_ADDRESS_MAILS_PER_HOUR = 2

    def send(person: User, address: str) -> int:
        form = {"address": address, "provider": "imap", "send": "yes"}
        return int(browser(person).post("/mailboxes/connect/address/", form).status_code)

    assert [send(alice, victim), send(alice, victim), send(alice, "another@bigbank.example")] == [
        200,
        200,
        429,
    ]
    assert send(charlie, victim) == 429, "an address gets no more, whoever asks"
    assert len(smtp.ledger) == 2
    assert AuditEvent.objects.filter(event="address_code_limited").count() == 2


def test_known_and_unknown_addresses_get_the_same_code_mail(
    smtp: FaultySmtp, alice: User, bob: User
) -> None:
    addresses = (bob.email, "nobody@lovelace.example")
    pages = [
        re.sub(
            r'csrf\w+" value="\w+"|X-CSRFToken[^}]+',
            "",
            browser(alice)
            .post(
                "/mailboxes/connect/address/",
                {"address": address, "provider": "imap", "send": "yes"},
            )
            .content.decode()
            .replace(address, "X"),
        )
        for address in addresses
    ]
    assert pages[0] == pages[1]
    assert [accepted.recipients for accepted in smtp.ledger] == [
        (address,) for address in addresses
    ]


def test_page_without_own_mail_names_the_command(alice: User, victim: str) -> None:
    page = (
        browser(alice)
        .post("/mailboxes/connect/", {"address": victim}, follow=True)
        .content.decode()
    )
    assert "connect_mailbox imap" in page
    assert "Send me the code" not in page


def test_proven_address_of_an_account_belongs_to_its_person(
    provider: Provider, victim: str
) -> None:
    call_command("create_user", "--email", victim, stdout=StringIO())
    assert connect(User.objects.get(email=victim), provider.form(victim)).status_code == 302
    assert proofs() == ["account"]


def test_unproven_address_of_an_account_proves_nothing(provider: Provider, victim: str) -> None:
    assert connect(User.objects.create_user(victim), provider.form(victim)).status_code == 403


@pytest.mark.parametrize("used", [True, False])
def test_mailed_code_proves_the_address_of_an_unused_account(
    smtp: FaultySmtp, alice: User, used: bool
) -> None:
    """Require the code: else the account's creator would share it with the address's owner."""
    if used:
        alice.set_password("a long and quiet word")
        alice.save()
    window = Client()
    window.post("/sign-in/code/", {"email": alice.email})
    window.post("/sign-in/code/confirm/", {"code": code_in(smtp, alice.email)})

    assert window.session["_auth_user_id"] == str(alice.pk)
    alice.refresh_from_db()
    assert (alice.address_proven_at is None) is used


@pytest.mark.parametrize("moved", [True, False])
def test_mailbox_moves_to_other_servers_only_with_proof(
    alice: User, provider: Provider, names: NameServer, victim: str, moved: bool
) -> None:
    names.mail_of(
        "bigbank.example", host="localhost", imap=provider.imap.port, smtp=provider.outgoing.port
    )
    assert connect(alice, provider.form(victim)).status_code == 302
    names.records.clear()
    changes = {"username": "mallory@stranger.example"} if moved else {}

    answer = connect(alice, provider.form(victim, **changes))

    assert answer.status_code == (403 if moved else 302)
    assert proofs() == (["sign_in"] if moved else ["sign_in", "same_servers"])
