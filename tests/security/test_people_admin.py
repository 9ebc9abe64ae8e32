"""The admin site lets nobody become another person: sign-in methods are read-only there, and every
change leaves a trace.
"""

from collections.abc import Callable
from datetime import timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from io import StringIO
from typing import Any

import pytest
from allauth.account.forms import default_token_generator
from allauth.account.models import EmailAddress
from allauth.account.utils import user_pk_to_url_str
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from allauth.usersessions.models import UserSession
from django.contrib import admin
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import Permission
from django.core.management import call_command
from django.db import connection
from django.http import HttpRequest
from django.test import Client

from accounts.models import ApiToken, Invitation, Mailbox, Membership, Role, SignInLink, User
from accounts.people import recovery
from approvals.models import AuditEvent, NotificationChannel
from approvals.pages.mailboxes import members
from tests.accounts.test_own_mail import smtp as own_mail
from tests.accounts.test_sign_in import PASSWORD, signed_in
from tests.conftest import Api
from tests.support.people.authenticator import code_of
from tests.support.people.browser import browser
from tests.support.people.passkey import Passkey
from tests.support.servers.smtp import FaultySmtp

pytestmark = pytest.mark.django_db(transaction=True)
smtp = own_mail
OTHER = "another long and quiet word"


@pytest.fixture
def operator(alice: User) -> Client:
    User.objects.filter(pk=alice.pk).update(is_staff=True, is_superuser=True)
    return browser(alice)


@pytest.fixture
def carol(db: None) -> User:
    """Return Carol, who has every sign-in method."""
    person = User.objects.create_user("carol@lovelace.example", PASSWORD, first_name="Carol")
    window = browser(person)
    key = window.get("/account/factors/totp/activate/").context["form"].secret
    window.post("/account/factors/totp/activate/", {"code": code_of(key)})
    UserSession.objects.create(
        user=person, session_key="canary-of-a-session", ip="192.0.2.7", user_agent="Browser/1"
    )
    SocialAccount.objects.create(user=person, provider="sso", uid="7")
    EmailAddress.objects.create(user=person, email=person.email, verified=True)
    return person


def rights_form(person: User, **changes: str) -> dict[str, str]:
    return {
        "first_name": person.first_name,
        "last_name": "",
        "is_active": "on",
        "_save": "Save",
        **changes,
    }


def events(name: str) -> list[dict[str, Any]]:
    return [{"actor": each.actor, **each.data} for each in AuditEvent.objects.filter(event=name)]


def mailed(smtp: FaultySmtp, to: str, subject: str) -> str:
    """Return the text of the one mail with this subject to this person."""
    messages = [
        message_from_bytes(each.content, policy=policy.default)
        for each in smtp.ledger
        if each.recipients == (to,)
    ]
    (message,) = (each for each in messages if each["Subject"] == subject)
    assert isinstance(message, EmailMessage)
    return str(message.get_content())


def test_only_a_superuser_changes_rights(alice: User, bob: User) -> None:
    alice.is_staff = True
    alice.save()
    alice.user_permissions.set(Permission.objects.filter(content_type__model="user"))
    clerk = browser(alice)
    given = {"is_staff": "on", "is_superuser": "on"}

    clerk.post(f"/admin/accounts/user/{alice.pk}/change/", rights_form(alice, **given))
    clerk.post(f"/admin/accounts/user/{bob.pk}/change/", {"first_name": "Rob", "_save": "Save"})
    added = {**rights_form(bob, **given), "email": "dora@lovelace.example"}
    clerk.post("/admin/accounts/user/add/", added)

    bob.refresh_from_db()
    assert (bob.first_name, bob.is_active) == ("Rob", True)
    assert User.objects.get(email="dora@lovelace.example").is_active
    assert not User.objects.filter(is_superuser=True).exists()
    assert User.objects.get(is_staff=True) == alice


def test_admin_changes_nothing_but_people() -> None:
    admin.autodiscover()  # in Django's order: ours replaces what the libraries register
    from accounts.admin import ReadOnlyAdmin

    writable = {
        model.__name__
        for model, each in admin.site._registry.items()
        if not isinstance(each, ReadOnlyAdmin)
    }
    assert writable == {"User"}


def test_admin_filters_only_by_listed_fields(operator: Client, carol: User) -> None:
    admin.autodiscover()
    for model, each in admin.site._registry.items():
        listed = {"pk", model._meta.pk.name, *each.list_filter, *each.search_fields}
        names = {field.name for field in model._meta.get_fields()} | {"pk"}
        for name in names | {f"{name}__pk" for name in names}:
            assert each.lookup_allowed(name, "a", HttpRequest()) is (name in listed), (model, name)
            assert not each.lookup_allowed(f"{name}__startswith", "a", HttpRequest()), (model, name)
    people = "/admin/accounts/user/"
    shown = operator.get(people, {"email": carol.email}).content.decode()
    assert shown.count("/change/?") == 1
    assert f">{carol.email}</a>" in shown
    for lookup in ("password__startswith", "api_tokens__digest", "email__startswith"):
        assert operator.get(people, {lookup: "a"}).status_code == 400, lookup


@pytest.mark.parametrize("model", [Authenticator, SocialAccount, EmailAddress, UserSession])
def test_sign_in_methods_can_be_viewed_and_not_changed(
    operator: Client, carol: User, model: Any
) -> None:
    row = model.objects.filter(user=carol).first()
    where = f"/admin/{model._meta.app_label}/{model._meta.model_name}/"
    before = list(model.objects.values())

    page = operator.get(f"{where}{row.pk}/change/")
    assert page.status_code == 200
    for secret in (getattr(row, "session_key", ""), getattr(row, "data", {}).get("secret", "")):
        assert not secret or secret not in page.content.decode()
    assert operator.get(f"{where}add/").status_code == 403
    for action in ("change", "delete"):
        assert (
            operator.post(f"{where}{row.pk}/{action}/", {"post": "yes", "user": "1"}).status_code
            == 403
        )
    operator.post(where, {"action": "delete_selected", "_selected_action": row.pk, "post": "yes"})
    assert [each for each in model.objects.values() if each in before] == before


def test_superuser_cannot_set_a_password_or_an_address(operator: Client, carol: User) -> None:
    before = carol.password
    assert operator.post(
        f"/admin/accounts/user/{carol.pk}/password/", {"password1": "n" * 20, "password2": "n" * 20}
    ).status_code in (302, 404)
    form = rights_form(carol, password="n" * 20, email="mallory@stranger.example")
    assert operator.post(f"/admin/accounts/user/{carol.pk}/change/", form).status_code == 302
    carol.refresh_from_db()
    assert (carol.password, carol.email) == (before, "carol@lovelace.example")
    assert (
        operator.post(f"/admin/accounts/user/{carol.pk}/delete/", {"post": "yes"}).status_code
        == 403
    )


def test_changed_rights_leave_a_trace_and_send_a_mail(
    smtp: FaultySmtp, operator: Client, alice: User, carol: User
) -> None:
    form = rights_form(carol, is_staff="on", is_superuser="on")
    operator.post(f"/admin/accounts/user/{carol.pk}/change/", form)
    carol.refresh_from_db()
    assert carol.is_superuser
    (event,) = events("person_changed")
    assert (event["actor"], event["subject"]) == (f"user:{alice.pk}", str(carol.pk))
    assert (event["is_staff"], event["is_superuser"]) == (True, True)
    assert "You have all rights in the administration." in mailed(
        smtp, carol.email, "Your rights in mailhub were changed"
    )


def test_superuser_with_an_old_sign_in_grants_nothing(alice: User, carol: User) -> None:
    User.objects.filter(pk=alice.pk).update(is_staff=True, is_superuser=True)
    stale = browser(alice, fresh=False)
    for address in (f"/admin/accounts/user/{carol.pk}/change/", "/admin/accounts/user/add/"):
        assert stale.get(address)["Location"].startswith("/sign-in/again/")
        assert stale.post(address, rights_form(carol, is_superuser="on"))["Location"].startswith(
            "/sign-in/again/"
        )
    carol.refresh_from_db()
    assert not carol.is_superuser


def test_form_of_the_admin_signs_nobody_in(operator: Client, carol: User) -> None:
    """It asks for no second factor, counts no wrong passwords, and leaves no event."""
    User.objects.filter(pk=carol.pk).update(is_staff=True, is_superuser=True)
    form = {"username": carol.email, "password": PASSWORD}
    assert operator.post("/admin/login/?next=/admin/", form).status_code == 405
    assert operator.session[SESSION_KEY] != str(carol.pk)
    assert operator.get("/admin/login/").status_code == 302


def close(person: User) -> None:
    person.is_active = person.is_staff = False
    person.save()


@pytest.mark.parametrize("end", [close, recovery.recover])
def test_new_password_opens_no_account_that_ended_meanwhile(
    carol: User, end: Callable[[User], object]
) -> None:
    window, ends = browser(carol), [end]

    def meanwhile(execute: Any, sql: str, *rest: Any) -> Any:
        if "password" in sql and sql.startswith("UPDATE") and ends:
            ends.pop()(User.objects.get(pk=carol.pk))
        return execute(sql, *rest)

    new = {"oldpassword": PASSWORD, "password1": OTHER, "password2": OTHER}
    with connection.execute_wrapper(meanwhile):
        window.post("/account/password/", new)

    now = User.objects.get(pk=carol.pk)
    assert now.is_active is (end is not close)
    assert not now.check_password(OTHER)
    assert window.get("/").status_code == 302


def test_tokens_of_a_closed_account_stay_revoked(operator: Client, carol: User) -> None:
    token, _ = ApiToken.issue(user=carol, name="desk", scopes=["mail:read"], mailboxes=[])
    address = f"/admin/accounts/user/{carol.pk}/change/"
    closed = {name: each for name, each in rights_form(carol).items() if name != "is_active"}
    for form in (closed, rights_form(carol)):
        assert operator.post(address, form).status_code == 302
    token.refresh_from_db()
    carol.refresh_from_db()
    assert carol.is_active
    assert token.revoked_at is not None
    assert [each["token"] for each in events("token_revoked")] == [str(token.pk)]


def test_older_page_opens_no_account_that_was_closed_since(operator: Client, carol: User) -> None:
    address = f"/admin/accounts/user/{carol.pk}/change/"
    shown = operator.get(address).context["adminform"].form
    older = {
        each.html_initial_name: each.value() or ""
        for each in shown
        if each.field.show_hidden_initial
    }
    assert older["initial-is_active"] is True
    close(User.objects.get(pk=carol.pk))
    form = older | rights_form(carol, first_name="Caroline")
    assert operator.post(address, form).status_code == 302
    now = User.objects.get(pk=carol.pk)
    assert (now.first_name, now.is_active) == ("Caroline", False)
    assert not events("person_changed")[0].keys() & {"is_active", "is_staff", "is_superuser"}


def test_token_made_while_the_account_closed_never_wakes(operator: Client, carol: User) -> None:
    close(User.objects.get(pk=carol.pk))
    token, _ = ApiToken.issue(user=carol, name="desk", scopes=["mail:read"], mailboxes=[])
    operator.post(f"/admin/accounts/user/{carol.pk}/change/", rights_form(carol))
    token.refresh_from_db()
    assert User.objects.get(pk=carol.pk).is_active
    assert token.revoked_at is not None


@pytest.mark.parametrize("left_long_ago", [False, True])
def test_scopes_of_former_staff_stay_taken(
    operator: Client, carol: User, left_long_ago: bool
) -> None:
    User.objects.filter(pk=carol.pk).update(is_staff=not left_long_ago)
    scopes = ["m365:run", "mail:read"]
    token, _ = ApiToken.issue(user=carol, name="desk", scopes=scopes, mailboxes=[])
    for form in (rights_form(carol), rights_form(carol, is_staff="on")):
        address = f"/admin/accounts/user/{carol.pk}/change/"
        assert operator.post(address, form).status_code == 302
    token.refresh_from_db()
    carol.refresh_from_db()
    assert carol.is_staff
    assert token.scopes == ["mail:read"]
    assert [each["token"] for each in events("token_narrowed")] == [str(token.pk)]


@pytest.mark.parametrize("opened", [False, True])
def test_links_and_invitations_end_with_the_account(
    operator: Client, mailbox: Mailbox, carol: User, opened: bool
) -> None:
    Membership.objects.create(user=carol, mailbox=mailbox, role=Role.MANAGER)
    link = SignInLink.issue(user=carol, lifetime=timedelta(hours=1))
    secret = members.invite(
        mailbox=mailbox, person=carol, email="mallory@stranger.example", role=Role.MANAGER
    )
    closed = {name: each for name, each in rights_form(carol).items() if name != "is_active"}
    for form in (closed, rights_form(carol))[: 1 + opened]:
        assert operator.post(f"/admin/accounts/user/{carol.pk}/change/", form).status_code == 302

    assert Client().post(f"/invitations/{secret}/", {"name": "Mallory"}).status_code == 409
    assert not User.objects.filter(email="mallory@stranger.example").exists()
    assert Client().post(f"/sign-in/{link}/").status_code == 410


def test_mailed_links_to_a_new_password_end_with_the_account(
    smtp: FaultySmtp, operator: Client, carol: User
) -> None:
    key = default_token_generator.make_token(carol)
    link = f"/account/password/reset/{user_pk_to_url_str(carol)}-{key}/"
    assert b'name="password1"' in Client().get(link, follow=True).content
    closed = {name: each for name, each in rights_form(carol).items() if name != "is_active"}
    for form in (closed, rights_form(carol)):
        assert operator.post(f"/admin/accounts/user/{carol.pk}/change/", form).status_code == 302
    assert b'name="password1"' not in Client().get(link, follow=True).content


@pytest.mark.parametrize("minutes", [14, 16])
def test_mailed_links_to_a_new_password_end_soon(
    smtp: FaultySmtp, carol: User, minutes: int
) -> None:
    made = default_token_generator._num_seconds(default_token_generator._now()) - 60 * minutes
    secret = default_token_generator.secret
    key = default_token_generator._make_token_with_timestamp(carol, made, secret)
    link = f"/account/password/reset/{user_pk_to_url_str(carol)}-{key}/"
    page = Client().get(link, follow=True)
    assert (b'name="password1"' in page.content) == (minutes < 15)


def test_added_person_has_no_sign_in_method(operator: Client) -> None:
    form = {
        "email": "New@lovelace.example",
        "is_active": "on",
        "password": "n" * 20,
        "password1": "n" * 20,
    }
    assert operator.post("/admin/accounts/user/add/", form).status_code == 302
    person = User.objects.get(email="new@lovelace.example")
    assert not person.has_usable_password()
    assert person.address_proven_at is None
    assert [event["subject"] for event in events("person_added")] == [str(person.pk)]


@pytest.mark.parametrize("tokens", [False, True])
def test_recovery_replaces_every_sign_in_method(
    smtp: FaultySmtp, carol: User, api: Api, tokens: bool
) -> None:
    window = browser(carol)
    link = f"/sign-in/{SignInLink.issue(user=carol, lifetime=timedelta(hours=1))}/"
    ApiToken.issue(user=carol, name="desk", scopes=["mail:read"], mailboxes=[])
    out, err = StringIO(), StringIO()

    call_command(
        "recover_person",
        "--user",
        carol.email,
        *(["--revoke-tokens"] if tokens else []),
        stdout=out,
        stderr=err,
    )

    assert window.get("/").status_code == 302
    assert not Authenticator.objects.filter(user=carol).exists()
    assert not SocialAccount.objects.filter(user=carol).exists()
    assert not User.objects.get(pk=carol.pk).has_usable_password()
    assert Client().get(link).status_code == 410
    assert ApiToken.objects.filter(user=carol, revoked_at=None).exists() is not tokens
    (event,) = events("person_recovered")
    assert (event["actor"], event["subject"], event["password"]) == ("command", str(carol.pk), 1)
    assert "with a command on the server" in mailed(
        smtp, carol.email, "Your access to mailhub was reset"
    )
    new, printed = Client(), out.getvalue().strip().removeprefix("https://mailhub.example")
    new.post(printed)
    assert signed_in(new)


MADE: dict[str, tuple[str, dict[str, Any]]] = {
    "passkey": ("/account/factors/webauthn/add/", {"name": "new"}),
    "new name of a passkey": ("/account/factors/webauthn/keys/{passkey}/edit/", {"name": "new"}),
    "codes": ("/account/factors/totp/activate/", {}),
    "token": ("/tokens/new/", {"name": "new", "scopes": "mail:read", "days": "30"}),
    "chat": ("/notifications/chat/", {"address": "ntfy://ntfy.example/topic", "label": "new"}),
    "invitation": (
        "/mailboxes/{mailbox}/invite/",
        {"email": "eve@evil.example", "role": "manager"},
    ),
}


@pytest.mark.parametrize("made", MADE)
def test_nothing_made_during_a_recovery_outlives_it(made: str, mailbox: Mailbox) -> None:
    """Somebody with a fresh session may post such forms in a loop."""
    person = User.objects.create_user("dora@lovelace.example")
    Membership.objects.create(mailbox=mailbox, user=person, role=Role.MANAGER)
    window, passkey, ends = browser(person), Passkey(person), [recovery.recover]
    address, form = MADE[made]
    read = "mfa_authenticator" if "{passkey}" in address else "accounts_user"
    form = form | {"mailboxes": str(mailbox.pk)}
    if made == "passkey":
        options = window.get(address).context["js_data"]["creation_options"]
        form["credential"] = passkey.register(options["publicKey"]["challenge"])
    if made == "codes":
        form["code"] = code_of(window.get(address).context["form"].secret)

    def meanwhile(execute: Any, sql: str, *rest: Any) -> Any:
        answer = execute(sql, *rest)
        if sql.startswith("SELECT") and f'FROM "{read}"' in sql and ends:
            ends.pop()(User.objects.get(pk=person.pk), revoke_tokens=True)
        return answer

    with connection.execute_wrapper(meanwhile):
        window.post(address.format(passkey=passkey.row.pk, mailbox=mailbox.pk), form)

    assert not ends
    assert not Authenticator.objects.filter(user=person).exists()
    assert not ApiToken.objects.filter(user=person, revoked_at=None).exists()
    assert not NotificationChannel.objects.filter(user=person, kind="apprise").exists()
    assert not Invitation.open().exists()


def test_recovery_without_own_mail_names_people_to_notify(carol: User) -> None:
    err = StringIO()
    call_command("recover_person", "--user", carol.email, stdout=StringIO(), stderr=err)
    assert "Tell the person yourself" in err.getvalue()
