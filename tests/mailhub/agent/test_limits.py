"""Permission and limits of the chat: a caller is limited over all threads and both streams."""

from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client

from accounts.infra import streams
from accounts.models import SCOPES, ApiToken, Mailbox, User
from tests.conftest import Api, make_api
from tests.mailhub.agent.conftest import Answer, Chat
from tests.support.servers.model import ModelServer, Says

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
def test_person_has_a_limit_of_open_answers(agent_api: Api, alice: User, path: str) -> None:
    held = [streams.take_place(alice.pk) for _ in range(streams.OF_PERSON)]
    program = Client(headers={"Authorization": f"Bearer {agent_api.secret}"})
    refused = program.post(path, {"prompt": "Hello"}, content_type="application/json")
    assert all(held)
    assert refused.status_code == 429
    assert "Too many answers are open" in refused.content.decode()


@pytest.mark.parametrize("how", ["signed out", "new password", ""])
def test_answer_ends_with_the_session_that_asked(
    person: Chat, model: ModelServer, alice: User, how: str
) -> None:
    """A person who signs the browser of a thief out does not wait for the end of an answer there."""

    def go_on(_: Any) -> Says:
        if how == "signed out":
            Session.objects.all().delete()
        elif how:
            alice.set_password("kelp oar 9 tundra")
            alice.save()
        return Says(calls=(("list_mailboxes", {}),))

    model.says(go_on, Says(text="Done."))
    person.ask("Look")
    (result,) = model.tool_results()
    assert (alice.email in result) is not bool(how)


@pytest.mark.parametrize("path", PATHS)
def test_only_its_own_scope_opens_the_chat(
    door: str, model: ModelServer, alice: User, mailbox: Mailbox, path: str
) -> None:
    def ask(scopes: list[str]) -> Answer:
        api = make_api(alice, mailbox, name=f"with {len(scopes)}", scopes=scopes)
        return Chat(url=door, headers={"Authorization": f"Bearer {api.secret}"}).ask("Hello", path)

    refused = ask([scope for scope in SCOPES if scope != "agent:chat"])
    assert refused.status == 403
    assert '"code": "forbidden"' in refused.raw
    assert "agent:chat" in refused.raw
    assert not model.requests
    assert ask(["agent:chat"]).status == 200


def test_upgrade_keeps_the_chat_of_existing_tokens(alice: User, mailbox: Mailbox) -> None:
    for name, scopes in {"reader": ["mail:read"], "hooks": ["webhooks:manage"]}.items():
        make_api(alice, mailbox, name=name, scopes=scopes)
    migration = import_module("accounts.migrations.0010_scope_of_the_chat")
    with connection.schema_editor() as editor:
        migration.keep_the_chat(apps, editor)
    assert dict(ApiToken.objects.values_list("name", "scopes")) == {
        "reader": ["mail:read", "agent:chat"],
        "hooks": ["webhooks:manage"],
    }
