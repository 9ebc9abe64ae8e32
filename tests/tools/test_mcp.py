"""MCP over HTTP gives the same answers as REST, to clients of both protocol eras, and refuses the
same requests.
"""

import json
from dataclasses import replace
from io import StringIO

import pytest

from accounts.models import Mailbox, User
from approvals.models import PendingAction
from tests.conformance.served import Door
from tests.conftest import HELLO, Api, make_api
from tests.support.logged import logged
from tests.support.servers.memory import MemoryServer
from tests.support.tools import MORE, World
from tests.tools.mcp_door import call, door, scrubbed, world
from tools.catalog.entries import TOOLS, MailboxTool

__all__ = ["door", "logged", "world"]
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("name", TOOLS)
def test_tool_gives_the_same_json_over_rest_and_mcp(
    door: Door, api: Api, world: World, alice: User, name: str
) -> None:
    User.objects.filter(pk=alice.pk).update(is_staff=True)  # Microsoft 365 is for staff
    worked = 0
    for arguments in (lambda each: each.example(name), *MORE.get(name, [])):
        rest = api.tool(name, **arguments(world))
        text, is_error = call(door, name, arguments(world))

        assert scrubbed(text) == scrubbed(rest.content.decode())
        assert is_error is (rest.status_code >= 400)
        worked += not is_error
    # This mailbox is not a Gmail mailbox: both interfaces refuse it in the same words.
    assert worked or TOOLS[name].toolset == "gmail"


def test_error_is_the_same_problem_over_rest_and_mcp(
    door: Door, api: Api, world: World, alice: User, mailbox: Mailbox, foreign_mailbox: Mailbox
) -> None:
    other = make_api(alice, mailbox, name="other", scopes=["webhooks:manage"])
    for name in TOOLS:  # refusals change nothing, so all tools share one world
        good = world.example(name)
        for secret, changes in (
            (api.secret, {"no_such_field": 1}),
            (api.secret, {"mailbox": foreign_mailbox.address}),
            (other.secret, {}),
        ):
            rest = Api(secret=secret).tool(name, **(good | changes))
            text, is_error = call(replace(door, secret=secret), name, good | changes)

            assert (is_error, rest.status_code >= 400) == (True, True), name
            assert scrubbed(text) == scrubbed(rest.content.decode()), name


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

    tool = TOOLS["read_email"]
    assert isinstance(tool, MailboxTool)
    monkeypatch.setitem(TOOLS, "read_email", replace(tool, run=broken))
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


@pytest.mark.parametrize("given", [{"mailbox": "a\0b"}, {"arguments": '{"mailbox": "a\\u0000b"}'}])
def test_broken_text_in_an_argument_is_named(door: Door, given: dict[str, str]) -> None:
    text, is_error = call(door, "list_folders", given)

    assert (json.loads(text)["code"], is_error) == ("invalid_input", True)
    assert [error["field"] for error in json.loads(text)["errors"]] == ["mailbox"]


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

    tool = TOOLS["list_emails"]
    assert isinstance(tool, MailboxTool)
    monkeypatch.setitem(TOOLS, "list_emails", replace(tool, run=broken))
    text, is_error = call(door, "list_emails", {})

    assert is_error
    assert scrubbed(text) == scrubbed(api.tool("list_emails").content.decode())
    assert "canary" not in text + logged.getvalue()
    assert "error_type=RuntimeError" in logged.getvalue()
