"""`create_program` adds a program that may ask for access where programs cannot register."""

from io import StringIO
from typing import Any

import pytest
from allauth.idp.oidc.models import Client as OAuthClient
from django.core.management import CommandError, call_command
from django.test import Client

from accounts.models import Mailbox, User
from accounts.oauth.cleanup import UNUSED_PROGRAM, forget_old
from approvals.models import AuditEvent
from tests.conftest import Api
from tests.support.people.browser import browser
from tests.support.people.programs import BACK, Program, allow

pytestmark = pytest.mark.django_db


def create(*redirects: str, name: str = "Invoice desk") -> str:
    printed = StringIO()
    given = [f"--redirect={each}" for each in redirects]
    call_command("create_program", f"--name={name}", *given, stdout=printed)
    return printed.getvalue().strip()


@pytest.mark.parametrize("mode", ["off", "listed", "on"])
def test_added_program_connects_whatever_may_register(
    alice: User, mailbox: Mailbox, settings: Any, mode: str
) -> None:
    settings.MAILHUB_OAUTH_REGISTRATION = mode
    program = Program(client_id=create(BACK))
    page = browser(alice).get(program.address()).content.decode()
    assert "Invoice desk" in page
    assert "added by your administrator" in page
    assert "unverified" not in page
    assert "chose its name itself" not in page
    tokens = program.connect(alice, mailbox)
    api = Api(secret=tokens["access_token"])
    assert api.tool("list_mailboxes").status_code == 200
    page = browser(alice).get("/tokens/").content.decode()
    assert "connected program, added by your administrator" in page
    assert program.refresh(tokens["refresh_token"]).status_code == 200


@pytest.mark.parametrize(("given", "status"), [([], 400), (["--device"], 200)])
def test_added_program_gets_device_codes_only_if_asked(
    db: None, given: list[str], status: int
) -> None:
    printed = StringIO()
    call_command("create_program", "--name=Desk", f"--redirect={BACK}", *given, stdout=printed)
    form = {"client_id": printed.getvalue().strip()}
    assert Client().post("/oauth/device/code", form).status_code == status


def test_added_program_returns_only_to_its_addresses(alice: User, mailbox: Mailbox) -> None:
    known = create("https://desk.example/back", "https://desk.example/other")
    for back, status in (("https://desk.example/other", 302), ("https://evil.example/back", 400)):
        program = Program(client_id=known, back=back)
        assert allow(alice, program.address(), mailbox).status_code == status


def test_added_program_is_kept_and_audited(db: None) -> None:
    known = create(BACK)
    OAuthClient.objects.update(created_at=OAuthClient.objects.get().created_at - 2 * UNUSED_PROGRAM)
    forget_old()
    assert OAuthClient.objects.get().pk == known
    assert AuditEvent.objects.get(event="program_added").data["program"] == known


@pytest.mark.parametrize(
    ("redirect", "name"),
    [("http://desk.example/back", "Desk"), ("javascript:alert(1)", "Desk"), (BACK, "  ")],
)
def test_unusable_program_is_refused(redirect: str, name: str) -> None:
    with pytest.raises(CommandError):
        create(redirect, name=name)
    assert not OAuthClient.objects.exists()
