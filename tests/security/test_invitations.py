"""An invitation gives no access to an existing account, and its link reaches the invited only."""

import re
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from accounts.models import Invitation, Mailbox, Membership, QuotaUse, Role, User
from approvals.models import AuditEvent
from approvals.pages.mailboxes import members
from tests.accounts.test_own_mail import link_in, the_mail
from tests.accounts.test_own_mail import smtp as own_mail
from tests.accounts.test_sign_in import PASSWORD, signed_in
from tests.conftest import make_mailbox
from tests.support.people.browser import browser
from tests.support.servers.memory import MemoryServer
from tests.support.servers.smtp import FaultySmtp

pytestmark = pytest.mark.django_db(transaction=True)
smtp = own_mail


@pytest.fixture
def mallory(server: MemoryServer, db: None) -> User:
    """Return Mallory, who manages only her own mailbox, as anybody can."""
    person = User.objects.create_user("mallory@stranger.example", first_name="Mallory")
    make_mailbox(person.email, server, person)
    return person


def invite(by: User, email: str, **more: Any) -> Any:
    mailbox = Mailbox.objects.get(address=by.email)
    return browser(by).post(
        f"/mailboxes/{mailbox.pk}/invite/", {"email": email, "role": "approver", **more}
    )


def test_invitation_signs_in_no_existing_person(
    smtp: FaultySmtp, alice: User, mallory: User
) -> None:
    invite(mallory, alice.email)
    link = link_in(the_mail(smtp, alice.email))
    window = Client()

    page = window.get(link)
    assert b'data-action="join"' not in page.content
    assert page.context["to_sign_in"] == f"/sign-in/?next={link}".replace("/", "%2F").replace(
        "%2Fsign-in%2F", "/sign-in/"
    )
    assert window.post(link).status_code == 401
    assert not signed_in(window)
    assert not Membership.objects.filter(user=alice, mailbox__address=mallory.email).exists()

    alice.set_password(PASSWORD)
    alice.save()
    back = window.post(page.context["to_sign_in"], {"login": alice.email, "password": PASSWORD})
    assert back["Location"] == link
    assert window.post(link).status_code == 302
    assert Membership.objects.filter(user=alice, mailbox__address=mallory.email).exists()


@pytest.mark.parametrize("how", ["removed", "changed"])
def test_later_word_of_a_manager_ends_an_invitation(
    alice: User, bob: User, mailbox: Mailbox, how: str
) -> None:
    page = f"/mailboxes/{mailbox.pk}/members/{bob.pk}"
    later = {"role": "viewer", "first_day": "2099-01-01", "last_day": ""}
    assert browser(alice).post(f"{page}/role/", later).status_code == 302
    secret = members.invite(mailbox=mailbox, person=alice, email=bob.email, role=Role.MANAGER)

    form = {"role": "viewer", "first_day": "2098-01-01", "last_day": ""}
    path = f"{page}/remove/" if how == "removed" else f"{page}/role/"
    assert browser(alice).post(path, form).status_code == 302

    assert browser(bob).post(f"/invitations/{secret}/").status_code == 409
    assert not Membership.objects.filter(user=bob, mailbox=mailbox).exists()


@pytest.mark.parametrize("how", ["removed", "changed", "closed", "given new days", "joined again"])
def test_invitations_of_a_former_manager_stay_ended(
    alice: User, bob: User, mailbox: Mailbox, how: str
) -> None:
    Membership.objects.filter(user=bob, mailbox=mailbox).update(role=Role.MANAGER)
    secret = members.invite(
        mailbox=mailbox, person=bob, email="mallory@stranger.example", role=Role.MANAGER
    )
    if how == "removed":
        members.remove_member(mailbox=mailbox, person=alice, user_id=bob.pk)
        Membership.objects.create(user=bob, mailbox=mailbox, role=Role.MANAGER)
    elif how == "closed":
        User.objects.filter(pk=bob.pk).update(is_active=False)
    elif how == "given new days":
        Membership.objects.filter(user=bob).update(ends_at=timezone.now())
        members.change_role(mailbox=mailbox, person=alice, user_id=bob.pk, role=Role.MANAGER)
    elif how == "joined again":
        Membership.objects.filter(user=bob).update(ends_at=timezone.now())
        own = members.invite(mailbox=mailbox, person=alice, email=bob.email, role=Role.MANAGER)
        members.accept_invitation(secret=own, person=bob)
    else:
        for role in (Role.VIEWER, Role.MANAGER):
            members.change_role(mailbox=mailbox, person=alice, user_id=bob.pk, role=role)

    assert Client().post(f"/invitations/{secret}/", {"name": "Mallory"}).status_code == 409


@pytest.mark.parametrize("mail", ["none", "refused", "works"])
def test_inviter_cannot_make_an_account_of_an_address(
    smtp: FaultySmtp, mallory: User, settings: Any, mail: str
) -> None:
    """Check that neither the page nor any other answer to the inviter opens the invitation."""
    settings.SENDS_MAIL = mail != "none"
    if mail == "refused":
        smtp.reply("451 4.3.0 later", at="mail")

    page = invite(mallory, "victim@bank.example").content.decode()

    assert "/invitations/" not in page
    stored = Invitation.objects.get()
    for guess in (str(stored.pk), stored.digest):
        assert Client().post(f"/invitations/{guess}/").status_code == 409
    assert not User.objects.filter(email="victim@bank.example").exists()


def test_new_person_has_no_password_and_a_proven_address(smtp: FaultySmtp, mallory: User) -> None:
    invite(mallory, "new@bank.example")
    window = Client()
    window.post(link_in(the_mail(smtp, "new@bank.example")))
    person = User.objects.get(email="new@bank.example")
    assert signed_in(window)
    assert person.address_proven_at is not None
    assert not person.has_usable_password()


def test_closed_account_is_not_opened_by_an_invitation(
    smtp: FaultySmtp, alice: User, mallory: User
) -> None:
    User.objects.filter(pk=alice.pk).update(is_active=False)
    invite(mallory, alice.email)
    assert Client().post(link_in(the_mail(smtp, alice.email))).status_code == 401


def test_known_and_unknown_addresses_cost_the_same_work(
    smtp: FaultySmtp, alice: User, mallory: User
) -> None:
    pages = [
        invite(mallory, email).content.decode().replace(email, "X")
        for email in (alice.email, "nobody@lovelace.example")
    ]
    known, unknown = (re.sub(r'csrf\w+" value="\w+"|X-CSRFToken[^}]+', "", page) for page in pages)
    assert known == unknown
    assert [accepted.recipients for accepted in smtp.ledger] == [
        (alice.email,),
        ("nobody@lovelace.example",),
    ]


@pytest.mark.parametrize(
    ("setting", "emails"),
    [
        ("MAILHUB_INVITATIONS_PER_HOUR", [f"{n}@bank.example" for n in range(4)]),
        ("MAILHUB_MAILBOX_INVITATIONS_PER_HOUR", [f"{n}@bank.example" for n in range(4)]),
        ("MAILHUB_ADDRESS_MAILS_PER_HOUR", ["one@bank.example"] * 4),
    ],
)
def test_invitations_per_hour_are_limited(
    mallory: User, settings: Any, setting: str, emails: list[str]
) -> None:
    setattr(settings, setting, 3)
    statuses = [invite(mallory, email).status_code for email in emails]
    assert statuses == [200, 200, 200, 429]
    assert Invitation.objects.count() == 3
    assert (
        AuditEvent.objects.filter(
            event="invitation_limited", mailbox__address=mallory.email
        ).count()
        == 1
    )
    assert not QuotaUse.objects.filter(key__contains="@").exists(), "counts hold no address"


def test_limit_of_a_person_spans_their_mailboxes(
    mallory: User, server: MemoryServer, settings: Any
) -> None:
    settings.MAILHUB_INVITATIONS_PER_HOUR = 1
    other = make_mailbox("second@stranger.example", server, mallory)
    assert invite(mallory, "one@bank.example").status_code == 200
    answer = browser(mallory).post(
        f"/mailboxes/{other.pk}/invite/", {"email": "two@bank.example", "role": "viewer"}
    )
    assert answer.status_code == 429
    assert "Too many invitations" in answer.content.decode()


def test_operator_prints_a_link_and_the_mailed_one_ends(smtp: FaultySmtp, mallory: User) -> None:
    invite(mallory, "new@bank.example")
    mailed = link_in(the_mail(smtp, "new@bank.example"))
    out = StringIO()
    call_command(
        "invitation_link", "--mailbox", mallory.email, "--email", "NEW@bank.example", stdout=out
    )
    printed = out.getvalue().strip().removeprefix("https://mailhub.example")
    assert Client().get(mailed).status_code == 410
    assert Client().post(printed).status_code == 302
    assert AuditEvent.objects.filter(event="invitation_link_made", actor="command").exists()
    with pytest.raises(CommandError, match="No open invitation"):
        call_command("invitation_link", "--mailbox", mallory.email, "--email", "new@bank.example")


def test_invitation_of_another_person_is_in_the_audit(
    alice: User, bob: User, mallory: User
) -> None:
    mailbox = Mailbox.objects.get(address=mallory.email)
    secret = members.invite(mailbox=mailbox, person=mallory, email=alice.email, role=Role.VIEWER)
    assert browser(bob).post(f"/invitations/{secret}/").status_code == 403
    refused = AuditEvent.objects.get(event="invitation_refused", mailbox=mailbox)
    assert refused.actor == f"user:{bob.pk}"


def test_refused_inviter_uses_up_no_quota(
    alice: User, bob: User, mailbox: Mailbox, settings: Any
) -> None:
    settings.MAILHUB_MAILBOX_INVITATIONS_PER_HOUR = 1
    form = {"email": "new@bank.example", "role": "manager"}
    for _ in range(3):
        assert browser(bob).post(f"/mailboxes/{mailbox.pk}/invite/", form).status_code == 403
    assert browser(alice).post(f"/mailboxes/{mailbox.pk}/invite/", form).status_code == 200
