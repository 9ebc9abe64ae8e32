"""Attacks on the consent page and on the registration of programs."""

from typing import Any

import pytest
from allauth.idp.oidc.models import Client as Registered
from django.test import Client

from accounts.models import SCOPE_ROLES, ApiToken, Mailbox, Membership, Role, User
from tests.conftest import make_mailbox
from tests.support.people.browser import browser
from tests.support.people.programs import ALL, BACK, Program, allow
from tests.support.servers.memory import MemoryServer
from tools.catalog.entries import TOOLS

pytestmark = pytest.mark.django_db


@pytest.fixture
def program(db: None) -> Program:
    return Program.registered()


def test_nobody_gives_more_than_they_may(program: Program, alice: User, mailbox: Mailbox) -> None:
    Membership.objects.filter(user=alice).update(role=Role.VIEWER)
    page = browser(alice).get(program.address(scope=f"{ALL} m365:run")).content.decode()
    assert 'value="mail:read"' in page
    for scope in ("mail:draft", "mail:propose", "m365:run"):
        assert f'value="{scope}"' not in page
        answer = allow(alice, program.address(scope=f"{ALL} m365:run"), mailbox, scopes=scope)
        assert answer.status_code == 200
    assert not ApiToken.objects.exists()


def test_foreign_mailbox_cannot_be_given(
    program: Program, alice: User, mailbox: Mailbox, foreign_mailbox: Mailbox
) -> None:
    assert allow(alice, program.address(), foreign_mailbox).status_code == 200
    assert not ApiToken.objects.exists()


def test_only_reading_is_ticked(
    program: Program, alice: User, mailbox: Mailbox, server: MemoryServer
) -> None:
    make_mailbox("second@lovelace.example", server, alice)
    form = browser(alice).get(program.address()).context["form"]
    assert form.fields["scopes"].initial == ["mail:read"]
    assert form.fields["mailboxes"].initial == []


# --- The consent page in a browser


def test_consent_needs_a_sign_in(program: Program) -> None:
    assert Client().get(program.address())["Location"].startswith("/sign-in/")
    assert Client().post(program.address())["Location"].startswith("/sign-in/")


def test_consent_needs_a_fresh_sign_in(program: Program, alice: User, mailbox: Mailbox) -> None:
    for answer in (
        browser(alice, fresh=False).get(program.address()),
        allow(alice, program.address(), mailbox, window=browser(alice, fresh=False)),
    ):
        assert answer["Location"].startswith("/sign-in/again/")
    assert not ApiToken.objects.exists()


def test_consent_needs_the_required_second_factor(
    program: Program, alice: User, mailbox: Mailbox, settings: Any
) -> None:
    settings.MAILHUB_SECOND_FACTOR = "required"
    answer = allow(alice, program.address(), mailbox)
    assert answer["Location"].startswith("/account/second-factor/")
    assert not ApiToken.objects.exists()


def test_foreign_page_cannot_post_the_consent(
    program: Program, alice: User, mailbox: Mailbox
) -> None:
    window = Client(enforce_csrf_checks=True)
    window.force_login(alice)
    assert allow(alice, program.address(), mailbox, window=window).status_code == 403
    assert not ApiToken.objects.exists()


def test_consent_page_cannot_be_framed(program: Program, alice: User, mailbox: Mailbox) -> None:
    page = browser(alice).get(program.address())
    assert page["X-Frame-Options"] == "DENY"
    assert "frame-ancestors 'none'" in page["Content-Security-Policy"]
    directives = page["Content-Security-Policy"].split("; ")
    assert "form-action 'self' http://127.0.0.1:5000" in directives


def test_stored_odd_host_adds_nothing_to_the_policy(
    program: Program, alice: User, mailbox: Mailbox
) -> None:
    """An earlier version registered such hosts."""
    program.back = "https://a;sandbox/cb"
    Registered.objects.update(redirect_uris=program.back)
    page = browser(alice).get(program.address())
    assert page.status_code == 200
    directives = page["Content-Security-Policy"].split("; ")
    assert "form-action 'self' https:" in directives
    assert "sandbox" not in str(directives)


def test_page_shows_who_asks_and_that_nobody_checked_it(alice: User, mailbox: Mailbox) -> None:
    program = Program.registered(name="Cl\u202eaude\n&", back="https://agent.example/cb")
    page = browser(alice).get(program.address()).content.decode()
    assert "Cl aude &amp;" in page
    for words in ("agent.example", "unverified", alice.email):
        assert words in page


# --- Registration


@pytest.mark.parametrize(
    "back",
    [
        "http://evil.example/cb", "javascript:alert(1)", "data:text/html,x", "https://a.example/#x",
        "https://user@a.example/", "https://*.example/", "https://a.example\\@b.example/", "https://a.example\\.b.example/",
        "//a.example/", "https:///x", "file:///etc/passwd", "https://ä.example/",
        "https://a;sandbox/cb", "https://a,b/cb", "https://a'b/cb", "https://[v1.a:;sandbox]/cb",
    ],
)  # fmt: skip
def test_unsafe_redirect_cannot_be_registered(db: None, back: str) -> None:
    answer = Program().register(redirect_uris=[back])
    assert answer.status_code == 400
    assert answer.json()["error"] == "invalid_redirect_uri"
    assert not Registered.objects.exists()


def test_registration_with_deep_json_in_a_text_is_refused(db: None) -> None:
    deep = '{"a":' * 20_000 + "1" + "}" * 20_000
    answer = Program().register(redirect_uris=[BACK], grant_types=deep)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_client_metadata")


def test_flood_of_registrations_is_stopped(db: None) -> None:
    answers = [Program().register(redirect_uris=[BACK]) for _ in range(25)]
    assert [answer.status_code for answer in answers] == [201] * 20 + [429] * 5
    assert int(answers[-1]["Retry-After"]) > 0
    assert Registered.objects.count() == 20


@pytest.mark.parametrize(
    ("mode", "hosts", "back", "status"),
    [
        ("off", [], BACK, 403), ("listed", [], BACK, 400), ("listed", ["localhost"], BACK, 201),
        ("listed", ["claude.ai"], "https://claude.ai/cb", 201),
        ("listed", ["claude.ai"], "https://evil.example/cb", 400),
        ("listed", ["cursor:"], "cursor://anysphere/cb", 201),
        ("on", [], "cursor://anysphere/cb", 201),
    ],
)  # fmt: skip
def test_staff_restrict_registration(
    db: None, settings: Any, mode: str, hosts: list[str], back: str, status: int
) -> None:
    settings.MAILHUB_OAUTH_REGISTRATION, settings.MAILHUB_OAUTH_HOSTS = mode, hosts
    assert Program().register(redirect_uris=[back]).status_code == status
    found = Client().get("/.well-known/oauth-authorization-server").json()
    assert ("registration_endpoint" in found) is (mode != "off")


@pytest.mark.parametrize("mode", ["off", "listed"])
def test_restriction_holds_for_programs_that_registered_before(
    program: Program, alice: User, mailbox: Mailbox, settings: Any, mode: str
) -> None:
    kept = program.connect(alice, mailbox)
    settings.MAILHUB_OAUTH_REGISTRATION = mode
    assert allow(alice, program.address(), mailbox).status_code == 400
    assert program.refresh(kept["refresh_token"]).status_code == 200


def test_scopes_of_the_page_have_the_roles_of_their_tools() -> None:
    """Compare what a role lets a person give with what the catalogue asks of it."""
    for scope, role in SCOPE_ROLES.items():
        needs = [
            tool.need for tool in TOOLS.values() if tool.scope == scope and hasattr(tool, "need")
        ]
        assert role in needs, scope
        assert all(each.covers(role) or each == Role.VIEWER for each in needs), scope


def test_sign_in_leads_back_to_the_consent_page(program: Program, alice: User) -> None:
    alice.set_password("correct horse battery")
    alice.save()
    window = Client()
    address = window.get(program.address())["Location"]
    form = {"login": alice.email, "password": "correct horse battery"}
    landed = window.post(address, form)
    assert landed["Location"] == program.address()
    assert "Connect" in window.get(landed["Location"]).content.decode()


def test_old_sign_in_leads_back_to_the_consent_page(program: Program, alice: User) -> None:
    asked = browser(alice, fresh=False).get(program.address(), follow=True)
    assert asked.context["back"] == program.address()
