"""Programs without a browser: a person types the code that the program shows."""

import time
from datetime import timedelta
from typing import Any

import pytest
from allauth.idp.oidc.models import Client as Registered
from allauth.idp.oidc.models import Token
from django.db import connection
from django.db.models import F
from django.utils import timezone

from accounts.models import ApiToken, Mailbox, User, digest_of
from accounts.oauth import cleanup, devices, programs
from tests.conftest import Api
from tests.support.concurrently import all_at_once
from tests.support.people.browser import browser
from tests.support.people.programs import BACK, Program, allow

pytestmark = pytest.mark.django_db
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
GRANTS = ["authorization_code", "refresh_token", DEVICE_GRANT]


@pytest.fixture
def program(db: None) -> Program:
    return Program.registered(name="Terminal", grant_types=GRANTS)


def begun(program: Program, **form: Any) -> dict[str, Any]:
    answer = program.http.post("/oauth/device/code", {"client_id": program.client_id, **form})
    assert answer.status_code == 200, answer.content
    found: dict[str, Any] = answer.json()
    return found


def polled(program: Program, code: dict[str, Any]) -> dict[str, Any]:
    """Poll as if the interval had passed."""
    for token in Token.objects.filter(type=devices.WAITS):
        assert token.data
        Token.objects.filter(pk=token.pk).update(data={**token.data, "polled_at": 0.0})
    answer: dict[str, Any] = program.token(
        grant_type=DEVICE_GRANT,
        device_code=code["device_code"],
    ).json()
    return answer


def decide(person: User, code: dict[str, Any], *mailboxes: Mailbox, **fields: Any) -> Any:
    return allow(person, "/oauth/device", *mailboxes, code=code["user_code"], **fields)


def test_person_allows_a_device(program: Program, alice: User, mailbox: Mailbox) -> None:
    code = begun(program, scope="mail:read mail:propose")
    assert code["verification_uri_complete"].endswith(f"/oauth/device?code={code['user_code']}")
    assert polled(program, code)["error"] == "authorization_pending"

    typed = code["user_code"].lower().replace("-", " ")
    page = browser(alice).post("/oauth/device", {"code": typed}).content.decode()
    assert "Terminal" in page
    assert "Continue only if your own program shows this code." in page
    done = decide(alice, code, mailbox, scopes="mail:read")
    assert "You can close this page." in done.content.decode()

    tokens = polled(program, code)
    assert tokens["scope"] == "mail:read"
    assert Api(secret=tokens["access_token"]).tool("list_mailboxes").status_code == 200
    assert program.refresh(tokens["refresh_token"]).status_code == 200
    assert polled(program, code)["error"] == "invalid_grant", "a code gives tokens once"


def test_person_refuses_a_device(program: Program, alice: User, mailbox: Mailbox) -> None:
    code = begun(program)
    decide(alice, code, mailbox, answer="refuse")
    assert "unknown or too old" in decide(alice, code, mailbox).content.decode()
    assert polled(program, code)["error"] == "access_denied"
    assert not ApiToken.objects.exists()


def test_first_answer_to_a_device_counts(program: Program, alice: User, bob: User) -> None:
    code = begun(program)
    seen = [devices.find(person, code["user_code"]) for person in (alice, bob)]
    answers = zip(seen, (alice, bob), strict=True)
    assert [token and devices.answer(token, who, None) for token, who in answers] == [True, False]


def test_simultaneous_polls_give_one_pair(program: Program, alice: User, mailbox: Mailbox) -> None:
    code = begun(program)
    decide(alice, code, mailbox)
    first, answers = iter([True]), []

    def poll_again(execute: Any, sql: str, *rest: Any) -> Any:
        if sql.startswith("DELETE") and next(first, False):
            answers.append(polled(program, code))
        return execute(sql, *rest)

    with connection.execute_wrapper(poll_again):
        answers.append(polled(program, code))
    assert ["access_token" in each for each in answers] == [True, False]


def test_revoked_before_the_poll_gets_nothing(
    program: Program, alice: User, mailbox: Mailbox
) -> None:
    code = begun(program)
    decide(alice, code, mailbox)
    browser(alice).post(f"/tokens/{ApiToken.objects.get().pk}/revoke/")
    assert polled(program, code)["error"] == "invalid_grant"


def test_impatient_device_is_slowed_down(program: Program) -> None:
    code = begun(program)
    assert polled(program, code)["error"] == "authorization_pending"
    again = program.token(
        grant_type=DEVICE_GRANT,
        device_code=code["device_code"],
    )
    assert again.json()["error"] == "slow_down"


def test_old_device_code_is_refused(program: Program, alice: User, mailbox: Mailbox) -> None:
    code = begun(program)
    Token.objects.update(expires_at=F("expires_at") - timedelta(minutes=11))
    assert polled(program, code)["error"] == "expired_token"
    page = decide(alice, code, mailbox).content.decode()
    assert "This code is unknown or too old." in page
    assert not ApiToken.objects.exists()


def test_device_code_belongs_to_its_program(
    program: Program, alice: User, mailbox: Mailbox
) -> None:
    code = begun(program)
    decide(alice, code, mailbox)
    thief = Program.registered(name="Thief", grant_types=GRANTS)
    assert polled(thief, code)["error"] == "invalid_grant"
    assert "access_token" in polled(program, code)


def test_codes_cannot_be_guessed(program: Program, alice: User, mailbox: Mailbox) -> None:
    code = begun(program)
    window = browser(alice)
    for _ in range(10):
        window.post("/oauth/device", {"code": "BCDF-GHJK"})
    page = window.post("/oauth/device", {"code": code["user_code"]}).content.decode()
    assert "You have entered too many codes." in page
    assert "Terminal" not in page


def test_link_with_a_code_spends_no_guess(program: Program, alice: User, mailbox: Mailbox) -> None:
    """Any page that the person reads can open such an address in their browser."""
    window = browser(alice)
    link = begun(program)["verification_uri_complete"]
    pages = [window.get(link).content.decode() for _ in range(11)]
    code = link.partition("=")[2]
    assert f'value="{code}"' in pages[10]
    assert "Terminal" not in pages[10]
    page = window.post(link, {"code": code}).content.decode()
    assert "Terminal" in page
    assert f'<input type="hidden" name="code" value="{code}">' in page


@pytest.mark.parametrize("asked", [{}, {"grant_types": ["authorization_code"]}])
def test_no_code_is_begun_for_a_program_without_devices(
    mailbox: Mailbox, asked: dict[str, Any]
) -> None:
    """Its id is public, so anybody could ask in its name."""
    program = Program.registered(name="Desk", **asked)
    answer = program.http.post("/oauth/device/code", {"client_id": program.client_id})
    assert (answer.status_code, answer.json()["error"]) == (400, "unauthorized_client")
    assert program.token(grant_type=DEVICE_GRANT, device_code="x").status_code == 400
    assert not Token.objects.exists()


@pytest.mark.parametrize("known", ["a document", "an administrator"])
def test_page_of_a_code_shows_no_identity(alice: User, mailbox: Mailbox, known: str) -> None:
    client = programs.add("Desk", [BACK], device=True)
    if known == "a document":
        client.pk = "https://desk.northwind.example/program.json"
        client.data = {"cimd": True, "updated_at": time.time()}
        client.save()
    code = begun(Program(client_id=client.pk))["user_code"]
    page = browser(alice).post("/oauth/device", {"code": code}).content.decode()
    assert "unverified" in page
    assert "Connect a device?" in page
    assert "desk.northwind.example" not in page
    assert "added by your administrator" not in page


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"client_id": "unknown"}, "invalid_client"),
        ({"scope": "mail:approve"}, "invalid_scope"),
        ({"resource": "https://other.example"}, "invalid_target"),
    ],
)
def test_wrong_device_request_is_refused(
    program: Program, wrong: dict[str, str], error: str
) -> None:
    answer = program.http.post("/oauth/device/code", {"client_id": program.client_id, **wrong})
    assert answer.status_code in (400, 401)
    assert answer.json()["error"] == error


def test_unused_programs_and_old_codes_are_forgotten(
    program: Program, alice: User, mailbox: Mailbox
) -> None:
    used = Program.registered(name="Used")
    used.connect(alice, mailbox)
    lost = used.take(allow(alice, used.address(), mailbox))
    begun(program)
    Token.objects.filter(hash=digest_of(lost)).update(expires_at=timezone.now())
    Registered.objects.update(created_at=timezone.now() - timedelta(days=2))
    Token.objects.filter(type=devices.WAITS).update(expires_at=timezone.now())
    cleanup.forget_old()
    assert [client.pk for client in Registered.objects.all()] == [used.client_id]
    assert not Token.objects.filter(type=devices.WAITS).exists()
    assert [each.name for each in ApiToken.objects.filter(revoked_at=None)] == ["Used"]


@pytest.mark.django_db(transaction=True)
def test_simultaneous_refreshes_give_one_pair_at_most(
    program: Program, alice: User, mailbox: Mailbox
) -> None:
    tokens = program.connect(alice, mailbox)
    answers = all_at_once([lambda: program.refresh(tokens["refresh_token"])] * 4)
    given = [answer.json() for answer in answers if answer.status_code == 200]
    assert len(given) <= 1
    for pair in (tokens, *given):
        assert Api(secret=pair["access_token"]).tool("list_mailboxes").status_code == 401


def test_no_program_names_many_resources(
    program: Program, alice: User, mailbox: Mailbox, settings: Any
) -> None:
    """Each one was compared with each that was granted: 900 by 900 took three seconds."""
    own = settings.MAILHUB_PUBLIC_URL
    few, many = [f"{own}/mcp", f"{own}/api/v1"] * 5, [f"{own}/mcp"] * 11
    asked = {"client_id": program.client_id, "resource": many}
    assert program.http.post("/oauth/device/code", asked).json()["error"] == "invalid_target"
    code = begun(program, resource=few)
    decide(alice, code, mailbox)
    tokens = polled(program, code)

    form = {**asked, "grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
    refused = program.http.post("/oauth/token", form)
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_target")
    assert program.http.post("/oauth/token", {**form, "resource": few}).status_code == 200
