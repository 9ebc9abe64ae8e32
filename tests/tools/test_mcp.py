"""MCP over HTTP gives the same answers as REST, to clients of both protocol eras, and refuses the
same requests.
"""

import json
import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from io import StringIO
from typing import Any

import pytest
from mcp.client import Client

from accounts.models import SCOPES, ApiToken, Mailbox, User
from approvals.models import PendingAction
from mailhub.asgi import application
from tests.conformance.served import ERAS, Door, served
from tests.conftest import HELLO, Api, make_api
from tests.processes import request
from tools.catalog.entries import DEFAULT_TOOLSETS, TOOLS
from tools.providers.memory import MemoryServer

pytestmark = pytest.mark.django_db(transaction=True)
MAIL = """\
From: Mira <mira@northwind.example>
To: alice@lovelace.example
Subject: Hej
Message-ID: <1@northwind.example>
Date: Thu, 19 Nov 2026 12:00:00 +0000
Content-Type: multipart/mixed; boundary=part

--part
Content-Type: text/plain; charset=utf-8

Ja tak 👍
--part
Content-Type: text/plain; name=notes.txt
Content-Disposition: attachment; filename=notes.txt

Notes
--part--
"""
DRAFT = {"to": ["mira@northwind.example"], "subject": "Draft", "body": "Not yet."}
TOOL_LIST_BYTES = 8_000


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(application) as address:
        yield address


@pytest.fixture(params=[pytest.param(ERAS[0], marks=pytest.mark.long), *ERAS[1:]])
def door(request: pytest.FixtureRequest, url: str, api: Api) -> Door:
    return Door(url=url, secret=api.secret, era=request.param)


# The same answers as REST


@dataclass(frozen=True, kw_only=True)
class World:
    """Objects for arguments: a mail in the inbox, an action of one's own."""

    api: Api
    mail: str
    attachment: str

    def action(self) -> str:
        return self.api.propose(subject="about an action")

    def kept(self) -> dict[str, Any]:
        """Propose an action with a key, and return its arguments."""
        arguments = {**HELLO, "subject": "Kept", "confirm": True, "idempotency_key": "one"}
        self.api.post("/tools/send_email", arguments)
        return arguments

    def draft(self) -> str:
        return str(self.api.post("/tools/create_draft", DRAFT).json()["id"])


Arguments = Callable[[World], dict[str, Any]]

# For each tool at least one set of arguments with which it succeeds, and others to compare. Each
# set is built twice, once for each interface, so it may create objects that the tool uses up. A new
# tool needs a line here.
EXAMPLES: dict[str, list[Arguments]] = {
    "list_mailboxes": [lambda world: {}],
    "list_emails": [
        lambda world: {},
        lambda world: {"folder": "sent", "max_results": 1},
        lambda world: {"folder": "no such folder"},
        lambda world: {"max_results": 51},
    ],
    "list_folders": [lambda world: {}],
    "search_emails": [
        lambda world: {"text": "tak"},
        lambda world: {"from": "nobody@nowhere.example", "folder": "sent"},
        lambda world: {"since": "no date"},
    ],
    "read_thread": [lambda world: {"message_id": world.mail}, lambda world: {}],
    "list_attachments": [
        lambda world: {"message_id": world.mail},
        lambda world: {"message_id": "nonsense"},
    ],
    "download_attachment": [
        lambda world: {"message_id": world.mail, "attachment_id": world.attachment},
        lambda world: {"message_id": world.mail, "attachment_id": world.attachment, "as": "base64"},
        lambda world: {"message_id": world.mail, "attachment_id": "nonsense"},
    ],
    "create_draft": [lambda world: DRAFT, lambda world: {"to": []}],
    "draft_reply": [
        lambda world: {"message_id": world.mail, "body": "Yes."},
        lambda world: {"uid": 999, "body": "Yes."},
        lambda world: {"body": "Yes."},
    ],
    "update_draft": [
        lambda world: {**DRAFT, "draft_id": world.draft(), "subject": "Newer"},
        lambda world: {**DRAFT, "draft_id": world.mail},
    ],
    "list_drafts": [lambda world: {}],
    "delete_draft": [
        lambda world: {"draft_id": world.draft()},
        lambda world: {"draft_id": "nonsense"},
    ],
    "reply_email": [
        lambda world: {"message_id": world.mail, "comment": "Yes."},
        lambda world: {"message_id": world.mail, "comment": "Yes.", "confirm": True},
        lambda world: {"message_id": "nonsense", "comment": "Yes."},
    ],
    "forward_email": [
        lambda world: {"message_id": world.mail, "to": ["a@b.example"]},
        lambda world: {"message_id": world.mail, "to": ["a@b.example"], "confirm": True},
    ],
    "send_draft": [
        lambda world: {"draft_id": world.draft()},
        lambda world: {"draft_id": world.draft(), "confirm": True},
        lambda world: {"draft_id": "nonsense"},
    ],
    "read_email": [
        lambda world: {"message_id": world.mail},
        lambda world: {"message_id": "nonsense"},
    ],
    "send_email": [
        lambda world: HELLO,
        lambda world: {**HELLO, "subject": "Proposed", "confirm": True},
        lambda world: world.kept(),
        lambda world: {**world.kept(), "subject": "Another"},
        lambda world: {**HELLO, "to": ["no address"]},
        lambda world: {**HELLO, "idempotency_key": ""},
    ],
    "get_action": [
        lambda world: {"action_id": world.action()},
        lambda world: {"action_id": "7d444840-9dc0-11d1-b245-5ffdce74fad2"},
    ],
    "cancel_action": [
        lambda world: {"action_id": world.action()},
        lambda world: {"action_id": "nonsense"},
    ],
    "gmail_search_messages": [lambda world: {"query": "from:mira"}, lambda world: {"query": ""}],
    "gmail_get_message": [lambda world: {"message_id": world.mail}],
    "list_actions": [lambda world: {"state": "rejected"}, lambda world: {"state": "no such state"}],
    "m365_run_command": [
        lambda world: {"command": "m365 teams team remove --id 1"},
        lambda world: {"command": "m365 teams team remove --id 2", "confirm": True},
        lambda world: {"command": "m365 login"},
    ],
}


@pytest.fixture
def world(api: Api, mailbox: Mailbox, server: MemoryServer, settings: Any) -> World:
    settings.MCP_M365_STRICT_READONLY = False  # a command that writes is previewed without the CLI
    server.deliver(mailbox.address, MAIL.replace("\n", "\r\n").encode())
    mail = api.tool("list_emails").json()["emails"][0]["id"]
    attachment = api.tool("list_attachments", message_id=mail).json()["attachments"][0]["id"]
    return World(api=api, mail=mail, attachment=attachment)


def test_every_tool_has_an_example() -> None:
    assert set(TOOLS) == set(EXAMPLES)


@pytest.mark.parametrize("name", TOOLS)
def test_tool_gives_the_same_json_over_rest_and_mcp(
    door: Door, api: Api, world: World, name: str
) -> None:
    worked = 0
    for arguments in EXAMPLES[name]:
        rest = api.tool(name, **arguments(world))
        text, is_error = call(door, name, arguments(world))

        assert scrubbed(text) == scrubbed(rest.content.decode())
        assert is_error is (rest.status_code >= 400)
        worked += not is_error
    # This mailbox is not a Gmail mailbox: both interfaces refuse it in the same words.
    assert worked or TOOLS[name].toolset == "gmail"


@pytest.mark.parametrize("name", TOOLS)
def test_error_is_the_same_problem_over_rest_and_mcp(
    door: Door,
    api: Api,
    world: World,
    alice: User,
    mailbox: Mailbox,
    foreign_mailbox: Mailbox,
    name: str,
) -> None:
    good = EXAMPLES[name][0](world)
    for secret, changes in (
        (api.secret, {"no_such_field": 1}),
        (api.secret, {"mailbox": foreign_mailbox.address}),
        (make_api(alice, mailbox, name="other", scopes=["webhooks:manage"]).secret, {}),
    ):
        rest = Api(secret=secret).tool(name, **good, **changes)
        text, is_error = call(Door(url=door.url, secret=secret, era=door.era), name, good | changes)

        assert (is_error, rest.status_code >= 400) == (True, True)
        assert scrubbed(text) == scrubbed(rest.content.decode())


def call(door: Door, name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
    """Return a tool's one text, and whether it is an error."""

    async def work(client: Client) -> Any:
        return await client.call_tool(name, arguments)

    result = door.session(work)
    (content,) = result.content
    assert result.structured_content is None
    return content.text, bool(result.is_error)


def scrubbed(text: str) -> dict[str, Any]:
    """Return a result without the parts that differ between actions or times."""
    for pattern in (
        r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
        r"[0-9a-f]{64}",
        r"drafts:\d+(:[0-9a-f]+)?",
        r'(?<="uid":) ?\d+',
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)",
    ):
        text = re.sub(pattern, "0", text)
    document: dict[str, Any] = json.loads(text)
    document.pop("instance", None)  # the path of a request, of which MCP has one
    # Everything is proposed twice here, so the second has a warning about the first.
    if "warnings" in document:
        document["warnings"] = [
            one for one in document["warnings"] if one["code"] != "possible_duplicate"
        ]
    return document


# Results and errors


def test_result_is_one_compact_text_in_plain_utf8(door: Door, world: World) -> None:
    text, _ = call(door, "read_email", {"message_id": world.mail})

    assert "Ja tak 👍" in text
    assert text == json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False)


def test_mail_with_half_a_surrogate_pair_can_be_read(
    door: Door, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(caller: object, mailbox: object, parameters: object) -> dict[str, str]:
        return {"body": "before \ud83d after"}

    monkeypatch.setitem(TOOLS, "read_email", replace(TOOLS["read_email"], run=broken))
    text, is_error = call(door, "read_email", {"message_id": world.mail})

    assert (json.loads(text), is_error) == ({"body": "before \ud83d after"}, False)


def test_preview_is_no_error_and_stores_nothing(door: Door) -> None:
    text, is_error = call(door, "send_email", HELLO)

    assert (json.loads(text)["status"], is_error) == ("preview", False)
    assert not PendingAction.objects.exists()


def test_held_mail_is_no_error_and_waits_for_a_person(door: Door, server: MemoryServer) -> None:
    text, is_error = call(door, "send_email", {**HELLO, "confirm": True})

    assert (json.loads(text)["status"], is_error) == ("pending", False)
    assert PendingAction.objects.get().status == "pending"
    assert server.ledger == []


def test_unknown_field_is_an_error_that_names_it(door: Door) -> None:
    text, is_error = call(door, "send_email", {**HELLO, "colour": "red"})

    assert (json.loads(text)["code"], is_error) == ("invalid_input", True)
    assert [error["field"] for error in json.loads(text)["errors"]] == ["colour"]


def test_unknown_tool_is_an_error_of_the_tool(door: Door) -> None:
    text, is_error = call(door, "approve_action", {})

    assert (json.loads(text)["code"], is_error) == ("not_found", True)


def test_foreign_object_does_not_exist(
    door: Door, foreign_api: Api, foreign_mailbox: Mailbox
) -> None:
    action = foreign_api.propose(to=["a@b.example"])
    for name, arguments in (
        ("get_action", {"action_id": action}),
        ("cancel_action", {"action_id": action}),
        ("list_emails", {"mailbox": str(foreign_mailbox.id)}),
        ("read_email", {"mailbox": foreign_mailbox.address, "message_id": "inbox:0"}),
    ):
        text, is_error = call(door, name, arguments)
        assert (json.loads(text)["code"], is_error) == ("not_found", True)


@pytest.mark.fault(56)
def test_internal_error_text_reaches_no_client_or_log(
    door: Door, api: Api, server: MemoryServer, logged: StringIO
) -> None:
    call(
        door,
        "send_email",
        {**HELLO, "subject": "canary-subject", "body": "canary-body", "confirm": True},
    )
    call(door, "send_email", {**HELLO, "to": ["canary-address"], "canary": "canary"})
    call(door, "canary-tool", {"canary": "canary"})
    server.folders = None  # type: ignore[assignment]  # whatever a provider raises
    text, is_error = call(door, "list_emails", {"folder": "canary-folder"})

    assert is_error
    assert "canary" not in text
    said = logged.getvalue()
    assert said.count("tool_called") == 4
    assert "canary" not in said
    assert api.secret not in said


@pytest.mark.fault(56)
def test_internal_error_looks_the_same_over_rest_and_mcp(
    door: Door, api: Api, logged: StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(caller: object, mailbox: object, parameters: object) -> dict[str, str]:
        raise RuntimeError("canary")

    monkeypatch.setitem(TOOLS, "list_emails", replace(TOOLS["list_emails"], run=broken))
    text, is_error = call(door, "list_emails", {})

    assert is_error
    assert scrubbed(text) == scrubbed(api.tool("list_emails").content.decode())
    assert "canary" not in text + logged.getvalue()
    assert "error_type=RuntimeError" in logged.getvalue()


@pytest.fixture
def logged() -> Iterator[StringIO]:
    """Yield everything that reaches the log, in its final form."""
    stream = StringIO()
    handler = logging.getLogger().handlers[0]
    assert isinstance(handler, logging.StreamHandler)
    copy = logging.StreamHandler(stream)
    copy.setFormatter(handler.formatter)
    logging.getLogger().addHandler(copy)
    yield stream
    logging.getLogger().removeHandler(copy)


# Listed tools


def shown(door: Door, query: str = "") -> dict[str, Any]:
    """Return the tools by name, as they came over the wire."""

    async def work(client: Client) -> Any:
        return await client.list_tools()

    tools = door.session(work, query=query).tools
    return {
        tool.name: tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools
    }


def test_list_follows_the_scopes(door: Door, alice: User, mailbox: Mailbox) -> None:
    for scopes in ([], ["mail:read"], ["mail:propose"], list(SCOPES)):
        token = make_api(alice, mailbox, name="/".join(scopes), scopes=scopes)
        expected = {
            tool.name
            for tool in TOOLS.values()
            if tool.scope in scopes and tool.toolset in DEFAULT_TOOLSETS
        }
        assert set(shown(Door(url=door.url, secret=token.secret, era=door.era))) == expected


def test_list_follows_the_toolsets(door: Door) -> None:
    assert set(shown(door)) == {
        tool.name for tool in TOOLS.values() if tool.toolset in DEFAULT_TOOLSETS
    }
    for query, toolsets in (
        ("?toolsets=mail", {"mail"}),
        ("?toolsets=mail,%20send", {"mail", "send"}),
    ):
        assert set(shown(door, query)) == {
            tool.name for tool in TOOLS.values() if tool.toolset in toolsets
        }


def test_unknown_toolset_is_refused(url: str, api: Api) -> None:
    answer = Door(url=url, secret=api.secret).raw(path="/mcp?toolsets=mail,nonsense", body=LIST)

    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_input")


def test_annotations_name_only_differences_from_defaults(door: Door) -> None:
    hints = {name: tool.get("annotations", {}) for name, tool in shown(door).items()}

    assert hints["read_email"] == {"readOnlyHint": True}
    assert hints["list_mailboxes"] == {"readOnlyHint": True, "openWorldHint": False}
    # It proposes, and a person decides: nothing is destroyed; but it does not only read.
    assert hints["send_email"] == {"destructiveHint": False}
    # It withdraws a proposal for good.
    assert hints["cancel_action"] == {"idempotentHint": True, "openWorldHint": False}
    for name, tool in TOOLS.items():
        if tool.effect != "read" and name in hints and name != "list_drafts":
            assert "readOnlyHint" not in hints[name]


@pytest.mark.goal("P6")
def test_default_list_is_small(
    url: str, api: Api, record_property: Callable[[str, object], None]
) -> None:
    answer = Door(url=url, secret=api.secret).raw(body=LIST)
    size = len(
        json.dumps(answer.json()["result"], separators=(",", ":"), ensure_ascii=False).encode()
    )
    record_property("tools/list bytes", size)

    assert size <= TOOL_LIST_BYTES


# Access over HTTP

LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


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
    assert answer.headers["WWW-Authenticate"] == "Bearer"


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
