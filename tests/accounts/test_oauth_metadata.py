"""The documents by which programs find the sign-in, and the answers that lead to them."""

from typing import Any

import pytest
from django.test import Client

from accounts.models import Mailbox, User
from tests.conftest import Api, make_api

pytestmark = pytest.mark.django_db
SERVER = "/.well-known/oauth-authorization-server"
RESOURCE = "/.well-known/oauth-protected-resource"


@pytest.mark.parametrize("path", ["", "/mcp", "/api/v1"])
def test_metadata_is_found_with_and_without_a_path(path: str, settings: Any) -> None:
    settings.MAILHUB_PUBLIC_URL = "https://mail.example"
    server = Client().get(SERVER + path).json()
    assert server["issuer"] == "https://mail.example"
    assert server["code_challenge_methods_supported"] == ["S256"]
    for name, value in server.items():
        if name.endswith("_endpoint"):
            assert value.startswith("https://mail.example/oauth/")
    resource = Client().get(RESOURCE + path).json()
    assert resource["resource"] == f"https://mail.example{path}"
    assert resource["authorization_servers"] == ["https://mail.example"]


@pytest.mark.parametrize("path", ["/other", "/mcp/x", "/api", "/mcp/", "//mcp"])
def test_metadata_of_other_paths_does_not_exist(path: str) -> None:
    for document in (SERVER, RESOURCE):
        assert Client().get(document + path).status_code == 404


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("get", "/api/v1/tools"),
        ("post", "/api/v1/tools/send_email"),
        ("get", "/api/v1/webhooks"),
        ("post", "/api/v1/attachments"),
    ],
)
@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer mho_nonsense"}])
def test_refusal_says_where_to_ask(method: str, path: str, headers: dict[str, str]) -> None:
    answer = getattr(Client(headers=headers), method)(path)
    assert answer.status_code == 401
    challenge = answer["WWW-Authenticate"]
    assert f'resource_metadata="http://127.0.0.1:8000{RESOURCE}/api/v1"' in challenge
    assert 'scope="mail:read mail:draft mail:propose"' in challenge
    assert ('error="invalid_token"' in challenge) is bool(headers)


def test_missing_scope_is_named_with_those_held(alice: User, mailbox: Mailbox) -> None:
    api: Api = make_api(alice, mailbox, scopes=["mail:read"])
    for refused, needed in (
        (api.tool("create_draft", to=["a@b.example"]), "mail:draft mail:read"),
        (api.get("/webhooks"), "mail:read webhooks:manage"),
        (api.post("/attachments"), "mail:draft mail:read"),
    ):
        assert refused.status_code == 403
        assert refused.json()["code"] == "forbidden"
        assert f'error="insufficient_scope", scope="{needed}"' in refused["WWW-Authenticate"]
