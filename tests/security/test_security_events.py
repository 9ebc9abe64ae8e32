"""Changes and uses of sign-in methods are in the audit: actor, person, method and network."""

from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.core import mail
from django.core.management import call_command
from django.test import Client

from accounts.infra.networks import network_of_address
from accounts.models import Mailbox, SignInLink, User
from approvals.audit import proof
from approvals.models import AuditEvent
from approvals.models.audit import PEOPLE
from tests.approvals.audit_pages import own_heads
from tests.support.people.authenticator import code_of
from tests.support.people.browser import browser

__all__ = ["own_heads"]
pytestmark = pytest.mark.django_db(transaction=True)
PASSWORD, NEW = "a long and quiet word", "another long and quiet word"


def recorded(*, after: int = 0) -> list[tuple[str, str, str]]:
    """Return event, actor and method of each event in the chain of people."""
    events = AuditEvent.objects.filter(chain=PEOPLE, sequence__gt=after).order_by("sequence")
    return [(each.event, each.actor, each.data.get("method", "")) for each in events]


def test_each_change_of_a_sign_in_method_is_one_event(alice: User) -> None:
    me = f"user:{alice.pk}"
    alice.set_password(PASSWORD)
    alice.save()
    window = Client()
    window.post("/sign-in/", {"login": alice.email, "password": "wrong"})
    window.post("/sign-in/", {"login": alice.email, "password": PASSWORD})
    window.post("/account/password/", {"oldpassword": PASSWORD, "password1": NEW, "password2": NEW})
    key = window.get("/account/factors/totp/activate/").context["form"].secret
    window.post("/account/factors/totp/activate/", {"code": code_of(key)})
    window.post("/account/factors/totp/deactivate/")
    window.post("/account/sessions/end-others/")
    window.post("/sign-out/")

    assert recorded() == [
        ("sign_in_failed", "stranger", "password"),
        ("signed_in", me, "password"),
        ("password_changed", me, ""),
        ("factor_added", me, "totp"),
        ("factor_added", me, "recovery_codes"),
        ("factor_removed", me, "totp"),
        ("factor_removed", me, "recovery_codes"),
        ("session_ended", me, ""),
        ("signed_out", me, ""),
    ]
    failed = AuditEvent.objects.get(event="sign_in_failed")
    assert failed.data == {
        "subject": str(alice.pk),
        "method": "password",
        "network": "127.0.0.0/24",
        "count": 1,
    }
    assert proof.verify() == []


def test_second_step_and_link_are_named_as_methods(alice: User) -> None:
    Client().post(f"/sign-in/{SignInLink.issue(user=alice, lifetime=timedelta(hours=1))}/")
    window = browser(alice)
    key = window.get("/account/factors/totp/activate/").context["form"].secret
    window.post("/account/factors/totp/activate/", {"code": code_of(key)})
    code = Authenticator.objects.get(user=alice, type="recovery_codes").wrap().get_unused_codes()[0]
    length = len(recorded())

    link, again = SignInLink.issue(user=alice, lifetime=timedelta(hours=1)), Client()
    again.post(f"/sign-in/{link}/")
    again.post("/account/factors/authenticate/", {"code": "000000"})
    again.post("/account/factors/authenticate/", {"code": code})

    assert recorded()[0] == ("signed_in", f"user:{alice.pk}", "link")
    events = [(event, method) for event, _, method in recorded(after=length)]
    assert events[-1] == ("signed_in", "recovery_codes")
    assert events[0][0] == "sign_in_failed"


def test_commands_that_give_access_are_events(alice: User, mailbox: Mailbox) -> None:
    call_command("sign_in_link", user=alice.email, stdout=StringIO())
    call_command(
        "create_token",
        user=alice.email,
        name="x",
        scopes="mail:read",
        mailboxes=mailbox.address,
        stdout=StringIO(),
    )
    made, token = AuditEvent.objects.filter(chain=PEOPLE).order_by("sequence")
    assert (made.event, made.actor, made.data["subject"]) == (
        "sign_in_link_made",
        "command",
        str(alice.pk),
    )
    assert (token.event, token.data["mailboxes"]) == ("token_created", [str(mailbox.pk)])


def test_only_the_network_of_an_address_is_stored(alice: User, settings: Any) -> None:
    alice.set_password(PASSWORD)
    alice.save()
    for address in ("198.51.100.77", "2001:db8:1:2:3:4:5:6", "::ffff:198.51.100.77"):
        Client().post(
            "/sign-in/", {"login": alice.email, "password": PASSWORD}, REMOTE_ADDR=address
        )
    data = [
        each.data["network"]
        for each in AuditEvent.objects.filter(event="signed_in").order_by("sequence")
    ]
    assert data == ["198.51.100.0/24", "2001:db8:1::/48", "198.51.100.0/24"]
    assert network_of_address("no address") == ""


def test_new_browser_and_factor_are_mailed_to_the_person(alice: User, settings: Any) -> None:
    settings.SENDS_MAIL = True
    alice.set_password(PASSWORD)
    alice.save()
    known = Client()
    # The first sign-in of all teaches mailhub this browser; at the second one it is known.
    for window in (known, known, Client()):
        window.post("/sign-in/", {"login": alice.email, "password": PASSWORD})
        if window is known:
            window.post("/sign-out/")
    assert [(each.subject, each.to) for each in mail.outbox] == [
        ("You signed in to mailhub with a new browser", [alice.email])
    ]
    window = browser(alice)
    key = window.get("/account/factors/totp/activate/").context["form"].secret
    window.post("/account/factors/totp/activate/", {"code": code_of(key)})
    texts = [str(each.body) for each in mail.outbox[1:]]
    assert len(texts) >= 1
    assert all("If this was you, you do not need to do anything." in text for text in texts)


@pytest.mark.parametrize(
    "password",
    [
        "short but odd",
        "Password1234!",
        "qwertyuiop1234",
        "alice@lovelace.example",
        "111111111111111",
    ],
)
def test_short_leaked_or_invented_password_is_refused(alice: User, password: str) -> None:
    if password == "short but odd":
        password = "xK9#vq2Lw!a"  # eleven characters
    window = browser(alice)
    window.post("/account/password/set/", {"password1": password, "password2": password})
    alice.refresh_from_db()
    assert not alice.has_usable_password()
    window.post("/account/password/set/", {"password1": NEW, "password2": NEW})
    alice.refresh_from_db()
    assert alice.check_password(NEW)
