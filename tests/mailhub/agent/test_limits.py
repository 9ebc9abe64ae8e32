"""Permission and limits of the chat: a caller is limited over all threads and both streams."""

from typing import Any

import pytest

from accounts.models import Mailbox, User
from tests.conftest import make_api
from tests.mailhub.agent.conftest import Chat
from tests.support.servers.model import ModelServer

pytestmark = pytest.mark.django_db(transaction=True)
PATHS = ("/ai/agent/stream", "/ai/stream")


@pytest.fixture(params=["token", "person"])
def anybody(request: pytest.FixtureRequest) -> Chat:
    found: Chat = request.getfixturevalue({"token": "chat", "person": "person"}[request.param])
    return found


def test_new_threads_do_not_multiply_a_caller(anybody: Chat, settings: Any) -> None:
    settings.AGENT_REQUESTS_PER_MINUTE = 4
    codes = [anybody.ask("Hello", path, threadId=f"{n}").status for n in range(3) for path in PATHS]

    assert codes == [200] * 4 + [429] * 2


def test_refused_request_says_when_to_come_again(chat: Chat, settings: Any) -> None:
    settings.AGENT_REQUESTS_PER_MINUTE = 1
    assert '"chat";r=0;t=' in chat.ask("Hello").headers["ratelimit"]
    refused = chat.ask("Hello")

    assert refused.status == 429
    assert '"code": "rate_limited"' in refused.raw
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert refused.headers["ratelimit-policy"].endswith('"chat";q=1;w=60')


@pytest.mark.parametrize("path", PATHS)
def test_token_without_mail_scope_calls_no_model(
    door: str, model: ModelServer, alice: User, mailbox: Mailbox, path: str
) -> None:
    for scopes in ([], ["webhooks:manage"]):
        api = make_api(alice, mailbox, name=f"none {scopes}", scopes=scopes)
        refused = Chat(url=door, headers={"Authorization": f"Bearer {api.secret}"}).ask(
            "Hello", path
        )
        assert refused.status == 403
        assert '"code": "forbidden"' in refused.raw
    assert not model.requests


@pytest.mark.parametrize("scope", ["mail:read", "mail:draft", "mail:propose", "m365:run"])
def test_any_scope_for_content_is_enough(
    door: str, model: ModelServer, alice: User, mailbox: Mailbox, scope: str
) -> None:
    api = make_api(alice, mailbox, name=scope, scopes=[scope])
    assert (
        Chat(url=door, headers={"Authorization": f"Bearer {api.secret}"}).ask("Hello").status == 200
    )
