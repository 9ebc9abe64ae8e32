"""Errors name what is wrong, what is allowed, the nearest match, and an example; no given value."""

import json
import tracemalloc
from typing import Any

import pytest
from django.test import Client

from accounts.access.auth import caller_of_token
from accounts.infra.problems import Problem
from accounts.models import Mailbox
from tests.conformance.served import Door
from tests.conftest import HELLO, Api, problem_of
from tests.tools.mcp_door import call
from tools.catalog.calls import call_tool
from tools.catalog.entries import TOOLS
from tools.catalog.tool_schema import plain_members
from tools.schemas import Parameters

pytestmark = pytest.mark.django_db

MOMENT = "must be a date and time with a time zone, such as 2026-11-26T09:00:00+01:00"
ATTACH = (
    'must be {"handle": "…"} from POST /api/v1/attachments, '
    '{"message_id": "…", "attachment_id": "…"} of a mail in this mailbox, '
    '{"name": "plan.txt", "text": "The plan"}, '
    'or {"name": "plan.txt", "content_base64": "VGhlIHBsYW4="}'
)
NAMED = 'must have a plain name before the address, such as "Mira <name@company.example>"'
SOME = 'needs 1 or more entries, such as ["mira@northwind.example"]'
MISTAKES = [
    pytest.param("send_email", {"to": ["m@b.example <x@c.example>"]}, "to.0", NAMED, id="name"),
    pytest.param("send_email", {"to": []}, "to", SOME, id="nobody"),
    pytest.param("send_email", {"attachments": ["secret"]}, "attachments.0", ATTACH, id="file"),
    pytest.param(
        "send_email", {"attachments": [{"filename": "secret"}]}, "attachments.0", ATTACH, id="member"
    ),
    pytest.param(
        "send_email", {"attachments": [{"handle": "secret", "content_base64": ""}]},
        "attachments.0", ATTACH, id="both-files",
    ),
    pytest.param(
        "send_email", {"attachments": "secret"}, "attachments",
        'must be a list, such as [{"handle": "3f0b8a52-6d0e-4d51-9d1a-5b8f3f0f2c11"}]', id="files",
    ),
    pytest.param("send_email", {"send_at": "2020-01-01"}, "send_at", MOMENT, id="day"),
    pytest.param("send_email", {"send_at": "secret"}, "send_at", MOMENT, id="no-moment"),
    pytest.param("send_email", {"confirm": "yes"}, "confirm", "must be true or false", id="switch"),
    pytest.param(
        "send_email", {"importance": "hihg"}, "importance",
        "must be one of low, normal, high (did you mean high?)", id="choice",
    ),
    pytest.param(
        "send_email", {"metadata": ["secret"]}, "metadata",
        'must be an object, such as {"name": "value"}', id="object",
    ),
    pytest.param(
        "send_email", {"subject": 7}, "subject", 'must be a string, such as "text"', id="string"
    ),
    pytest.param(
        "send_email", {"subject": "s" * 256}, "subject", "must have at most 255 characters", id="long"
    ),
    pytest.param(
        "list_folders", {"mail_box": "secret"}, "mail_box",
        "is unknown (did you mean mailbox?); allowed: mailbox", id="unknown",
    ),
    pytest.param("list_mailboxes", {"secret": 1}, "secret", "is unknown; allowed: none", id="none"),
    pytest.param(
        "list_emails", {"max_results": "secret"}, "max_results",
        "must be a whole number, such as 10", id="number",
    ),
    pytest.param("list_emails", {"max_results": 51}, "max_results", "must be at most 50", id="much"),
    pytest.param(
        "search_emails", {"since": "secret"}, "since", "must be a date, such as 2026-11-26", id="date"
    ),
]  # fmt: skip


@pytest.mark.parametrize(("tool", "arguments", "field", "message"), MISTAKES)
def test_mistake_is_answered_with_what_is_allowed(
    api: Api, tool: str, arguments: dict[str, Any], field: str, message: str
) -> None:
    answer = api.tool(tool, **({**HELLO, **arguments} if tool == "send_email" else arguments))

    assert problem_of(answer)["errors"] == [{"field": field, "message": message}]
    assert field == "secret" or "secret" not in answer.content.decode()


@pytest.mark.django_db(transaction=True)
def test_mcp_answers_every_mistake_with_the_same_text(url: str, api: Api) -> None:
    door = Door(url=url, secret=api.secret)
    for tool, arguments, field, message in (each.values for each in MISTAKES):
        given = {**HELLO, **arguments} if tool == "send_email" else arguments  # type: ignore[dict-item]
        text, is_error = call(door, str(tool), given)  # type: ignore[arg-type]
        assert is_error
        assert json.loads(text)["errors"] == [{"field": field, "message": message}]


def test_unknown_mailbox_is_answered_with_the_nearest_own_one(
    api: Api, mailbox: Mailbox, foreign_mailbox: Mailbox
) -> None:
    near = problem_of(api.tool("list_emails", mailbox=mailbox.address.replace("e.", ".")))
    foreign = problem_of(api.tool("list_emails", mailbox=foreign_mailbox.address))
    missing = problem_of(api.tool("list_emails", mailbox="nobody@northwind.example"))

    assert f"Did you mean {mailbox.address}? list_mailboxes names yours." in near["detail"]
    assert foreign["detail"] == missing["detail"]
    assert "list_mailboxes names yours." in missing["detail"]


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ({}, "Send the header Authorization: Bearer mh_…, with the word Bearer."),
        (
            {"Authorization": "mh_without_a_scheme"},
            "Send the header Authorization: Bearer mh_…, with the word Bearer.",
        ),
        ({"Authorization": "Bearer mh_unknown"}, "Create another one on the page Tokens."),
    ],
)
def test_call_without_a_good_token_says_how_to_send_one(
    client: Client, header: dict[str, str], said: str
) -> None:
    problem = problem_of(client.get("/api/v1/mailboxes", headers=header))
    assert said in problem["detail"]


def test_many_mistakes_get_a_short_answer(api: Api) -> None:
    answer = api.post("/tools/list_mailboxes", {f"field_{n}": n for n in range(100)})
    assert len(problem_of(answer)["errors"]) == 20


def find_objects() -> list[tuple[str, str]]:
    """Return each parameter that may be an object, with its tool."""
    found = []
    for tool in TOOLS.values():
        wanted: type[Parameters] = tool.parameters
        for name, member in plain_members(wanted).items():
            if "object" in member["types"] and tool.scope != "m365:run":  # only staff may call that
                found.append((tool.name, name))
    return found


@pytest.mark.parametrize(("tool", "name"), find_objects())
def test_object_with_many_members_is_one_mistake(api: Api, tool: str, name: str) -> None:
    answer = api.post(f"/tools/{tool}", {name: {f"{number}": 1 for number in range(150)}})

    errors = [each for each in problem_of(answer)["errors"] if each["field"].startswith(name)]
    assert [each["message"].rpartition(" ")[0] for each in errors] in (
        ["must have at most 16"],
        ["must have at most 100"],
    )


def test_long_name_of_a_tool_is_compared_with_nothing(api: Api) -> None:
    caller = caller_of_token(api.secret, surface="mcp")
    name = "abcdefghijklmnopqrstuvwxyz012345" * 30_000  # MCP takes 32 MB
    tracemalloc.start()
    with pytest.raises(Problem, match="not_found"):
        call_tool(caller, name, {})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * len(name)
