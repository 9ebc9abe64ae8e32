"""Inviting says what changes, and joining leads over a name and a way to sign in to the queue."""

from typing import Any

import pytest
from django.test import Client

from accounts.models import Invitation, Mailbox, User, digest_of
from tests.conftest import Api
from tests.support.people.browser import browser

pytestmark = pytest.mark.django_db(transaction=True)
EMAIL = "new@lovelace.example"
WARNS = "You have none yet."


@pytest.fixture
def link(alice: User, mailbox: Mailbox) -> str:
    Invitation.objects.create(
        mailbox=mailbox,
        email=EMAIL,
        role="approver",
        digest=digest_of("secret"),
        invited_by=alice,
        expires_at="2999-01-01T00:00Z",
    )
    return "/invitations/secret/"


@pytest.mark.parametrize(
    ("rule", "warns"), [("auto", True), ("required", False), ("optional", False)]
)
def test_invitation_of_the_second_person_says_what_it_changes(
    alice: User, mailbox: Mailbox, settings: Any, rule: str, warns: bool
) -> None:
    settings.MAILHUB_SECOND_FACTOR = rule
    page = browser(alice).get(f"/mailboxes/{mailbox.pk}/").content.decode()
    assert (WARNS in page) is warns
    User.objects.create_user("third@lovelace.example")
    assert WARNS not in browser(alice).get(f"/mailboxes/{mailbox.pk}/").content.decode()


def test_new_member_gives_a_name_and_a_way_to_sign_in(link: str) -> None:
    window = Client()
    assert b'name="name"' in window.get(link).content
    joined = window.post(link, {"name": " Bo\u202e  Bergstr\u00f6m\n"})
    assert joined["Location"] == "/welcome/"
    assert User.objects.get(email=EMAIL).get_full_name() == "Bo Bergstr\u00f6m"
    page = window.get("/welcome/").content.decode()
    assert "/account/password/set/" in page
    assert "mh_" not in page
    answer = window.post(
        "/account/password/set/",
        {"password1": "kelp oar 9 tundra", "password2": "kelp oar 9 tundra"},
    )
    assert answer["Location"] == "/welcome/"
    page = window.get("/welcome/").content.decode()
    assert "/account/password/set/" not in page
    assert "Mail that waits for a decision is here." in window.get("/?first=yes").content.decode()
    # Later changes lead to the page of the account again.
    assert window.get("/account/factors/")["Location"] == "/account/"


@pytest.mark.parametrize(
    "name",
    ["ALICE", "\uff21lice", "alice@lovelace.example", "Write to evil.example", "https://evil"],
)
def test_new_name_is_neither_a_members_nor_a_link(link: str, name: str) -> None:
    refused = Client().post(link, {"name": name})
    assert refused.status_code in (409, 422)
    assert 'role="alert"' in refused.content.decode()
    assert not User.objects.filter(email=EMAIL).exists()
    assert Client().post(link, {"name": "Dr. J.R. O'Neil-Sm\u00edth"}).status_code == 302


def test_address_stands_beside_a_chosen_name(api: Api, link: str) -> None:
    window, action = Client(), api.propose()
    assert "Alice (alice@lovelace.example) invites" in window.get(link).content.decode()
    window.post(link, {"name": "Alice Lovelace"})
    assert window.post(f"/actions/{action}/comments/", {"text": "Checked."}).status_code == 302
    page = window.get(f"/actions/{action}/").content.decode()
    assert f"Alice Lovelace ({EMAIL})" in page


def test_member_without_a_way_in_is_told_so(link: str, settings: Any) -> None:
    settings.SENDS_MAIL = False
    window = Client()
    window.post(link, {"name": "Bo"})
    page = window.get("/account/").content.decode()
    assert "you do not need one" not in page
    assert "a link from your administrator for each" in page
