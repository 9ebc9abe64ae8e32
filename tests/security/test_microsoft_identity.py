"""A Microsoft 365 mailbox belongs to one account of an allowed tenant, whatever its name."""

from typing import Any

import pytest
from django.core.checks import run_checks
from django.test import Client

from accounts.connect import microsoft
from accounts.connect.refreshing import access_token
from accounts.infra import credentials
from accounts.models import Mailbox, User
from accounts.people.address_proof import prove_account
from tests.accounts.test_connect_microsoft import connect, graph, service
from tests.accounts.test_connect_wizard import ask, come_back
from tests.support.people.browser import browser
from tests.support.servers.graph import GraphServer
from tests.support.servers.microsoft_sign_in import OID, TENANT, SignInService
from tests.support.servers.sandbox import ADA

__all__ = ["graph", "service"]
pytestmark = pytest.mark.django_db(transaction=True)
PERSONAL = "9188040d-6c67-4c5b-b112-36a304b66dad"


def sign_in(window: Client, address: str = ADA) -> Any:
    asked = ask(window, address)
    return come_back(window, state=asked["state"], code=f"good:{asked['nonce']}")


@pytest.mark.parametrize("tenant", ["common", "organizations", "Common"])
def test_tenant_open_to_everybody_is_refused_in_the_web(
    alice: User, service: SignInService, settings: Any, tenant: str
) -> None:
    settings.MICROSOFT_TENANT = tenant
    answer = browser(alice).post("/mailboxes/connect/microsoft/", {"address": ADA})
    assert answer.status_code == 403
    assert "MICROSOFT_ALLOWED_TENANTS" in answer.content.decode()
    assert "mailhub.W001" in [warning.id for warning in run_checks()]

    settings.MICROSOFT_ALLOWED_TENANTS = [TENANT]
    assert f"{ADA} is connected" in sign_in(browser(alice)).content.decode()
    assert "mailhub.W001" not in [warning.id for warning in run_checks()]


def test_mailbox_connected_under_common_is_refreshed(
    alice: User, service: SignInService, settings: Any
) -> None:
    settings.MICROSOFT_TENANT = "common"
    connect()  # by an operator's command
    mailbox = Mailbox.objects.get()
    before = access_token(mailbox, microsoft.refresh)
    assert access_token(mailbox, microsoft.refresh, rejected=before) != before


@pytest.mark.parametrize(
    ("identity", "words"),
    [
        ({"oid": OID, "tid": "ffffffff-0000-4000-8000-00000000c0de"}, "of this organisation"),
        ({"oid": OID}, "which account"),
        ({"tid": TENANT}, "which account"),
        ({"oid": OID, "tid": TENANT, "aud": "another application"}, "which account"),
        ({}, "which account"),
    ],
)
def test_account_of_a_forbidden_tenant_connects_nothing(
    alice: User, service: SignInService, identity: dict[str, str], words: str
) -> None:
    service.identity = identity
    refused = sign_in(browser(alice))
    assert refused.status_code == 403
    assert words in refused.content.decode()
    assert not Mailbox.objects.exists()


@pytest.mark.parametrize(
    ("sign_in_name", "connected"),
    [
        (ADA, True),
        ("ada.l@lovelace.example", True),
        ("mallory@evil.example", False),
        ("ada_lovelace.example#EXT#@evil.example", False),
    ],
)
def test_contact_address_counts_only_in_the_sign_in_domain(
    alice: User, service: SignInService, graph: GraphServer, sign_in_name: str, connected: bool
) -> None:
    """Do not trust the field `mail` of an account: it is free text of its administrators."""
    graph.aliases[ADA] = sign_in_name
    answer = sign_in(browser(alice))
    assert Mailbox.objects.exists() is connected
    if not connected:
        assert "contact address" in answer.content.decode()
        assert "Prove the address with a code" in answer.content.decode()


def test_proven_contact_address_is_connected(service: SignInService, graph: GraphServer) -> None:
    graph.aliases[ADA] = "ada@another.example"
    ada = User.objects.create_user(ADA)
    assert sign_in(browser(ada)).status_code == 403
    prove_account(ada, how="command")
    assert f"{ADA} is connected" in sign_in(browser(ada)).content.decode()


def test_personal_account_proves_only_microsoft_addresses(
    alice: User, service: SignInService, settings: Any
) -> None:
    settings.MICROSOFT_ALLOWED_TENANTS = [PERSONAL]
    service.identity = {"oid": OID, "tid": PERSONAL}
    assert sign_in(browser(alice)).status_code == 403
    assert not Mailbox.objects.exists()


def test_mailbox_stays_with_the_account_that_connected_it(
    alice: User, service: SignInService
) -> None:
    """Keep the mailbox here when its address is given to another account."""
    window = browser(alice)
    sign_in(window)
    mailbox = Mailbox.objects.get()
    secrets = credentials.decrypt(bytes(mailbox.credentials), mailbox_id=mailbox.pk)
    assert secrets["identity"] == {"oid": OID, "tid": TENANT}

    service.identity = {"oid": "ffffffff-0000-4000-8000-0000000000ad", "tid": TENANT}
    refused = sign_in(window)
    assert refused.status_code == 403
    assert "disconnect the mailbox first" in refused.content.decode()

    window.post(f"/mailboxes/{mailbox.pk}/disconnect/")
    assert f"{ADA} is connected" in sign_in(window).content.decode()
