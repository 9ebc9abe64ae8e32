"""The stream as programs receive it: its framing, its events, its ends."""

import pytest
from django.core.serializers import serialize
from django.test import Client

from accounts.infra import streams
from accounts.models import Mailbox, User
from approvals.models import PendingAction
from mailhub.agent import stream
from mailhub.agent.models import Message, Thread, ToolCall
from tests.conftest import Api
from tests.mailhub.agent.conftest import Chat, read
from tests.support.processes.programs import until
from tests.support.servers.memory import MemoryServer
from tests.support.servers.model import ModelServer, Says

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(90)]


@pytest.mark.parametrize(
    ("piece", "written"),
    [
        ("Hello", "data: Hello\n\n"),
        (" a\nb\r\nc\rd", "data:  a\ndata: b\ndata: c\ndata: d\n\n"),
        ("\n", "data: \ndata: \n\n"),
        ("", ""),
        ('{"event":"tool_end"}', 'data: {\n\ndata: "event":"tool_end"}\n\n'),
        ('  {"a":1}', 'data:   {\n\ndata: "a":1}\n\n'),
        ("[DONE]", "data: [\n\ndata: DONE]\n\n"),
        ("{{[x", "data: {\n\ndata: {\n\ndata: [\n\ndata: x\n\n"),
        pytest.param("[" * 2_000, "data: [\n\n" * 2_000, id="many"),
    ],
)
def test_text_is_never_taken_for_an_event_or_the_end(piece: str, written: str) -> None:
    assert stream.text(piece) == written
    answer = read(200, {}, written)
    assert (answer.text, answer.events) == (piece.replace("\r\n", "\n").replace("\r", "\n"), [])


def test_event_format_is_exact() -> None:
    assert stream.tool_start("list_emails") == (
        'data: {"text": "🔧 running: list_emails …", "event": "tool_start", "tool": "list_emails"}\n\n'
    )
    assert stream.tool_end("t") == 'data: {"text": "✅ done", "event": "tool_end", "tool": "t"}\n\n'
    assert stream.tool_error("t", "no\nway") == (
        'data: {"text": "⚠️ t failed: no\\nway", "event": "tool_error", "tool": "t"}\n\n'
    )
    assert stream.END == "event: end\ndata: [DONE]\n\n"


def test_start_of_a_tool_says_what_it_looks_for(chat: Chat, model: ModelServer) -> None:
    secret = "sk-" + "a1B2" * 12
    model.says(
        Says(calls=(("search_emails", {"query": f"invoice\n{secret} {'x' * 200}", "to": "mira"}),)),
        Says(text="Nothing."),
    )
    answer = chat.ask("Where is the invoice?")
    shown = answer.events[0]["text"]
    assert shown.startswith("🔧 running: search_emails invoice ")
    assert secret not in answer.raw
    assert len(shown) < 130


def test_answer_with_a_tool_streams_text_events_and_the_end(chat: Chat, model: ModelServer) -> None:
    model.says(
        Says(text="Let me look.", calls=(("list_emails", {}),)),
        Says(text="Your inbox is empty,\nAlice."),
    )
    answer = chat.ask("What is new?")
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.text == "Let me look.Your inbox is empty,\nAlice."
    assert answer.kinds() == [("tool_start", "list_emails"), ("tool_end", "list_emails")]
    assert answer.raw.endswith("event: end\ndata: [DONE]\n\n")
    assert model.tool_results() == ['{"emails":[]}']


def test_text_arrives_while_the_model_is_still_speaking(chat: Chat, model: ModelServer) -> None:
    model.says(Says(text="The first twenty char" + "acters, then more.", hold=True))
    with chat.asking("Speak") as response:
        pieces = response.iter_text()
        assert "The first" in next(pieces)
        model.go_on.set()
        assert "".join(pieces).endswith(stream.END)


def test_silent_model_does_not_end_the_connection(
    chat: Chat, model: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "PING_SECONDS", 0.05)
    model.says(Says(text="The first twenty characters, then a pause.", hold=True))
    with chat.asking("Think") as response:
        pieces = response.iter_text()
        whole = next(pieces)
        while not whole.endswith(streams.PING):
            whole += next(pieces)
        model.go_on.set()
        whole += "".join(pieces)
    answer = read(200, {}, whole)
    assert (answer.text, answer.ended) == ("The first twenty characters, then a pause.", True)


def test_run_stops_when_the_client_leaves(chat: Chat, model: ModelServer) -> None:
    model.says(Says(text="Thinking about it, at length.", calls=(("list_emails", {}),), hold=True))
    with chat.asking("Look", threadId="t") as response:
        next(response.iter_text())
        assert model.holding.wait(10)
    assert model.left.wait(10), "the model's server was not hung up on"
    model.go_on.set()
    until(lambda: Thread.objects.filter(busy_until=None).exists())
    assert not ToolCall.objects.exists()
    assert len(model.requests) == 1

    model.says(Says(text="Here again."))
    assert chat.ask("And now?", threadId="t").text == "Here again."
    assert "Look" in str(model.shown())


@pytest.mark.parametrize("prompt", ["", "  \n"])
@pytest.mark.parametrize("path", ["/ai/agent/stream", "/ai/stream"])
def test_empty_prompt_is_reported_at_once_in_the_stream(
    chat: Chat, model: ModelServer, prompt: str, path: str
) -> None:
    answer = chat.ask(prompt, path)
    assert (answer.status, answer.ended) == (200, True)
    assert "prompt is empty" in answer.text
    assert model.requests == []


@pytest.mark.parametrize("path", ["/ai/agent/stream", "/ai/stream"])
def test_stream_explains_how_to_set_a_model(chat: Chat, settings: object, path: str) -> None:
    settings.AGENT_MODEL = ""  # type: ignore[attr-defined]
    answer = chat.ask("Hello", path)
    assert "AGENT_MODEL=openai:" in answer.text
    assert answer.ended


def test_unusable_model_is_reported(chat: Chat, settings: object) -> None:
    settings.AGENT_MODEL = "nobody:knows"  # type: ignore[attr-defined]
    assert "cannot be used" in chat.ask("Hello").text
    settings.AGENT_MODEL = ""  # type: ignore[attr-defined]
    settings.AI_DESTINATION_NAME = "aicore-destination"  # type: ignore[attr-defined]
    assert "sap-ai-sdk-gen" in chat.ask("Hello").text


def test_chat_that_is_switched_off_says_so(
    chat: Chat, settings: object, model: ModelServer
) -> None:
    settings.AGENT_ENABLE = False  # type: ignore[attr-defined]
    assert "AGENT_ENABLE" in chat.ask("Hello").text
    assert model.requests == []


def test_plain_stream_has_neither_tools_nor_memory(chat: Chat, model: ModelServer) -> None:
    model.says(Says(text="Plainly."), Says(text="Again."))
    assert chat.ask("My name is Ada.", "/ai/stream").text == "Plainly."
    assert chat.ask("Who am I?", "/ai/stream").text == "Again."
    assert "Ada" not in str(model.shown())
    assert model.tools() == []


def test_failed_agent_falls_back_to_the_plain_model(chat: Chat, model: ModelServer) -> None:
    def no_tools(request: dict[str, object]) -> Says:
        return Says(status=400) if "tools" in request else Says(text="Without tools.")

    model.otherwise = no_tools
    answer = chat.ask("Hello")
    assert "without tools" in answer.text
    assert answer.text.endswith("Without tools.")
    assert answer.ended


def test_failing_model_is_reported_and_the_stream_ends(chat: Chat, model: ModelServer) -> None:
    model.otherwise = Says(status=400)
    for path in ("/ai/agent/stream", "/ai/stream"):
        answer = chat.ask("Hello", path)
        assert "the model gave an error" in answer.text
        assert answer.ended
    model.otherwise = Says(text="It begins well, and then", breaks=True)
    answer = chat.ask("Hello")
    assert answer.text.startswith("It begins well")
    assert answer.ended


def test_chat_needs_a_token_or_a_session_with_csrf_token(
    person: Chat, door: str, model: ModelServer
) -> None:
    nobody = Chat(url=door, headers={})
    forged = Chat(url=door, headers={}, cookies=person.cookies)
    wrong = Chat(url=door, headers={"Authorization": "Bearer mh_wrong"}, cookies=person.cookies)
    for path in ("/ai/agent/stream", "/ai/stream"):
        assert nobody.ask("Hello", path).status == 401
        assert forged.ask("Hello", path).status == 403
        assert wrong.ask("Hello", path).status == 401
        assert person.ask("Hello", path).status == 200
    assert len(model.requests) == 2


def test_invalid_request_is_a_problem(chat: Chat) -> None:
    assert chat.ask(3).status == 422
    assert chat.ask("Hello", mode="everything").status == 422
    assert chat.ask("Hello", threadId="x" * 101).status == 422
    answer = Client().get("/ai/agent/stream")
    assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")
    assert answer.json()["code"] == "method_not_allowed"


def test_too_large_prompt_is_refused(chat: Chat, model: ModelServer) -> None:
    assert "20,000" in chat.ask("x" * 20_001).text
    assert model.requests == []


def test_audit_row_of_a_call_holds_no_secret(chat: Chat, model: ModelServer) -> None:
    model.says(
        Says(calls=(("search_emails", {"query": "password: hunter22 " + "x" * 500}),)),
        Says(calls=(("read_email", {"message_id": "nope"}),)),
    )
    answer = chat.ask("Find it", threadId="t")
    found, failed = ToolCall.objects.all()
    assert (found.tool, found.status, found.mode) == ("search_emails", "ok", "readOnly")
    assert found.thread == Thread.objects.get(name="t")
    assert "hunter22" not in serialize("json", ToolCall.objects.all())
    assert len(found.sha256) == 64
    assert found.duration_ms >= 0
    assert (failed.tool, failed.status) == ("read_email", "not_found")
    assert answer.kinds()[-1] == ("tool_error", "read_email")
    assert answer.events[-1]["text"].startswith("⚠️ read_email failed: ")


def test_thread_takes_one_turn_at_a_time_and_20_a_minute(chat: Chat, model: ModelServer) -> None:
    model.says(Says(text="A long answer, slowly.", hold=True))
    with chat.asking("First", threadId="t") as response:
        pieces = response.iter_text()
        next(pieces)
        assert "still answering" in chat.ask("Second", threadId="t").text
        model.go_on.set()
        list(pieces)
    thread = Thread.objects.get(name="t")
    Message.objects.bulk_create(
        Message(thread=thread, author="person", text="x") for _ in range(19)
    )
    assert "Too many requests" in chat.ask("Once more", threadId="t").text
    assert chat.ask("Elsewhere", threadId="u").text == "I have nothing to add."


def test_reading_proposes_and_sends_nothing(
    chat: Chat, model: ModelServer, server: MemoryServer
) -> None:
    model.says(Says(calls=(("list_emails", {}), ("list_folders", {}))))
    chat.ask("Look around")
    assert not PendingAction.objects.exists()
    assert server.ledger == []


def test_agent_has_the_permissions_of_its_caller(
    chat: Chat, model: ModelServer, foreign_mailbox: Mailbox, alice: User, foreign_api: Api
) -> None:
    model.says(Says(calls=(("list_emails", {"mailbox": foreign_mailbox.address}),)))
    answer = chat.ask("Read Charlie's mail")
    assert answer.kinds()[-1] == ("tool_error", "list_emails")
    assert '"code":"not_found"' in model.tool_results()[0]


@pytest.mark.parametrize(
    "says",
    [
        Says(text="Half an emoji: \ud83d."),
        Says(calls=(("search_emails", {"query": "\ud83d"}),)),
        Says(calls=(("read_email", {"message_id": "\ud83d", "\ud83d": 1}),)),
        Says(calls=(("\ud83d", {}),)),
    ],
)
def test_half_an_emoji_breaks_no_conversation(chat: Chat, model: ModelServer, says: Says) -> None:
    model.says(says)
    for prompt in ("First.", "Second."):
        answer = chat.ask(prompt, threadId="t")
        assert answer.ended
        assert "failed; this answer" not in answer.text
    assert "First." in str(model.shown())


def test_blank_name_of_a_thread_is_none(chat: Chat) -> None:
    assert chat.ask("Hello", threadId=" ").thread.strip()
