"""Connecting a Gmail mailbox: by a token file, or a link and a pasted answer; no browser opens."""

import io
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, quote, urlencode, urlsplit

import pytest
from django.core.management import CommandError, call_command
from google.oauth2.credentials import Credentials

from accounts.connect import google
from accounts.connect.google import COMPOSE_SCOPE, READ_SCOPE, Client
from accounts.connect.refreshing import CannotConnect
from accounts.infra import credentials
from accounts.infra.credentials import Secrets
from accounts.models import Mailbox, Membership, User
from tests.conftest import make_api
from tests.support.people.gmail import ADA, CLIENT, gmail, letter
from tests.support.servers.gmail import GmailServer
from tests.support.sources import ROOT

__all__ = ["gmail"]
pytestmark = pytest.mark.django_db
OURS = Client(id=CLIENT["client_id"], secret=CLIENT["client_secret"])


@pytest.fixture(autouse=True)
def _client(settings: Any) -> None:
    settings.GOOGLE_CLIENT_ID, settings.GOOGLE_CLIENT_SECRET = OURS.id, OURS.secret
    settings.GOOGLE_AUTH_URI = "https://accounts.google.example/auth"


@pytest.fixture
def token_file(gmail: GmailServer, tmp_path: Path) -> Path:
    """Write a token file as google-auth does, with an expired access token."""
    path = tmp_path / "token.json"
    path.write_text(
        Credentials(  # type: ignore[no-untyped-call]
            token="ya29.old",
            refresh_token=gmail.signed_in(ADA),
            token_uri="https://oauth2.googleapis.com/token",
            client_id=OURS.id,
            client_secret=OURS.secret,
            scopes=[READ_SCOPE, COMPOSE_SCOPE],
        ).to_json()
    )
    return path


class Pastes:
    """A person who opens the printed link, allows the access, and pastes the address that the
    browser then shows.
    """

    def __init__(self, shown: io.StringIO, answer: Callable[[dict[str, str]], str]) -> None:
        self.shown, self.answer = shown, answer
        self.asked: dict[str, str] = {}

    def readline(self) -> str:
        link = next(
            line for line in self.shown.getvalue().splitlines() if line.startswith("https://")
        )
        self.asked = asked_by(link)
        return self.answer(self.asked) + "\n"


def asked_by(link: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(link).query))


def connect(*arguments: str, stderr: io.StringIO | None = None) -> str:
    stdout = io.StringIO()
    call_command(
        "connect_mailbox", "gmail", "--address", ADA, *arguments, stdout=stdout, stderr=stderr
    )
    return stdout.getvalue()


def refused(*arguments: str) -> str:
    with pytest.raises(CommandError) as caught:
        connect("--owner", "alice@lovelace.example", *arguments)
    assert not Mailbox.objects.exists()
    return str(caught.value)


# By a file


def test_token_file_connects_mailbox_and_prints_only_its_id(
    alice: User, gmail: GmailServer, token_file: Path
) -> None:
    printed = connect("--owner", alice.email, "--token-file", str(token_file))
    mailbox = Mailbox.objects.get()
    assert printed == f"{mailbox.id}\n"
    assert (mailbox.provider, mailbox.status, mailbox.scopes) == (
        "gmail",
        "active",
        ["read", "draft", "send"],
    )
    assert Membership.objects.get().role == "manager"
    gmail.deliver(ADA, letter("First"))
    listed = make_api(alice, mailbox).tool("list_emails").json()
    assert [row["subject"] for row in listed["emails"]] == ["First"]


def test_expired_token_is_refreshed(alice: User, token_file: Path) -> None:
    connect("--owner", alice.email, "--token-file", str(token_file))
    mailbox = Mailbox.objects.get()
    before = credentials.decrypt(bytes(mailbox.credentials), mailbox_id=mailbox.pk)
    record = credentials.encrypt({**before, "expires_at": time.time() - 5}, mailbox_id=mailbox.pk)
    Mailbox.objects.update(credentials=record)
    assert make_api(alice, mailbox).tool("list_emails").status_code == 200
    mailbox.refresh_from_db()
    after = credentials.decrypt(bytes(mailbox.credentials), mailbox_id=mailbox.pk)
    assert after["access_token"] != before["access_token"]
    assert after["expires_at"] > time.time() + 3000


def test_existing_configured_file_is_the_default(
    alice: User, token_file: Path, settings: Any
) -> None:
    settings.GMAIL_TOKEN_PATH = str(token_file)
    assert connect("--owner", alice.email) == f"{Mailbox.objects.get().id}\n"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        pytest.param(None, "There is no token file", id="missing"),
        pytest.param("{not json", "no valid JSON", id="broken"),
        pytest.param("[]", "not a file of this kind", id="no-object"),
        pytest.param(
            json.dumps({"token": "x"}), "no authorized-user file", id="without-refresh-token"
        ),
    ],
)
def test_useless_file_is_named_with_the_helping_command(
    alice: User, tmp_path: Path, content: str | None, told: str
) -> None:
    path = tmp_path / "token.json"
    if content is not None:
        path.write_text(content)
    sentence = refused("--token-file", str(path))
    assert told in sentence
    assert "manage.py connect_mailbox gmail" in sentence


def test_token_that_google_no_longer_accepts_is_named(
    alice: User, gmail: GmailServer, token_file: Path
) -> None:
    gmail.grant_ended = True
    assert "manage.py connect_mailbox gmail" in refused("--token-file", str(token_file))
    assert gmail.count("token") == 1


def test_unexpected_account_is_refused(alice: User, gmail: GmailServer, token_file: Path) -> None:
    gmail.box(ADA).address = "somebody.else@lovelace.example"
    assert "another address" in refused("--token-file", str(token_file))


@pytest.mark.parametrize("status", [0, 403, 503])
def test_access_that_does_not_work_is_not_saved(
    alice: User, gmail: GmailServer, token_file: Path, status: int
) -> None:
    gmail.fail("getProfile", status)
    assert "Not saved." in refused("--token-file", str(token_file))


CLIENT_REFUSED = ["invalid_client", "unauthorized_client", "deleted_client", "disabled_client"]


@pytest.mark.parametrize("error", CLIENT_REFUSED)
def test_client_refused_by_google_is_named_with_advice(
    alice: User, gmail: GmailServer, token_file: Path, monkeypatch: pytest.MonkeyPatch, error: str
) -> None:
    gmail.token_error = error
    sentence = refused("--token-file", str(token_file))
    assert str(token_file) in sentence
    assert "manage.py connect_mailbox gmail" in sentence

    with pytest.raises(CommandError) as caught:
        pasted(gmail, lambda asked: gmail.code(ADA, asked), monkeypatch)
    assert "GOOGLE_CLIENT_ID and GOOGLE_CLIENT_SECRET" in str(caught.value)
    assert "later" not in sentence + str(caught.value)


def test_missing_redirect_address_is_named(
    alice: User, gmail: GmailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    gmail.token_error = "redirect_uri_mismatch"
    with pytest.raises(CommandError) as caught:
        pasted(gmail, lambda asked: gmail.code(ADA, asked), monkeypatch)
    assert google.PASTED_REDIRECT in str(caught.value)


def test_connecting_again_revives_a_mailbox(alice: User, token_file: Path) -> None:
    connect("--owner", alice.email, "--token-file", str(token_file))
    Mailbox.objects.update(status="needs_reauth")
    connect("--owner", alice.email, "--token-file", str(token_file))
    assert (Mailbox.objects.get().status, Mailbox.objects.get().credentials_version) == (
        "active",
        2,
    )


def test_permission_that_was_not_granted_is_no_ability(
    alice: User, gmail: GmailServer, token_file: Path
) -> None:
    gmail.granted_scope = READ_SCOPE
    connect("--owner", alice.email, "--token-file", str(token_file))
    assert Mailbox.objects.get().scopes == ["read"]


def test_mailbox_without_read_permission_is_not_connected(
    alice: User, gmail: GmailServer, token_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gmail.granted_scope = COMPOSE_SCOPE
    assert READ_SCOPE in refused("--token-file", str(token_file))
    with pytest.raises(CommandError) as caught:
        pasted(gmail, lambda asked: gmail.code(ADA, asked), monkeypatch)
    assert READ_SCOPE in str(caught.value)
    assert not Mailbox.objects.exists()


# By a pasted answer


def pasted(
    gmail: GmailServer, answer: Callable[[dict[str, str]], str], monkeypatch: pytest.MonkeyPatch
) -> Pastes:
    shown = io.StringIO()
    person = Pastes(shown, answer)
    monkeypatch.setattr("sys.stdin", person)
    connect("--owner", "alice@lovelace.example", stderr=shown)
    return person


@pytest.mark.parametrize(
    "form", ["the-whole-address", "the-code-alone", "the-code-as-the-address-bar-shows-it"]
)
def test_printed_link_and_pasted_answer_connect(
    alice: User, gmail: GmailServer, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    def answer(asked: dict[str, str]) -> str:
        code = gmail.code(ADA, asked)
        if form == "the-whole-address":
            return f"{asked['redirect_uri']}?{urlencode({'state': asked['state'], 'code': code})}"
        return code if form == "the-code-alone" else quote(code, safe="")

    asked = pasted(gmail, answer, monkeypatch).asked
    mailbox = Mailbox.objects.get()
    secrets = credentials.decrypt(bytes(mailbox.credentials), mailbox_id=mailbox.pk)
    assert secrets["refresh_token"].startswith("1//")
    assert asked["redirect_uri"].startswith("http://127.0.0.1:")
    page = (ROOT / "docs/use/permissions.md").read_text()
    promised = re.findall(r"(?m)^\| `(https://www\.googleapis\.com/auth/[\w.]+)` \|", page)
    assert sorted(asked["scope"].split()) == sorted(promised)
    told = {
        name: asked[name]
        for name in ("access_type", "include_granted_scopes", "code_challenge_method", "login_hint")
    }
    assert told == {
        "access_type": "offline",
        "include_granted_scopes": "true",
        "code_challenge_method": "S256",
        "login_hint": ADA,
    }


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        pytest.param(lambda asked: "", "Nothing was pasted", id="nothing"),
        pytest.param(
            lambda asked: "http://127.0.0.1/?error=access_denied", "not allowed", id="refused"
        ),
        pytest.param(
            lambda asked: "http://127.0.0.1/?code=x&state=another",
            "another sign-in",
            id="other-state",
        ),
        pytest.param(
            lambda asked: f"http://127.0.0.1/?state={asked['state']}", "no code", id="no-code"
        ),
        pytest.param(lambda asked: "4/never-given", "did not accept", id="unknown-code"),
    ],
)
def test_useless_answer_is_reported_and_not_saved(
    alice: User,
    gmail: GmailServer,
    monkeypatch: pytest.MonkeyPatch,
    answer: Callable[[dict[str, str]], str],
    told: str,
) -> None:
    with pytest.raises(CommandError) as caught:
        pasted(gmail, answer, monkeypatch)
    assert told in str(caught.value)
    assert not Mailbox.objects.exists()


def test_answer_to_another_sign_in_is_useless(gmail: GmailServer) -> None:
    ours, theirs = google.begin(OURS), google.begin(OURS)
    with pytest.raises(CannotConnect):
        google.finish(OURS, ours, gmail.code(ADA, asked_by(theirs.url)))


def test_client_can_be_in_the_file_of_the_google_console(tmp_path: Path, settings: Any) -> None:
    settings.GOOGLE_CLIENT_ID = ""
    with pytest.raises(CannotConnect) as caught:
        google.load_client()
    assert "GMAIL_CREDENTIALS_PATH" in str(caught.value)
    settings.GMAIL_CREDENTIALS_PATH = str(tmp_path / "credentials.json")
    for kind in ("installed", "web"):
        (tmp_path / "credentials.json").write_text(
            json.dumps({kind: {"client_id": "i", "client_secret": "s"}})
        )
        assert google.load_client() == Client(id="i", secret="s")
    (tmp_path / "credentials.json").write_text("{}")
    with pytest.raises(CannotConnect):
        google.load_client()


def test_no_secret_is_printed_during_a_sign_in() -> None:
    begun = google.begin(OURS)
    shown = (
        f"{OURS!r} {begun!r} {google.Grant(secrets=Secrets(refresh_token='canary'), scopes=())!r}"
    )
    assert OURS.secret not in shown
    assert begun.verifier not in shown
    assert "canary" not in shown


def test_client_secret_changed_in_the_environment_is_used(
    gmail: GmailServer, settings: Any
) -> None:
    settings.GOOGLE_CLIENT_SECRET = "changed"
    gmail.clients |= {OURS.id: "changed", "another": "its-own"}
    token = gmail.signed_in(ADA)
    google.refresh(Secrets(client_id=OURS.id, client_secret="old", refresh_token=token))
    google.refresh(Secrets(client_id="another", client_secret="its-own", refresh_token=token))
    sent = [parse_qs(call.content.decode())["client_secret"] for call in gmail.calls]
    assert sent == [["changed"], ["its-own"]]
