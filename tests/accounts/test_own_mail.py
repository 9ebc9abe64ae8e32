"""Mail that mailhub itself sends, over the wire: invitations, sign-in codes, new passwords."""

import re
from collections.abc import Iterator
from datetime import timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from accounts.models import Mailbox, Membership, SignInLink, User
from mailhub.environment import mail_settings
from tests.support.people.browser import browser
from tests.support.servers.smtp import FaultySmtp

pytestmark = pytest.mark.django_db(transaction=True)
INVITED = {"email": "new@lovelace.example", "role": "approver"}


@pytest.fixture
def smtp(settings: Any) -> Iterator[FaultySmtp]:
    with FaultySmtp() as server:
        for name, value in mail_settings(f"smtp://mailhub:p%40ss@127.0.0.1:{server.port}").items():
            setattr(settings, name, value)
        settings.SENDS_MAIL = True
        settings.MAILHUB_PUBLIC_URL = "https://mailhub.example"
        yield server


def the_mail(smtp: FaultySmtp, to: str) -> EmailMessage:
    (accepted,) = smtp.ledger
    assert accepted.recipients == (to,)
    message = message_from_bytes(accepted.content, policy=policy.default)
    assert isinstance(message, EmailMessage)
    return message


def link_in(message: EmailMessage) -> str:
    (link,) = re.findall(r"https://mailhub\.example(/\S+)", message.get_content())
    return str(link)


def test_invitation_link_is_shown_only_to_the_invited(
    smtp: FaultySmtp, alice: User, mailbox: Mailbox
) -> None:
    page = browser(alice).post(f"/mailboxes/{mailbox.pk}/invite/", INVITED)

    message = the_mail(smtp, "new@lovelace.example")
    assert message["Subject"] == f"Alice ({alice.email}) invites you to {mailbox} in mailhub"
    link = link_in(message)
    assert page.status_code == 200
    assert link not in page.content.decode()
    assert "AUTH PLAIN AG1haWxodWIAcEBzcw==" in smtp.commands  # mailhub, p@ss
    assert Client().post(link).status_code == 302
    assert (
        Membership.objects.get(mailbox=mailbox, user__email="new@lovelace.example").role
        == "approver"
    )


@pytest.mark.parametrize("trouble", ["no server set", "refused", "dropped after the text"])
def test_inviter_never_sees_the_link_of_an_invitation(
    smtp: FaultySmtp, alice: User, mailbox: Mailbox, settings: Any, trouble: str
) -> None:
    """Hide the link also if the mail failed: an operator prints it, with a new secret."""
    if trouble == "no server set":
        settings.SENDS_MAIL = False
    elif trouble == "refused":
        smtp.reply("550 5.1.1 nobody here", at="rcpt")
    else:
        smtp.drop(at="dot")

    page = browser(alice).post(f"/mailboxes/{mailbox.pk}/invite/", INVITED).content.decode()

    assert "/invitations/" not in page
    assert ("did not accept the e-mail" in page) is (trouble != "no server set")
    command = re.findall(r"manage\.py (invitation_link.*?)</pre>", page, re.DOTALL)[0]
    printed = StringIO()
    call_command(*command.replace("\\", " ").split(), stdout=printed)
    (link,) = re.findall(r"https://mailhub\.example(/invitations/\S+)", printed.getvalue())
    assert Client().get(link).status_code == 200
    assert smtp.ledger == []
    assert smtp.connections == (trouble != "no server set")


def test_mailed_code_signs_in_once(smtp: FaultySmtp, alice: User) -> None:
    window = Client()
    assert b'href="/sign-in/code/"' in window.get("/sign-in/").content

    asked = window.post("/sign-in/code/", {"email": "alice@lovelace.example"}, follow=True)
    assert "If mailhub knows <b>alice@lovelace.example</b>" in asked.content.decode()
    (code,) = re.findall(r"\r\n([A-Z]{4}-[A-Z]{4})\r\n", the_mail(smtp, alice.email).get_content())
    assert "_auth_user_id" not in window.session
    assert Client().post("/sign-in/code/confirm/", {"code": code}).status_code == 302, (
        "it is for one browser"
    )

    assert window.post("/sign-in/code/confirm/", {"code": code}).status_code == 302
    assert window.session["_auth_user_id"] == str(alice.pk)


@pytest.mark.parametrize("path", ["/sign-in/code/", "/account/password/reset/"])
def test_asking_does_not_reveal_known_people(smtp: FaultySmtp, alice: User, path: str) -> None:
    """Give the same answer also while the mail server refuses."""
    smtp.reply("451 4.3.0 later", at="mail", times=None)
    pages = [
        Client().post(path, {"email": email}, follow=True).content.decode().replace(email, "X")
        for email in ("alice@lovelace.example", "nobody@lovelace.example")
    ]
    known, unknown = (re.sub(r'csrf\w+" value="\w+"|X-CSRFToken[^}]+', "", page) for page in pages)
    assert known == unknown
    assert "If mailhub knows" in known
    assert smtp.connections == 1


def test_forgotten_password_is_reset_on_the_public_host(smtp: FaultySmtp, alice: User) -> None:
    window = Client()
    window.post("/account/password/reset/", {"email": alice.email}, headers={"host": "localhost"})
    link = link_in(the_mail(smtp, alice.email))

    form = window.get(link, follow=True)
    new = {"password1": "a long and quiet word", "password2": "a long and quiet word"}
    window.post(form.request["PATH_INFO"], new)

    alice.refresh_from_db()
    assert alice.check_password("a long and quiet word")
    assert "/account/password/reset/" in link


@pytest.mark.parametrize(
    "path", ["/sign-in/code/", "/sign-in/code/confirm/", "/account/password/reset/"]
)
def test_no_sign_in_by_mail_without_a_mail_server(client: Client, db: None, path: str) -> None:
    assert client.get(path).status_code == 404
    assert b"/sign-in/code/" not in client.get("/sign-in/").content


@pytest.mark.parametrize("door", ["/sign-in/code/", "/account/password/reset/"])
def test_stranger_cannot_keep_the_mailed_way_in_from_its_person(
    smtp: FaultySmtp, alice: User, door: str
) -> None:
    known = Client()
    known.post(f"/sign-in/{SignInLink.issue(user=alice, lifetime=timedelta(hours=1))}/")
    known.post("/sign-out/")
    before = len(smtp.ledger)
    for number in range(30):
        stranger = Client(REMOTE_ADDR=f"192.0.2.{number}")
        assert stranger.post(door, {"email": alice.email}).status_code == 302
    assert len(smtp.ledger) == before + 10
    assert known.post(door, {"email": alice.email}).status_code == 302
    assert len(smtp.ledger) == before + 11
