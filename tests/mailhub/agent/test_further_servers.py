"""Tools of further MCP servers in the chat: listed reads answer, listed writes wait for a person."""

from collections.abc import Iterator
from typing import Any

import pytest

from accounts.models import ApiToken, Mailbox, Membership, Role, User
from approvals.core.states import Status
from approvals.models import AuditEvent, PendingAction
from mailhub.agent.models import ToolCall
from tests.conftest import Api, Reviewer, make_mailbox
from tests.mailhub.agent.conftest import Chat
from tests.support.people.browser import browser
from tests.support.servers.mcp_tools import Wiki, running_wiki
from tests.support.servers.memory import MemoryServer
from tests.support.servers.model import ModelServer, Says
from tests.support.work import work
from tools.servers import calling

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(120)]
BODY = {
    "text": "Grüße\u202eevil\u0007\u3164\U000e0141",
    "tags": ["a", None, 1.5],
    "to": "eve@evil.example",
}


@pytest.fixture
def wiki(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Wiki]:
    monkeypatch.setattr(calling, "_listed", {})
    with running_wiki() as wiki:
        settings.AGENT_MCP_SERVERS = [wiki.configured()]
        yield wiki


def ask(chat: Chat, model: ModelServer, *calls: tuple[str, Any], mode: str = "safeWrite") -> Any:
    model.says(Says(calls=calls), Says(text="Done."))
    return chat.ask("Look in the wiki", mode=mode)


def held(chat: Chat, model: ModelServer, title: str = "Plan") -> PendingAction:
    ask(chat, model, ("wiki__save", {"title": title, "body": BODY}))
    return PendingAction.objects.get()


def test_reading_tool_answers_in_every_mode(
    person: Chat, model: ModelServer, wiki: Wiki, mailbox: Mailbox, reviewer: Reviewer
) -> None:
    wiki.answer = "Bearer abcdefghijklmnop1234 says hello"
    answer = ask(person, model, ("wiki__find", {"query": "canary"}), mode="readOnly")
    assert answer.kinds() == [("tool_start", "wiki__find"), ("tool_end", "wiki__find")]
    assert wiki.calls == [("find", "canary")]
    assert model.tool_results() == ["[redacted] says hello"]
    assert "wiki__save" not in model.tools()
    call = ToolCall.objects.get()
    assert (call.tool, call.status, call.mailbox) == ("wiki__find", "ok", mailbox)
    page = browser(reviewer.user).get(f"/mailboxes/{mailbox.pk}/chat/").content.decode()
    assert "wiki__find" in page
    assert "canary" not in page


def test_unlisted_tool_does_not_exist(chat: Chat, model: ModelServer, wiki: Wiki) -> None:
    ask(chat, model, ("wiki__wipe", {}), ("wipe", {}), ("wiki__find", {"query": "x"}))
    assert "wiki__wipe" not in model.tools()
    assert [status for _, status in ToolCall.objects.values_list("tool", "status")] == [
        "not_found",
        "not_found",
        "ok",
    ]
    assert wiki.calls == [("find", "x")]


def test_other_surfaces_do_not_have_the_tools(api: Api, wiki: Wiki) -> None:
    assert api.tool("wiki__find", query="x").status_code == 404
    assert "wiki__" not in api.get("/tools").content.decode()


def test_writing_tool_needs_the_mode_that_proposes(
    chat: Chat, model: ModelServer, wiki: Wiki, settings: Any
) -> None:
    for mode in ("readOnly", "default"):
        ask(chat, model, ("wiki__save", {"title": "Plan", "body": BODY}), mode=mode)
        assert "wiki__save" not in model.tools()
    assert set(ToolCall.objects.values_list("status", flat=True)) == {"policy_blocked"}
    assert not PendingAction.objects.exists()
    settings.AGENT_WRITE_ALLOW = ["wiki__save"]
    ask(chat, model, ("wiki__save", {"title": "Plan", "body": BODY}), mode="default")
    assert PendingAction.objects.get().kind == "mcp.call"
    assert wiki.calls == []


def test_held_call_is_shown_whole_and_runs_once(
    chat: Chat, model: ModelServer, wiki: Wiki, reviewer: Reviewer, agent_api: Api, mailbox: Mailbox
) -> None:
    action = held(chat, model)
    assert (action.status, action.mailbox) == (Status.PENDING, mailbox)
    page = reviewer.page(str(action.pk)).content.decode()
    for shown in (
        "wiki",
        wiki.url,
        "save",
        "Grüße\\u202eevil\\u0007\\u3164\\udb40\\udd41",
        "&quot;tags&quot;",
        "null",
    ):
        assert shown in page
    assert "\u202e" not in page
    assert "Approve and run" in page
    work()
    assert wiki.calls == []

    reviewer.decide(str(action.pk), "approve")
    work()
    work()
    assert wiki.calls == [("save", {"title": "Plan", "body": BODY})]
    action.refresh_from_db()
    assert action.status == Status.SUCCEEDED
    told = agent_api.get(f"/actions/{action.pk}").json()
    assert told["result"]["output"] == "saved Plan"
    assert "Grüße\\u202eevil\\u0007" in told["result"]["command"]
    assert "\u202e" not in reviewer.page(str(action.pk)).content.decode()
    assert AuditEvent.objects.filter(action_id=action.pk, event="approved").exists()
    assert "Plan" in browser(reviewer.user).get("/commands/").content.decode()
    staff = User.objects.create_user(email="staff@lovelace.example", is_staff=True)
    assert "Plan" not in browser(staff).get("/commands/").content.decode()


def test_rejected_call_never_runs(
    chat: Chat, model: ModelServer, wiki: Wiki, reviewer: Reviewer
) -> None:
    action = held(chat, model)
    reviewer.decide(str(action.pk), "reject")
    work()
    assert wiki.calls == []


def test_error_of_a_tool_is_a_failure_in_its_words(
    chat: Chat, model: ModelServer, wiki: Wiki, reviewer: Reviewer
) -> None:
    action = held(chat, model, title="locked")
    reviewer.decide(str(action.pk), "approve")
    work()
    action.refresh_from_db()
    assert action.status == Status.FAILED
    assert "the page is locked" in reviewer.page(str(action.pk)).content.decode()
    assert len(wiki.calls) == 1


@pytest.mark.parametrize(
    "trouble", [{"drops": True}, {"moves": True}, {"fails": -32602}], ids=["cut", "moved", "error"]
)
def test_lost_answer_is_unknown_and_not_repeated(
    chat: Chat, model: ModelServer, wiki: Wiki, reviewer: Reviewer, trouble: dict[str, Any]
) -> None:
    action = held(chat, model)
    reviewer.decide(str(action.pk), "approve")
    vars(wiki).update(trouble)
    work()
    vars(wiki).update(drops=False, moves=False, fails=0)
    work()
    action.refresh_from_db()
    assert action.status == Status.UNKNOWN
    assert (len(wiki.calls), wiki.paths) == (1, ["/mcp"])
    assert action.attempts.get().wire_started_at is not None


def test_server_that_is_away_got_nothing(
    chat: Chat, model: ModelServer, wiki: Wiki, reviewer: Reviewer, settings: Any
) -> None:
    settings.AGENT_MCP_SERVERS = [gone := wiki.configured(url="http://127.0.0.1:9/mcp")]
    calling._listed[gone] = (1e12, {})
    action = held(chat, model)
    reviewer.decide(str(action.pk), "approve")
    work()
    action.refresh_from_db()
    attempt = action.attempts.get()
    assert (action.status, attempt.verdict, attempt.proof, attempt.wire_started_at) == (
        Status.APPROVED,
        "not_sent",
        "before_wire",
        None,
    )


@pytest.mark.parametrize("change", [{"write": []}, {"url": "http://127.0.0.1:9/mcp"}])
def test_call_that_is_no_longer_allowed_does_not_run(
    chat: Chat,
    model: ModelServer,
    wiki: Wiki,
    reviewer: Reviewer,
    settings: Any,
    change: dict[str, Any],
) -> None:
    action = held(chat, model)
    reviewer.decide(str(action.pk), "approve")
    settings.AGENT_MCP_SERVERS = [wiki.configured(**change)]
    work()
    action.refresh_from_db()
    assert action.status == Status.FAILED
    assert wiki.calls == []


def test_call_belongs_to_the_mailbox_that_it_names(
    chat: Chat,
    model: ModelServer,
    wiki: Wiki,
    alice: User,
    server: MemoryServer,
    person: Chat,
) -> None:
    second = make_mailbox("second@lovelace.example", server, alice)
    arguments = {"title": "Plan", "body": BODY}
    ask(person, model, ("wiki__save", arguments))
    assert not PendingAction.objects.exists(), "the person has two"
    ask(person, model, ("wiki__save", {**arguments, "mailhub_mailbox": second.address}))
    action = PendingAction.objects.get()
    assert action.mailbox == second
    assert action.current.payload["arguments"] == arguments
    assert [target["address"] for target in action.current.preview["targets"]] == [
        "eve@evil.example"
    ]


def test_viewer_reads_there_and_proposes_nothing(
    person: Chat, model: ModelServer, wiki: Wiki, alice: User, mailbox: Mailbox
) -> None:
    Membership.objects.filter(mailbox=mailbox, user=alice).update(role=Role.VIEWER)
    calls = ("wiki__find", {"query": "x"}), ("wiki__save", {"title": "Plan", "body": BODY})
    ask(person, model, *calls)
    assert list(ToolCall.objects.values_list("status", flat=True)) == ["ok", "forbidden"]
    assert wiki.calls == [("find", "x")]


def test_secret_goes_to_the_server_and_long_answers_end(
    chat: Chat, model: ModelServer, wiki: Wiki, settings: Any
) -> None:
    settings.AGENT_MCP_SERVERS = [wiki.configured(secret="s3cret-word")]
    wiki.answer = "x" * 2_000_000
    ask(chat, model, ("wiki__find", {"query": "all"}))
    assert set(wiki.seen) == {"Bearer s3cret-word"}
    assert ToolCall.objects.get().status == "transient"
    assert len(wiki.calls) == 1


def test_arguments_that_no_person_could_read_are_refused(
    chat: Chat, model: ModelServer, wiki: Wiki
) -> None:
    deep: Any = {}
    for _ in range(100):
        deep = {"deeper": deep}
    for body in ({"text": "x" * 30_000}, deep, {"n": float("nan")}, {"text": "\0"}):
        ask(chat, model, ("wiki__save", {"title": "Plan", "body": body}))
    assert not PendingAction.objects.exists()
    assert "ok" not in ToolCall.objects.values_list("status", flat=True)


def listed(name: str, schema: Any, description: str = "Look.") -> dict[str, Any]:
    return {"name": name, "description": description, "inputSchema": schema}


def with_members(**members: Any) -> dict[str, Any]:
    return {"type": "object", "properties": members}


def doubling(levels: int) -> dict[str, Any]:
    """Return a schema whose definitions name the next one twice."""
    definitions: dict[str, Any] = {
        f"d{n}": with_members(a={"$ref": (following := f"#/$defs/d{n + 1}")}, b={"$ref": following})
        for n in range(levels)
    }
    return {
        **with_members(x={"$ref": "#/$defs/d0"}),
        "$defs": {**definitions, f"d{levels}": {"type": "string"}},
    }


def nested(levels: int) -> dict[str, Any]:
    return with_members(x=nested(levels - 1)) if levels else {"type": "string"}


@pytest.mark.parametrize(
    "schema",
    [
        doubling(12),
        doubling(60),
        nested(60),
        {"type": "object", "$ref": "#/nowhere"},
        with_members(a={"$ref": 5}),
        with_members(a={"$ref": "#/$defs/a"}),
        with_members(a={"$ref": "https://else.example/schema"}),
        with_members(a={"type": 5}),
    ],
    ids=lambda schema: str(schema)[:60],
)
def test_unreadable_tool_leaves_the_others(
    chat: Chat, model: ModelServer, wiki: Wiki, schema: Any
) -> None:
    query = with_members(query={"type": "string"})
    wiki.listed = [listed("save", schema), listed("find", query)]
    answer = ask(chat, model, ("wiki__find", {"query": "x"}))
    assert answer.text == "Done."
    assert [name for name in model.tools() if "wiki" in name] == ["wiki__find"]
    assert wiki.calls == [("find", "x")]


def test_patterns_are_not_compiled_and_names_count_once(
    chat: Chat, model: ModelServer, wiki: Wiki
) -> None:
    """The patterns of one list could take minutes to compile."""
    deep = with_members(query={"pattern": "(" * 3900 + ")" * 3900})
    wiki.listed = [listed("find", deep), *[listed("find", with_members(other={}))] * 3]
    ask(chat, model, ("wiki__find", {"query": "x"}))
    found = {tool["function"]["name"]: tool["function"] for tool in model.requests[-1]["tools"]}
    assert "other" not in found["wiki__find"]["parameters"]["properties"]
    assert wiki.calls == [("find", "x")]


def test_token_that_lost_the_chat_reads_no_answer_of_a_tool(
    chat: Chat, model: ModelServer, wiki: Wiki, reviewer: Reviewer, agent_api: Api
) -> None:
    action = held(chat, model)
    reviewer.decide(str(action.pk), "approve")
    work()
    assert "result" in agent_api.get(f"/actions/{action.pk}").json()
    for token in ApiToken.objects.all():
        token.scopes = [scope for scope in token.scopes if scope != "agent:chat"]
        token.save()
    assert "result" not in agent_api.get(f"/actions/{action.pk}").json()


def test_references_become_the_definitions(chat: Chat, model: ModelServer, wiki: Wiki) -> None:
    page = with_members(title={"type": "string"}, parts={"items": {"$ref": "#/$defs/a~1page"}})
    places = {
        "page": {"$ref": "#/$defs/a~1page", "title": "t"},
        "same": {"$ref": "#/$defs/a~1page"},
    }
    wiki.listed = [listed("find", {**with_members(**places), "$defs": {"a/page": page}})]
    ask(chat, model, ("wiki__find", {"query": "x"}))
    found = {tool["function"]["name"]: tool["function"] for tool in model.requests[-1]["tools"]}
    members = found["wiki__find"]["parameters"]["properties"]
    assert members["same"] == with_members(title={"type": "string"}, parts={"items": {}})
    assert members["page"].items() >= members["same"].items()
    assert "$defs" not in found["wiki__find"]["parameters"]


@pytest.mark.parametrize("together", [None, 70_000])
def test_long_tools_leave_room_for_the_question(
    chat: Chat,
    model: ModelServer,
    wiki: Wiki,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    together: int | None,
) -> None:
    from mailhub.agent import graph  # loads the chat's libraries: not in every process

    together = together or graph.FURTHER_CHARS
    monkeypatch.setattr(graph, "FURTHER_CHARS", together)
    names = [f"t{n}" for n in range(30)]
    settings.AGENT_MCP_SERVERS = [wiki.configured(read=[*names, "find"], write=[])]
    long = with_members(a={"type": "string", "description": "y" * 7000})
    wiki.listed = [listed(name, long, "x" * 1000) for name in names]
    wiki.listed.append(listed("find", with_members(query={"type": "string"})))
    ask(chat, model, ("wiki__find", {"query": "x"}))
    offered = [name for name in model.tools() if "wiki" in name]
    many = together // 8_000
    assert offered == [*(f"wiki__t{n}" for n in range(many)), "wiki__find"]
    assert "Look in the wiki" in str(model.shown(0))
    assert "The page says hello." in str(model.shown())
