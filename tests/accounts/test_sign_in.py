"""The ways in: a password, or a one-time link that a look at it does not use up."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from accounts.models import SignInLink, User

pytestmark = pytest.mark.django_db
PASSWORD = "a long and quiet password"


def signed_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


@pytest.fixture
def link(alice: User) -> str:
    return f"/sign-in/{SignInLink.issue(user=alice, lifetime=timedelta(minutes=5))}/"


@pytest.mark.parametrize(("password", "in_"), [(PASSWORD, True), ("another one", False), ("", False)])
def test_a_password_lets_in_who_knows_it(client: Client, alice: User, password: str, in_: bool) -> None:
    alice.set_password(PASSWORD)
    alice.save()

    client.post("/sign-in/", {"login": "ALICE@lovelace.example", "password": password})

    assert signed_in(client) is in_


def test_who_has_no_password_cannot_sign_in_with_one(client: Client, alice: User) -> None:
    client.post("/sign-in/", {"login": alice.email, "password": ""})
    assert not signed_in(client)


def test_looking_at_a_link_signs_nobody_in_and_pressing_its_button_does_once(client: Client, link: str) -> None:
    for _ in range(2):
        assert b'data-action="sign-in"' in client.get(link).content
        client.head(link)
    assert not signed_in(client)

    assert client.post(link).status_code == 302
    assert signed_in(client)

    other = Client()
    assert other.post(link).status_code == 410
    assert not signed_in(other)


@pytest.mark.parametrize("reason", ["too old", "person inactive", "unknown"])
def test_a_link_that_is_good_no_more_says_so_and_lets_nobody_in(
    client: Client, alice: User, link: str, reason: str
) -> None:
    match reason:
        case "too old":
            SignInLink.objects.update(expires_at=timezone.now())
        case "person inactive":
            User.objects.update(is_active=False)
        case "unknown":
            link = "/sign-in/nonsense/"

    assert client.get(link).status_code == 410
    assert client.post(link).status_code == 410
    assert not signed_in(client)


def test_signing_in_leads_back_to_where_one_wanted_to_go_and_never_elsewhere(client: Client, alice: User) -> None:
    alice.set_password(PASSWORD)
    alice.save()
    who = {"login": alice.email, "password": PASSWORD}

    assert client.post("/sign-in/?next=/mailboxes/", who)["Location"] == "/mailboxes/"
    assert Client().post("/sign-in/?next=https://evil.example/", who)["Location"] == "/"
