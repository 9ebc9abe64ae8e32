"""Each sign-in of a program has rights of its own, and ends by itself."""

from importlib import import_module

import pytest
from allauth.idp.oidc.models import Token
from django.apps import apps

from accounts.models import ApiToken, Mailbox, User
from approvals.models import AuditEvent
from tests.conftest import Api, make_mailbox
from tests.support.people.browser import browser
from tests.support.people.programs import Program
from tests.support.servers.memory import MemoryServer

pytestmark = pytest.mark.django_db


@pytest.fixture
def program(db: None) -> Program:
    return Program.registered()


def test_later_consent_changes_no_earlier_sign_in(
    program: Program, alice: User, mailbox: Mailbox, server: MemoryServer
) -> None:
    """Also installations on two computers have one id."""
    second = make_mailbox("second@lovelace.example", server, alice)
    first = program.connect(alice, mailbox, scopes="mail:read")
    program.connect(alice, mailbox, second)
    earlier = Api(secret=first["access_token"])
    seen = earlier.tool("list_mailboxes").json()["mailboxes"]
    assert [each["address"] for each in seen] == [mailbox.address]
    assert earlier.tool("list_drafts").status_code == 403
    assert program.refresh(first["refresh_token"]).json()["scope"] == "mail:read"


def test_each_sign_in_ends_by_itself(program: Program, alice: User, mailbox: Mailbox) -> None:
    pairs = [program.connect(alice, mailbox) for _ in range(2)]
    page = browser(alice).get("/tokens/").content.decode()
    assert page.count("<bdi>Helper</bdi>") == page.count("<bdi>Helper 2</bdi>") == 1
    browser(alice).post(f"/tokens/{ApiToken.objects.get(name='Helper').pk}/revoke/")
    found = [Api(secret=each["access_token"]).tool("list_mailboxes").status_code for each in pairs]
    assert found == [401, 200]
    assert [program.refresh(each["refresh_token"]).status_code for each in pairs] == [400, 200]
    program.connect(alice, mailbox)
    assert ApiToken.objects.filter(name="Helper 3").exists(), "no sign-in takes an earlier name"


def test_limit_survives_a_refresh(program: Program, alice: User, mailbox: Mailbox) -> None:
    held = program.connect(alice, mailbox, scopes="mail:read mail:draft")
    grant = ApiToken.objects.get()
    form = {"scopes": ["mail:read"], "mailboxes": [str(mailbox.pk)]}
    browser(alice).post(f"/tokens/{grant.pk}/narrow/", form)
    asked = program.refresh(held["refresh_token"], scope="mail:draft")
    assert asked.json()["error"] == "invalid_scope"
    again = program.refresh(held["refresh_token"]).json()
    assert again["scope"] == "mail:read"
    assert Api(secret=again["access_token"]).tool("list_drafts").status_code == 403


def test_copied_refresh_token_ends_the_sign_in_in_the_audit(
    program: Program, alice: User, mailbox: Mailbox
) -> None:
    held = program.connect(alice, mailbox)
    program.refresh(held["refresh_token"])
    assert program.refresh(held["refresh_token"]).status_code == 400
    grant = ApiToken.objects.get()
    assert grant.revoked_at is not None
    event = AuditEvent.objects.filter(event="token_revoked").last()
    assert event is not None
    assert event.actor == f"token:{grant.pk}"


def test_sign_in_of_an_earlier_version_goes_on(
    program: Program, alice: User, mailbox: Mailbox
) -> None:
    held = program.connect(alice, mailbox)
    for token in Token.objects.all():
        token.data = {**(token.data or {}), "family": "0" * 32}
        token.save()
    assert Api(secret=held["access_token"]).tool("list_mailboxes").status_code == 401
    import_module("accounts.migrations.0017_sign_ins").name_the_grant(apps, None)
    assert Api(secret=held["access_token"]).tool("list_mailboxes").status_code == 200
    assert program.refresh(held["refresh_token"]).status_code == 200
