"""MCP over HTTP: sessions, tokens, hosts and methods."""

import json
from typing import Any

import pytest

from accounts.models import ApiToken, User
from tests.conformance.served import Door
from tests.conftest import Api
from tests.support.processes.person import request
from tests.tools.mcp_door import LIST, door, shown

__all__ = ["door"]
pytestmark = pytest.mark.django_db(transaction=True)


def test_single_request_needs_no_session_and_gets_none(url: str, api: Api) -> None:
    for accept in ("application/json, text/event-stream", "application/json", "*/*"):
        answer = Door(url=url, secret=api.secret).raw(body=LIST, Accept=accept)

        assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/json")
        assert "mcp-session-id" not in answer.headers
        assert answer.json()["result"]["tools"]


def test_client_without_accept_header_gets_json(url: str, api: Api) -> None:
    headers = {"Authorization": f"Bearer {api.secret}", "Content-Type": "application/json"}

    assert (
        request(f"{url}/mcp", "POST", body=json.dumps(LIST).encode(), headers=headers).status == 200
    )


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": ""},
        {"Authorization": "Bearer mh_nonsense"},
        {"Authorization": "", "X-API-Key": "x"},
    ],
)
def test_invalid_token_is_answered_with_401(url: str, api: Api, headers: dict[str, str]) -> None:
    answer = Door(url=url, secret=api.secret).raw(body=LIST, **headers)

    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
    assert answer.headers["Content-Type"] == "application/problem+json"
    challenge = answer.headers["WWW-Authenticate"]
    assert challenge.startswith("Bearer ")
    assert 'resource_metadata="http://127.0.0.1:8000/.well-known/oauth-protected-resource/mcp"' in (
        challenge
    )
    assert 'scope="mail:read mail:draft mail:propose"' in challenge


def test_api_key_header_is_a_token_and_a_cookie_is_not(
    url: str, api: Api, client: Any, alice: User
) -> None:
    client.force_login(alice)
    door = Door(url=url, secret=api.secret)
    cookie = f"sessionid={client.cookies['sessionid'].value}"

    assert door.raw(body=LIST, **{"Authorization": "", "X-API-Key": api.secret}).status_code == 200
    assert door.raw(body=LIST, Authorization="", Cookie=cookie).status_code == 401


def test_revoked_token_ends_at_once(door: Door, api: Api) -> None:
    assert shown(door)
    ApiToken.objects.update(revoked_at=ApiToken.objects.get().created_at)
    assert door.raw(body=LIST).status_code == 401


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "OPTIONS"])
def test_other_method_is_not_allowed(url: str, api: Api, method: str) -> None:
    answer = Door(url=url, secret=api.secret).raw(method, Accept="text/event-stream")

    assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")
    assert answer.json()["code"] == "method_not_allowed"


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "localhost.evil.example:8000"},
        {"Host": "localhost@evil.example"},
        {"Origin": "http://evil.example"},
        {"Origin": "http://evil.example:8000"},
        {"Origin": "http://localhost@evil.example"},
        {"Origin": "null"},
        {"Origin": "http://[evil"},
    ],
)
def test_page_that_gave_its_name_our_address_is_refused(
    url: str, api: Api, headers: dict[str, str]
) -> None:
    answer = Door(url=url, secret=api.secret).raw(body=LIST, **headers)

    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "localhost:9"},
        {"Host": "mail.lovelace.example"},
        {"Origin": "https://mail.lovelace.example"},
    ],
)
def test_allowed_hosts_of_django_are_answered(
    url: str, api: Api, settings: Any, headers: dict[str, str]
) -> None:
    settings.ALLOWED_HOSTS = ["localhost", "127.0.0.1", ".lovelace.example"]

    assert Door(url=url, secret=api.secret).raw(body=LIST, **headers).status_code == 200


def test_invalid_call_is_a_protocol_error(url: str, api: Api) -> None:
    door = Door(url=url, secret=api.secret)
    wrong_arguments = {
        **LIST,
        "method": "tools/call",
        "params": {"name": "list_emails", "arguments": [1]},
    }

    assert door.raw(body=["no", "message"]).status_code == 400
    assert door.raw(body={**LIST, "method": "prompts/list"}).json()["error"]["code"] == -32601
    assert door.raw(body=wrong_arguments).json()["error"]["code"] == -32602


def test_pages_are_served_beside_it(url: str, api: Api) -> None:
    assert Door(url=url, secret=api.secret).raw("GET", path="/healthz").status_code == 200
