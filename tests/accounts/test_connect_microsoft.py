"""Connecting a mailbox of Microsoft 365: device code, browser, application; against a sign-in
service over TLS.
"""

from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from accounts.connect import microsoft
from accounts.connect.refreshing import CannotConnect, GrantEnded, NoToken, access_token
from accounts.infra import credentials
from accounts.models import Mailbox, TokenRefresh, User
from tests.conftest import make_api
from tests.support.servers.graph import GraphServer
from tests.support.servers.microsoft_sign_in import TENANT, SignInService
from tests.support.servers.sandbox import ADA

pytestmark = pytest.mark.django_db
REDIRECT = "https://mailhub.example/mailboxes/connect/microsoft/"


@pytest.fixture
def graph(settings: Any) -> Iterator[GraphServer]:
    with GraphServer() as server:
        settings.GRAPH_BASE_URL = server.url
        yield server


@pytest.fixture
def service(
    graph: GraphServer, tmp_path: Path, settings: Any, monkeypatch: Any
) -> Iterator[SignInService]:
    with SignInService(tmp_path, lambda given: graph.token(ADA)) as running:
        settings.MICROSOFT_CLIENT_ID, settings.MICROSOFT_AUTHORITY = "client", running.url
        settings.MICROSOFT_TENANT = TENANT
        monkeypatch.setenv("SSL_CERT_FILE", str(running.authority.file))
        yield running


def connect(*options: str, address: str = ADA) -> tuple[str, str]:
    out, err = StringIO(), StringIO()
    owner = "alice@lovelace.example"
    call_command(
        "connect_mailbox",
        "microsoft",
        "--address",
        address,
        "--owner",
        owner,
        *options,
        stdout=out,
        stderr=err,
    )
    return out.getvalue(), err.getvalue()


def secrets_of(mailbox: Mailbox) -> credentials.Secrets:
    return credentials.decrypt(bytes(mailbox.credentials), mailbox_id=mailbox.pk)


def test_device_code_connects_the_mailbox_that_signed_in(
    alice: User, service: SignInService
) -> None:
    service.errors.append("authorization_pending")
    printed, said = connect()
    mailbox = Mailbox.objects.get()
    assert printed == f"{mailbox.pk}\n"
    assert "ABCD-EFGH" in said
    assert (mailbox.provider, mailbox.scopes) == ("microsoft", ["Mail.ReadWrite", "Mail.Send"])
    assert secrets_of(mailbox)["refresh_token"] == "refresh 2"
    assert service.grants[-1]["device_code"] == "device"


FEW = "https://graph.microsoft.com/Mail.Send https://graph.microsoft.com/Mail.Read User.Read"


def test_other_scopes_can_be_requested_after_a_refusal(
    alice: User, service: SignInService, settings: Any
) -> None:
    service.scope = FEW
    with pytest.raises(CommandError, match="invalid_grant"):
        connect()
    connect("--permissions", "Mail.Read", "Mail.Send")
    assert Mailbox.objects.get().scopes == ["Mail.Read", "Mail.Send"]
    settings.MICROSOFT_PERMISSIONS = ["Mail.Send", "Mail.Read"]
    asked = parse_qs(urlsplit(microsoft.begin_sign_in(REDIRECT)["auth_uri"]).query)["scope"][0]
    assert {name.rpartition("/")[2] for name in asked.split()} == {
        "Mail.Send",
        "Mail.Read",
        "User.Read",
        "openid",
        "profile",
        "offline_access",
    }


def test_granted_scopes_decide_and_not_requested_ones(alice: User, service: SignInService) -> None:
    connect("--permissions", "Mail.Send")
    assert Mailbox.objects.get().scopes == ["Mail.ReadWrite", "Mail.Send"]


def test_refresh_asks_for_the_granted_scopes(alice: User, service: SignInService) -> None:
    service.scope = FEW
    connect("--permissions", "Mail.Read", "Mail.Send")
    mailbox = Mailbox.objects.get()
    token = access_token(mailbox, microsoft.refresh)
    assert access_token(mailbox, microsoft.refresh, rejected=token) != token
    assert "Mail.ReadWrite" not in service.grants[-1]["scope"]
    assert len(service.grants) == 2


def test_withdrawn_permission_is_gone_and_mailbox_stays(
    alice: User, service: SignInService
) -> None:
    connect()
    mailbox = Mailbox.objects.get()
    service.scope = FEW
    token = access_token(mailbox, microsoft.refresh)
    token = access_token(mailbox, microsoft.refresh, rejected=token)
    mailbox.refresh_from_db()
    assert (mailbox.scopes, mailbox.status) == (["Mail.Read", "Mail.Send"], "active")

    service.scope = (
        "Mail.ReadWrite Mail.Send User.Read Mail.Read"  # granted again: the next token has it
    )
    token = access_token(mailbox, microsoft.refresh, rejected=token)
    mailbox.refresh_from_db()
    assert mailbox.scopes == ["Mail.Read", "Mail.ReadWrite", "Mail.Send"]

    service.scope = "User.Read"
    for _ in range(2):
        token = access_token(mailbox, microsoft.refresh, rejected=token)
    mailbox.refresh_from_db()
    assert (mailbox.scopes, mailbox.status) == ([], "active")


def test_consent_without_any_scope_left_ends_the_grant(alice: User, service: SignInService) -> None:
    connect()
    mailbox = Mailbox.objects.get()
    token = access_token(mailbox, microsoft.refresh)
    service.scope = ""
    with pytest.raises(GrantEnded):
        access_token(mailbox, microsoft.refresh, rejected=token)
    mailbox.refresh_from_db()
    assert mailbox.status == "needs_reauth"


def test_sign_in_as_another_person_connects_nothing(alice: User, service: SignInService) -> None:
    with pytest.raises(CommandError, match="another address"):
        connect(address="charles@lovelace.example")
    assert not Mailbox.objects.exists()


@pytest.mark.parametrize(
    ("error", "sentence"), [("access_denied", "access_denied"), ("expired_token", "expired_token")]
)
def test_refused_sign_in_hides_the_text_of_microsoft(
    alice: User, service: SignInService, error: str, sentence: str
) -> None:
    service.refuses = error
    with pytest.raises(CommandError, match=sentence) as caught:
        connect()
    assert "SIGN-IN TEXT" not in str(caught.value)
    assert not Mailbox.objects.exists()


def test_missing_app_registration_is_explained(alice: User, settings: Any) -> None:
    settings.MICROSOFT_CLIENT_ID = ""
    with pytest.raises(CommandError, match="MICROSOFT_CLIENT_ID"):
        connect()


def test_unavailable_sign_in_service_is_explained(
    alice: User, service: SignInService, settings: Any
) -> None:
    settings.MICROSOFT_AUTHORITY = "https://127.0.0.1:9"
    with pytest.raises(CommandError, match="cannot be reached"):
        connect()


def test_application_mailbox_is_renewed_without_a_person(
    alice: User, service: SignInService, graph: GraphServer, settings: Any
) -> None:
    settings.MICROSOFT_CLIENT_SECRET, settings.MICROSOFT_TENANT = (
        "kept from everybody",
        "contoso.example",
    )
    connect("--application")
    mailbox = Mailbox.objects.get()
    assert graph.hits[-1].path == f"/v1.0/users/{ADA}/mailFolders/inbox"
    assert service.grants[-1]["scope"].endswith("/.default")
    assert secrets_of(mailbox)["application"] is True
    before = access_token(mailbox, microsoft.refresh)
    assert access_token(mailbox, microsoft.refresh, rejected=before) != before
    assert {grant["grant_type"] for grant in service.grants} == {"client_credentials"}
    mailbox.refresh_from_db()
    assert mailbox.scopes == ["Mail.ReadWrite", "Mail.Send"]
    connect("--application", "--permissions", "Mail.Read", "Mail.Send")
    mailbox.refresh_from_db()
    assert mailbox.scopes == ["Mail.Read", "Mail.Send"]


def test_send_only_application_is_connected_with_a_note(
    alice: User, service: SignInService, graph: GraphServer, settings: Any
) -> None:
    settings.MICROSOFT_CLIENT_SECRET, settings.MICROSOFT_TENANT = (
        "kept from everybody",
        "contoso.example",
    )
    service.issue = lambda given: graph.token(ADA, "Mail.Send")
    with pytest.raises(CommandError, match="403"):
        connect("--application")
    _, said = connect("--application", "--permissions", "Mail.Send")
    assert "not tested" in said
    assert Mailbox.objects.get().scopes == ["Mail.Send"]


def test_application_mailbox_needs_the_secret(alice: User, service: SignInService) -> None:
    with pytest.raises(CommandError, match="MICROSOFT_CLIENT_SECRET"):
        connect("--application")


def test_browser_sign_in_has_a_challenge_and_its_own_answer(service: SignInService) -> None:
    flow = microsoft.begin_sign_in(REDIRECT, login_hint=ADA)
    asked = parse_qs(urlsplit(flow["auth_uri"]).query)
    assert (asked["redirect_uri"], asked["code_challenge_method"]) == ([REDIRECT], ["S256"])
    assert "offline_access" in asked["scope"][0]

    with pytest.raises(CannotConnect, match="was not begun here"):
        microsoft.finish_sign_in(flow, {"code": "c", "state": "of another flow"})
    assert service.grants == []

    granted = microsoft.finish_sign_in(
        flow, {"code": f"c:{asked['nonce'][0]}", "state": flow["state"]}
    )
    assert service.grants[-1]["code_verifier"] == flow["code_verifier"]
    assert granted.scopes == ("Mail.ReadWrite", "Mail.Send")
    assert granted.secrets["access_token"] not in repr(granted)


@pytest.mark.fault(36)
@pytest.mark.parametrize(
    ("error", "raised"),
    [
        ("invalid_grant", GrantEnded), ("interaction_required", GrantEnded), ("invalid_client", NoToken),
        ("temporarily_unavailable", NoToken),
    ],
)  # fmt: skip
def test_only_errors_a_person_must_fix_end_the_grant(
    alice: User, service: SignInService, error: str, raised: type[Exception]
) -> None:
    connect()
    mailbox = Mailbox.objects.get()
    token = access_token(mailbox, microsoft.refresh)
    service.refuses = error
    with pytest.raises(raised):
        access_token(mailbox, microsoft.refresh, rejected=token)
    mailbox.refresh_from_db()
    assert mailbox.status == ("needs_reauth" if raised is GrantEnded else "active")
    assert TokenRefresh.objects.get().lease_until is None


@pytest.mark.parametrize("status", [500, 503])
def test_outage_of_the_sign_in_service_is_asked_once_a_minute(
    alice: User, service: SignInService, status: int
) -> None:
    connect()
    mailbox = Mailbox.objects.get()
    old = {**secrets_of(mailbox), "expires_at": 0}
    Mailbox.objects.update(credentials=credentials.encrypt(old, mailbox_id=mailbox.pk))
    service.refuses, service.refuses_with = "temporarily_unavailable", status
    asked, api = len(service.grants), make_api(alice, mailbox)
    for _ in range(2):
        answer = api.tool("list_emails")
        assert (answer.status_code, answer["Retry-After"]) == (503, "60")
    assert len(service.grants) == asked + 1
    with pytest.raises(CommandError, match="gave no usable answer"):
        connect()
