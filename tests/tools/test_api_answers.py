"""Answers under `/api`: problem documents for every error, limits, and scripts of other origins."""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from django.test import Client, override_settings

from accounts.infra.problems import STATUS
from mailhub.asgi import application
from tests.conformance.served import served
from tests.conftest import Api, Reviewer, problem_of

pytestmark = pytest.mark.django_db
ORIGIN = "https://app.example"
WITH_CORS = "corsheaders.middleware.CorsMiddleware"

Sent = Callable[[Api], Any]


LONG_NUMBER = "9" * 5000  # int() raises for it
MANY: dict[str, Any] = {f"q{number}": 1 for number in range(101)}


def upload(api: Api, body: bytes, kind: str) -> Any:
    return api.client.post("/api/v1/attachments", body, content_type=kind, headers=api._headers({}))


ERRORS: list[tuple[str, int, Sent]] = [
    ("unknown address", 404, lambda api: api.get("/no/such/thing")),
    ("no version", 404, lambda api: api.client.get("/api/")),
    ("no address", 404, lambda api: api.client.get("/api")),
    ("only the version", 404, lambda api: api.client.get("/api/v1")),
    ("wrong method", 405, lambda api: api.client.put("/api/v1/actions")),
    ("wrong method of a tool", 405, lambda api: api.get("/tools/send_email")),
    ("wrong method of the page", 405, lambda api: api.post("/docs")),
    ("bad id of a mailbox", 404, lambda api: api.get("/mailboxes/none")),
    ("bad id of an action", 404, lambda api: api.get("/actions/none")),
    ("bad id of a webhook", 404, lambda api: api.client.delete(
        "/api/v1/webhooks/none", headers=api._headers({}))),
    ("bad handle", 404, lambda api: api.get("/attachments/none")),
    ("too many parameters", 422, lambda api: api.tool("list_emails", **MANY)),
    ("unknown tool", 404, lambda api: api.tool("no_such_tool")),
    ("no token", 401, lambda api: api.client.get("/api/v1/actions")),
    ("long number in a query", 422, lambda api: api.get(f"/actions?limit={LONG_NUMBER}")),
    ("long number of a mail", 404, lambda api: api.tool(
        "create_draft", to=["mira@northwind.example"], subject="x", body="y", in_reply_to=LONG_NUMBER)),
    ("bad query", 422, lambda api: api.get("/actions?limit=many")),
    ("foreign cursor", 422, lambda api: api.get("/actions?cursor=2026-01-01")),
    ("no JSON", 400, lambda api: api.post("/tools/list_emails", "{")),
    ("another media type", 415, lambda api: api.client.post(
        "/api/v1/tools/list_emails", "<a/>", content_type="text/xml", headers=api._headers({}))),
    ("no multipart", 400, lambda api: upload(api, b"x", "application/json")),
    ("multipart without boundary", 400, lambda api: upload(api, b"x", "multipart/form-data")),
    ("half a file", 400, lambda api: upload(api, b"--b\r\n", "multipart/form-data; boundary=b")),
    ("foreign host", 400, lambda api: api.client.get("/api/v1/actions", headers={"Host": "a.b"})),
]  # fmt: skip


@pytest.mark.parametrize(("status", "send"), [pytest.param(*e[1:], id=e[0]) for e in ERRORS])
def test_error_under_api_is_a_problem_document(api: Api, status: int, send: Sent) -> None:
    answer = send(api)

    assert answer.status_code == status
    problem = problem_of(answer)
    assert problem["code"] in STATUS
    assert {"type", "title", "detail", "instance"} <= set(problem)
    assert answer["X-Request-ID"]
    assert ("Allow" in answer) == (status == 405)


def test_unexpected_error_of_a_middleware_is_a_problem(api: Api) -> None:
    broken = "tests.tools.test_api_answers.break_down"
    with override_settings(MIDDLEWARE=[*_middleware(), broken]):
        client = Client(raise_request_exception=False)
        assert problem_of(client.get("/api/v1/tools"))["code"] == "transient"
        assert client.get("/sign-in/")["Content-Type"].startswith("text/html")


def break_down(answer: Callable[..., Any]) -> Callable[..., Any]:
    """Return middleware that fails."""

    def fail(request: Any) -> Any:
        raise RuntimeError("out of order")

    return fail


def test_session_of_a_person_opens_nothing_in_the_api(reviewer: Reviewer) -> None:
    assert problem_of(reviewer.client.get("/api/v1/actions"))["code"] == "unauthenticated"


@pytest.mark.parametrize("path", ["/tools", "/actions", "/mailboxes", "/webhooks", "/no/such"])
def test_every_answer_to_a_token_says_what_is_left(api: Api, path: str) -> None:
    answer = api.get(path)
    if answer.status_code == 200:  # an unknown address looks at no token
        assert answer["RateLimit"].startswith('"requests";r=')
        assert answer["RateLimit-Policy"].startswith('"requests";q=')
    assert answer["X-Request-ID"]


def test_cursor_of_a_list_is_the_same_in_a_url(api: Api) -> None:
    ids = [api.propose(subject=f"mail {number}") for number in range(3)]
    found, cursor = [], ""
    for _ in ids:
        answer = api.get(f"/actions?limit=1&cursor={cursor}").json()
        found += [action["id"] for action in answer["items"]]
        cursor = answer.get("next_cursor", "")
        assert quote(cursor, safe="") == cursor
    assert (found, cursor) == (ids[::-1], "")


def _middleware() -> list[str]:
    from django.conf import settings

    return list(settings.MIDDLEWARE)


def test_no_other_origin_may_read_the_api_by_default(api: Api) -> None:
    answer = api.get("/actions", Origin=ORIGIN)
    assert not [name for name in answer.headers if name.lower().startswith("access-control")]


def test_listed_origin_may_call_the_api_and_nothing_else(api: Api) -> None:
    settings = {"MIDDLEWARE": [WITH_CORS, *_middleware()], "CORS_ALLOWED_ORIGINS": [ORIGIN]}
    with override_settings(**settings):
        client = Client(headers={"Origin": ORIGIN})
        asked = {"Access-Control-Request-Method": "POST"}
        before = client.options("/api/v1/tools/send_email", headers=asked)
        refused = client.get("/api/v1/actions")
        page = client.get("/sign-in/")
        foreign = client.get("/api/v1/actions", headers={"Origin": "https://evil.example"})

    assert before.status_code == 200
    assert {"authorization", "idempotency-key"} <= {
        name.strip() for name in before["Access-Control-Allow-Headers"].split(",")
    }
    assert (refused.status_code, refused["Access-Control-Allow-Origin"]) == (401, ORIGIN)
    assert "RateLimit" in refused["Access-Control-Expose-Headers"]
    for answer in (before, refused, page, foreign):
        assert "Access-Control-Allow-Credentials" not in answer
    assert "Access-Control-Allow-Origin" not in page
    assert "Access-Control-Allow-Origin" not in foreign


def test_refusal_of_a_body_can_be_read_by_a_listed_origin() -> None:
    """The body is refused before Django sees the request."""
    with override_settings(CORS_ALLOWED_ORIGINS=[ORIGIN]), served(application) as url:
        answer = httpx2.post(
            f"{url}/api/v1/tools/list_emails", content=b"{}", headers={"Origin": ORIGIN}
        )

    assert answer.status_code == 401
    assert answer.headers["access-control-allow-origin"] == ORIGIN
