"""Attacks on the codes and tokens of programs that a person connected."""

from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from allauth.idp.oidc.models import Token
from django.db.models import F
from django.test import Client
from django.utils import timezone

from accounts.models import ApiToken, Mailbox, Membership, QuotaUse, Role, User
from accounts.oauth import grants
from accounts.people.recovery import recover
from tests.conftest import Api, make_mailbox
from tests.support.people.browser import browser
from tests.support.people.programs import BACK, Program, allow
from tests.support.servers.memory import MemoryServer

pytestmark = pytest.mark.django_db


@pytest.fixture
def program(db: None) -> Program:
    return Program.registered()


def code_of(program: Program, person: User, mailbox: Mailbox, **asked: Any) -> str:
    return program.take(allow(person, program.address(**asked), mailbox))


# --- The way that is meant


def test_program_gets_what_the_person_ticked(
    program: Program, alice: User, mailbox: Mailbox
) -> None:
    tokens = program.connect(alice, mailbox, scopes="mail:read mail:draft")

    assert tokens["scope"] == "mail:draft mail:read"
    assert tokens["token_type"] == "Bearer"
    assert tokens["expires_in"] <= 3600
    api = Api(secret=tokens["access_token"])
    assert api.tool("list_mailboxes").json()["mailboxes"][0]["address"] == mailbox.address
    refused = api.tool("send_email", to=["a@b.example"], subject="s", body="b")
    assert refused.status_code == 403
    assert 'error="insufficient_scope"' in refused["WWW-Authenticate"]
    assert 'scope="mail:draft mail:propose mail:read"' in refused["WWW-Authenticate"]


def test_answer_names_the_server(program: Program, alice: User, mailbox: Mailbox) -> None:
    leads = allow(alice, program.address(), mailbox)
    assert parse_qs(urlsplit(leads["Location"]).query)["iss"] == ["http://127.0.0.1:8000"]


def test_refusal_of_the_person_reaches_the_program(
    program: Program, alice: User, mailbox: Mailbox
) -> None:
    leads = allow(alice, program.address(), mailbox, answer="refuse")
    answer = parse_qs(urlsplit(leads["Location"]).query)
    assert (answer["error"], answer["state"]) == (["access_denied"], ["its-state"])
    assert not ApiToken.objects.exists()


def test_new_port_on_the_own_computer_is_the_same_program(
    program: Program, alice: User, mailbox: Mailbox
) -> None:
    program.back = BACK.replace("5000", "5001")
    assert program.connect(alice, mailbox)["access_token"]


# --- Redirects and PKCE


@pytest.mark.parametrize(
    "back",
    [
        "https://evil.example/back", "http://127.0.0.1:5000/other", "http://127.0.0.1:5000/back?x=1",
        "http://127.0.0.1.evil.example/back", "http://evil.example@127.0.0.1:5000/back",
        "https://127.0.0.1:5000/back", "http://localhost:5000/back", None,
    ],
)  # fmt: skip
def test_another_redirect_is_refused_on_the_page(
    program: Program, alice: User, mailbox: Mailbox, back: str | None
) -> None:
    answer = allow(alice, program.address(redirect_uri=back), mailbox)
    assert answer.status_code == 400
    assert "Location" not in answer
    assert not ApiToken.objects.exists()


def test_port_of_another_host_is_part_of_the_redirect(alice: User, mailbox: Mailbox) -> None:
    program = Program.registered(back="https://agent.example/cb")
    address = program.address(redirect_uri="https://agent.example:8443/cb")
    assert allow(alice, address, mailbox).status_code == 400


@pytest.mark.parametrize(
    "wrong",
    [
        {"code_challenge": None, "code_challenge_method": None},
        {"code_challenge_method": None},
        {"code_challenge_method": "plain"},
        {"response_type": "token"},
        {"response_type": "code token"},
        {"scope": "mail:approve"},
        {"resource": "https://other.example/mcp"},
        {"resource": "http://127.0.0.1:8000/other"},
        {"client_id": "unknown"},
        {"client_id": ["one", "two"]},
        {"client_id": "a\0b"},
        {"client_id": "https://a\0b.example/x"},
        {"code_challenge": "a\0b"},
        {"code_challenge": "short"},
        {"response_mode": "fragment"},
    ],
)
def test_wrong_request_is_refused_on_the_page(
    program: Program, alice: User, mailbox: Mailbox, wrong: dict[str, Any]
) -> None:
    for answer in (
        browser(alice).get(program.address(**wrong)),
        allow(alice, program.address(**wrong), mailbox),
    ):
        assert answer.status_code == 400
        assert "Location" not in answer
    assert not ApiToken.objects.exists()


@pytest.mark.parametrize("query", ["%zz", '"<>{}^`|', "client_id=%ff&scope=%00", "a=b=c&&=;", "é"])
def test_garbled_request_is_refused(alice: User, query: str) -> None:
    assert browser(alice).get(f"/oauth/authorize?{query}").status_code == 400
    kind = "application/x-www-form-urlencoded"
    for address in ("token", "revoke", "device/code"):
        body = f"grant_type=refresh_token&{query}"
        answer = Client().post(f"/oauth/{address}?{query}", body, content_type=kind)
        assert answer.status_code in (400, 401)


@pytest.mark.parametrize("wrong", [{"code_verifier": None}, {"code_verifier": "a" * 43},
                                   {"redirect_uri": "http://127.0.0.1:5001/back"}])  # fmt: skip
def test_stolen_code_is_worth_nothing(
    program: Program, alice: User, mailbox: Mailbox, wrong: dict[str, Any]
) -> None:
    code = code_of(program, alice, mailbox)
    assert program.exchange(code, **wrong).status_code in (400, 401)
    assert program.exchange(code).status_code == 400, "a wrong attempt uses the code up"


def test_code_belongs_to_its_program(program: Program, alice: User, mailbox: Mailbox) -> None:
    code = code_of(program, alice, mailbox)
    thief = Program.registered(name="Thief")
    thief.verifier = program.verifier
    assert thief.exchange(code).status_code == 400
    assert program.exchange(code).status_code == 200


def test_second_use_of_a_code_ends_its_tokens(
    program: Program, alice: User, mailbox: Mailbox
) -> None:
    code = code_of(program, alice, mailbox)
    tokens = program.exchange(code).json()
    assert program.exchange(code).json()["error"] == "invalid_grant"
    assert Api(secret=tokens["access_token"]).tool("list_mailboxes").status_code == 401
    assert program.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"


def test_old_code_is_refused(program: Program, alice: User, mailbox: Mailbox) -> None:
    code = code_of(program, alice, mailbox)
    Token.objects.update(expires_at=F("expires_at") - timedelta(seconds=61))
    assert program.exchange(code).json()["error"] == "invalid_grant"


# --- Access


def test_only_a_current_access_token_of_its_person_opens_the_api(
    program: Program, alice: User, charlie: User, mailbox: Mailbox
) -> None:
    tokens = program.connect(alice, mailbox)
    access = Token.objects.get(type=Token.Type.ACCESS_TOKEN)
    row = Token.objects.filter(pk=access.pk)
    assert Api(secret=tokens["refresh_token"]).tool("list_mailboxes").status_code == 401

    api = Api(secret=tokens["access_token"])
    for wrong in (
        {"user": charlie},
        {"type": Token.Type.REFRESH_TOKEN},
        {"expires_at": timezone.now() - timedelta(seconds=1)},
    ):
        assert api.tool("list_mailboxes").status_code == 200
        row.update(**wrong)
        assert api.tool("list_mailboxes").status_code == 401, wrong
        row.update(user=access.user, type=access.type)


# --- Refresh


def test_refresh_rotates_and_second_use_ends_the_family(
    program: Program, alice: User, mailbox: Mailbox
) -> None:
    first = program.connect(alice, mailbox)
    second = program.refresh(first["refresh_token"]).json()
    assert second["refresh_token"] != first["refresh_token"]
    assert Api(secret=second["access_token"]).tool("list_mailboxes").status_code == 200

    assert program.refresh(first["refresh_token"]).json()["error"] == "invalid_grant"
    assert program.refresh(second["refresh_token"]).json()["error"] == "invalid_grant"
    for tokens in (first, second):
        assert Api(secret=tokens["access_token"]).tool("list_mailboxes").status_code == 401


def test_one_program_cannot_fill_the_table_of_tokens(
    program: Program, alice: User, mailbox: Mailbox
) -> None:
    tokens, answers = program.connect(alice, mailbox), []
    for _ in range(100):
        answers.append(program.refresh(tokens["refresh_token"]))
        if answers[-1].status_code == 200:
            tokens = answers[-1].json()
    assert [each.status_code for each in answers] == [200] * 60 + [429] * 40
    assert answers[-1].json()["error"] == "temporarily_unavailable"
    assert program.connect(alice, mailbox), "another sign-in is not concerned"
    QuotaUse.objects.all().delete()
    assert program.refresh(tokens["refresh_token"]).status_code == 200


def test_refresh_cannot_widen_the_scope(program: Program, alice: User, mailbox: Mailbox) -> None:
    tokens = program.connect(alice, mailbox, scopes="mail:read")
    wider = program.refresh(tokens["refresh_token"], scope="mail:read mail:propose")
    assert wider.json()["error"] == "invalid_scope"
    same = program.refresh(tokens["refresh_token"]).json()
    assert same["scope"] == "mail:read"


def test_refresh_with_fewer_scopes_gives_fewer(
    program: Program, alice: User, mailbox: Mailbox
) -> None:
    tokens = program.connect(alice, mailbox)
    fewer = program.refresh(tokens["refresh_token"], scope="mail:read").json()
    assert Api(secret=fewer["access_token"]).tool("list_drafts").status_code == 403


def test_refresh_token_belongs_to_its_program(
    program: Program, alice: User, mailbox: Mailbox
) -> None:
    tokens = program.connect(alice, mailbox)
    thief = Program.registered(name="Thief")
    assert thief.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"
    assert program.refresh(tokens["refresh_token"]).status_code == 200


# --- Audience


@pytest.mark.parametrize("path", ["/mcp", "/ai"])
def test_token_for_another_surface_does_not_open_rest(
    program: Program, alice: User, mailbox: Mailbox, path: str
) -> None:
    tokens = program.connect(alice, mailbox, resource=f"http://127.0.0.1:8000{path}")
    refused = Api(secret=tokens["access_token"]).tool("list_mailboxes")
    assert refused.status_code == 401
    wider = program.refresh(tokens["refresh_token"], resource="http://127.0.0.1:8000/api/v1")
    assert wider.json()["error"] == "invalid_target"


@pytest.mark.parametrize(
    "elsewhere", ["https://127.0.0.1:8000", "http://elsewhere.example:8000", "http://127.0.0.1"]
)
def test_audience_of_another_server_is_refused(
    program: Program, alice: User, mailbox: Mailbox, settings: Any, elsewhere: str
) -> None:
    """A token that was issued under another public address is not for this server."""
    api = program.api(alice, mailbox)
    settings.MAILHUB_PUBLIC_URL = elsewhere
    assert api.tool("list_mailboxes").status_code == 401


# --- People


def test_refresh_ends_with_the_account(program: Program, alice: User, mailbox: Mailbox) -> None:
    code = code_of(program, alice, mailbox)
    tokens = program.connect(alice, mailbox)
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert Api(secret=tokens["access_token"]).tool("list_mailboxes").status_code == 401
    assert program.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"
    assert program.exchange(code).json()["error"] == "invalid_grant"


def test_disabled_person_cannot_consent(program: Program, alice: User, mailbox: Mailbox) -> None:
    window = browser(alice)
    User.objects.filter(pk=alice.pk).update(is_active=False)
    answer = allow(alice, program.address(), mailbox, window=window)
    assert answer["Location"].startswith("/sign-in/")
    assert not ApiToken.objects.exists()


def test_lost_role_takes_the_mailbox_from_the_program(
    program: Program, alice: User, mailbox: Mailbox
) -> None:
    api = program.api(alice, mailbox)
    Membership.objects.filter(user=alice).update(role=Role.VIEWER)
    assert (
        api.tool("create_draft", to=["a@b.example"], subject="s", body="b").json()["code"]
        == "forbidden"
    )
    Membership.objects.filter(user=alice).delete()
    assert api.tool("list_mailboxes").json()["mailboxes"] == []


# --- What a grant is


def test_connected_program_never_decides(
    program: Program, alice: User, mailbox: Mailbox, api: Api
) -> None:
    held = program.connect(alice, mailbox)["access_token"]
    action_id = api.propose()
    hand = Client(headers={"Authorization": f"Bearer {held}"})
    assert hand.post(f"/actions/{action_id}/approve/")["Location"].startswith("/sign-in/")
    assert hand.get("/")["Location"].startswith("/sign-in/")


@pytest.mark.parametrize("by", ["page", "command"])
def test_revoked_grant_does_not_come_back(
    program: Program, alice: User, mailbox: Mailbox, by: str
) -> None:
    old = program.connect(alice, mailbox)
    code = code_of(program, alice, mailbox)
    if by == "page":
        for grant in ApiToken.objects.all():
            browser(alice).post(f"/tokens/{grant.pk}/revoke/")
    else:
        recover(alice, revoke_tokens=True)
        alice.refresh_from_db()
    assert Api(secret=old["access_token"]).tool("list_mailboxes").status_code == 401
    new = program.connect(alice, mailbox)
    assert program.exchange(code).json()["error"] == "invalid_grant"
    assert program.refresh(old["refresh_token"]).json()["error"] == "invalid_grant"
    assert Api(secret=old["access_token"]).tool("list_mailboxes").status_code == 401
    assert Api(secret=new["access_token"]).tool("list_mailboxes").status_code == 200


def test_program_that_ends_its_tokens_has_none(
    program: Program, alice: User, mailbox: Mailbox
) -> None:
    tokens = program.connect(alice, mailbox)
    for who in (Program.registered(name="Thief"), program):
        form = {"client_id": who.client_id, "token": tokens["refresh_token"]}
        assert who.http.post("/oauth/revoke", form).status_code == 200
        alive = Api(secret=tokens["access_token"]).tool("list_mailboxes").status_code
        assert alive == (401 if who is program else 200)


def test_grant_can_be_limited_but_never_widened(
    program: Program, alice: User, mailbox: Mailbox, server: MemoryServer
) -> None:
    second = make_mailbox("second@lovelace.example", server, alice)
    api = program.api(alice, mailbox, scopes="mail:read mail:draft")
    grant = ApiToken.objects.get()
    address = f"/tokens/{grant.pk}/narrow/"
    for scopes, mailboxes in ((["mail:propose"], [mailbox]), (["mail:read"], [second])):
        form = {"scopes": scopes, "mailboxes": [str(each.pk) for each in mailboxes]}
        assert browser(alice).post(address, form).status_code == 200
    browser(alice).post(address, {"scopes": ["mail:read"], "mailboxes": [str(mailbox.pk)]})
    assert api.tool("list_mailboxes").status_code == 200
    assert api.tool("list_drafts").status_code == 403
    grants.narrow(grant, scopes=["mail:read", "mail:draft"], mailboxes=[mailbox, second])
    grant.refresh_from_db()
    assert (grant.scopes, list(grant.mailboxes.all())) == (["mail:read"], [mailbox])
    grants.narrow(grant, scopes=["mail:draft"], mailboxes=[mailbox])
    grant.refresh_from_db()
    assert grant.scopes == []


def test_nobody_gets_a_secret_of_a_connected_program(
    program: Program, alice: User, mailbox: Mailbox
) -> None:
    program.connect(alice, mailbox)
    rotate = f"/tokens/{ApiToken.objects.get().pk}/rotate/"
    assert browser(alice).post(rotate).status_code == 404


def test_programs_of_one_name_do_not_share_their_proposals(alice: User, mailbox: Mailbox) -> None:
    first, second = (Program.registered().api(alice, mailbox) for _ in range(2))
    action_id = first.propose(key="once")
    assert second.get(f"/actions/{action_id}").status_code == 404
    assert second.propose(key="once") != action_id
