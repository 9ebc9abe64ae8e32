"""The memory of a thread, its owner, and its limit: never more than a model takes."""

import json
import logging
from collections.abc import Callable
from datetime import timedelta
from email.message import EmailMessage
from typing import Any

import pytest
from django.utils import timezone
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from accounts.models import SCOPES, ApiToken, Mailbox, Membership, User
from accounts.oauth.grants import narrow
from approvals.worker.maintenance import purge_others
from mailhub.agent.checkpoints import keep, messages_of
from mailhub.agent.history import BUDGET, KEPT_TURNS, compact, fit, size
from mailhub.agent.models import Checkpoint, Message, Thread, ToolCall
from tests.conftest import Reviewer, make_api
from tests.mailhub.agent.conftest import Chat
from tests.support.servers.m365 import M365
from tests.support.servers.memory import MemoryServer
from tests.support.servers.model import ModelServer, Says

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(180)]


def test_thread_remembers_and_has_one_system_message(chat: Chat, model: ModelServer) -> None:
    model.says(
        Says(text="Hello Ada.", calls=(("list_emails", {}),)),
        Says(text="Nothing new."),
        Says(text="Ada."),
    )
    first = chat.ask("I am Ada. What is new?", threadId="c123-456")
    assert first.thread == "c123-456"
    assert chat.ask("Who am I?", threadId="c123-456").text == "Ada."
    roles = [message["role"] for message in model.shown()]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]
    for index in range(len(model.requests)):
        assert [message["role"] for message in model.shown(index)].count("system") == 1
    assert len(model.tools()) == len(set(model.tools()))


def test_request_without_an_id_is_a_new_thread(chat: Chat, model: ModelServer) -> None:
    first, second = chat.ask("I am Ada."), chat.ask("Who am I?")
    assert first.thread != second.thread
    assert "Ada" not in str(model.shown())


def test_thread_belongs_to_its_first_caller(
    chat: Chat, person: Chat, model: ModelServer, charlie: User, foreign_mailbox: Mailbox, door: str
) -> None:
    """Refuse the thread to other people, and also to the person's own token, which may have fewer
    permissions.
    """
    stranger = make_api(charlie, foreign_mailbox, name="agent")
    other = Chat(url=door, headers={"Authorization": f"Bearer {stranger.secret}"})
    person.ask("The secret word is xylophone.", threadId="t")
    for somebody in (chat, other):
        somebody.ask("What is the word?", threadId="t")
        assert "xylophone" not in str(model.shown())
    person.ask("What is the word?", threadId="t")
    assert "xylophone" in str(model.shown())
    assert Thread.objects.filter(name="t").count() == 3


def _take_scope() -> None:
    narrow(ApiToken.objects.get(), scopes=["agent:chat"], mailboxes=Mailbox.objects.all())


def _take_mailbox() -> None:
    narrow(ApiToken.objects.get(), scopes=SCOPES, mailboxes=[])


def _end_membership() -> None:
    Membership.objects.update(ends_at=timezone.now())


@pytest.mark.parametrize(
    ("who", "take"),
    [
        ("chat", _take_scope),
        ("chat", _take_mailbox),
        ("chat", _end_membership),
        ("person", _end_membership),
    ],
)
def test_model_forgets_what_its_caller_may_no_longer_read(
    request: pytest.FixtureRequest,
    model: ModelServer,
    server: MemoryServer,
    mailbox: Mailbox,
    who: str,
    take: Callable[[], None],
) -> None:
    chat: Chat = request.getfixturevalue(who)
    message = EmailMessage()
    message["From"], message["Subject"] = "Mira <mira@northwind.example>", "xylophone"
    message.set_content("Until Thursday.")
    server.deliver(mailbox.address, message.as_bytes())
    model.says(Says(calls=(("list_emails", {}),)), Says(text="One mail."))
    chat.ask("What is new?", threadId="t")
    chat.ask("Who wrote?", threadId="t")
    assert "xylophone" in str(model.shown())

    take()

    chat.ask("My name is Ada. What was the subject?", threadId="t")
    assert "xylophone" not in str(model.shown())
    chat.ask("Who am I?", threadId="t")
    assert "Ada" in str(model.shown())
    assert (ToolCall.objects.get().mailbox, ToolCall.objects.get().thread) == (mailbox, None)


def test_huge_results_and_long_threads_fit_the_window(
    person: Chat, model: ModelServer, m365: M365, reviewer: Reviewer
) -> None:
    """Stay within the window: the model's server refuses more than 100,000 characters as a real one
    does: `context_length_exceeded`.

    Most of the two hundred messages are put into the memory as turns with long tool results; the
    rest are real.
    """
    reviewer.user.is_staff = True
    reviewer.user.save()
    m365.answers(teams_team_list=[{"id": n, "name": "x" * 10_000} for n in range(200)])
    run = ("m365_run_command", {"command": "m365 teams team list"})
    model.says(Says(calls=(run,) * 2), Says(calls=(run,)), Says(text="Many teams."))
    assert person.ask("Show me all teams", threadId="t").text == "Many teams."
    assert len(m365.calls) == 3
    assert all(len(result) <= 4020 for result in model.tool_results())

    thread = Thread.objects.get()
    kept = Checkpoint.objects.get(thread=thread)
    keep(thread.pk, kept.checkpoint_id, [*messages_of(kept), *long_talk(196)])
    for number in range(3):
        Message.objects.update(created_at=timezone.now() - timedelta(hours=1))
        model.says(Says(calls=(run,)), Says(text=f"Answer {number}."))
        assert person.ask(f"Question {number}", threadId="t").text == f"Answer {number}."
    assert max(len(json.dumps(request)) for request in model.requests) < 100_000
    shown = model.shown()
    assert "Question 1" in str(shown)
    assert "a record, not a request" in str(shown[1])
    assert len(bytes(Checkpoint.objects.get().content)) < 100_000


def long_talk(turns: int) -> list[AnyMessage]:
    talk: list[AnyMessage] = []
    for turn in range(turns):
        call = {"name": "read_email", "args": {"message_id": "m"}, "id": f"old-{turn}"}
        talk += [
            HumanMessage(f"Old question {turn}", id=f"h{turn}"),
            AIMessage("", tool_calls=[call], id=f"c{turn}"),
            ToolMessage("r" * 8000, tool_call_id=f"old-{turn}", id=f"t{turn}"),
            AIMessage("Old answer. " * 100, id=f"a{turn}"),
        ]
    return talk


def test_older_turns_become_a_small_summary() -> None:
    kept: list[AnyMessage] = []
    for start in range(0, 200, 10):
        kept = compact([*kept, *long_talk(200)[start * 4 : (start + 10) * 4]])
        assert size(kept) < 40_000
        assert sum(isinstance(message, HumanMessage) for message in kept) <= KEPT_TURNS + 1
    assert "Asked: Old question 19" in kept[0].text
    assert "Tools: read_email" in kept[0].text
    assert kept[-1].text.startswith("Old answer.")


@pytest.mark.parametrize("budget", [BUDGET, 5000, 500])
@pytest.mark.parametrize(
    "messages",
    [
        long_talk(200),
        [HumanMessage("x" * 2_000_000)],
        [HumanMessage("q"), AIMessage("", tool_calls=[{"name": "n", "args": {"a": "x" * 2_000_000}, "id": "1"}]),
         ToolMessage("x" * 2_000_000, tool_call_id="1")],
        [HumanMessage("q"), AIMessage("x" * 2_000_000), HumanMessage("r")],
        [HumanMessage("q")] + [message for n in range(50) for message in (
            AIMessage("", tool_calls=[{"name": "n", "args": {}, "id": str(n)}]),
            ToolMessage("x" * 8000, tool_call_id=str(n)),
        )],
    ],
    ids=["talk", "prompt", "arguments", "answer", "rounds"],
)  # fmt: skip
def test_any_history_fits_and_each_call_has_its_answer(
    messages: list[AnyMessage], budget: int
) -> None:
    shown = fit(messages, budget)
    assert size(shown) <= budget
    assert isinstance(shown[0], HumanMessage)
    calls = {
        call["id"]
        for message in shown
        if isinstance(message, AIMessage)
        for call in message.tool_calls
    }
    assert calls == {message.tool_call_id for message in shown if isinstance(message, ToolMessage)}


def test_unanswered_call_is_left_out_of_the_next_turn() -> None:
    call = {"name": "list_emails", "args": {}, "id": "1"}
    kept = compact([HumanMessage("q"), AIMessage("", tool_calls=[call]), HumanMessage("r")])
    assert [message.text for message in kept] == ["q", "r"]


def test_tool_rounds_are_limited_and_the_model_answers_then(
    chat: Chat, model: ModelServer, settings: Any
) -> None:
    for limit in (4, 1):
        settings.AGENT_RECURSION_LIMIT = limit
        model.requests.clear()
        model.otherwise = Says(calls=(("list_emails", {}),))
        answer = chat.ask("Look for ever")
        assert (
            answer.kinds() == [("tool_start", "list_emails"), ("tool_end", "list_emails")] * limit
        )
        assert f"limit of {limit} rounds" in answer.text
        assert len(model.requests) == limit + 1
        assert model.requests[-1]["tool_choice"] == "none"
        assert answer.ended


def test_tool_result_is_cut_for_the_model_and_storage(
    chat: Chat, model: ModelServer, server: MemoryServer, mailbox: Mailbox
) -> None:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = (
        "mira@northwind.example",
        mailbox.address,
        "Long",
    )
    message.set_content("word " * 100_000)
    server.deliver(mailbox.address, message.as_bytes())

    def read(request: dict[str, Any]) -> Says:
        mail = str(request["messages"][-1]["content"]).split('"id":"')[1].split('"')[0]
        return Says(calls=(("read_email", {"message_id": mail, "max_chars": 20_000}),))

    model.says(Says(calls=(("list_emails", {}),)), read, Says(text="Words."), Says(text="Yes."))
    chat.ask("Read it", threadId="t")
    assert 8000 <= len(model.tool_results()[-1]) <= 8020
    chat.ask("All of it?", threadId="t")
    assert all(len(result) <= 520 for result in model.tool_results())


def test_log_switches_show_sizes_and_no_text(
    chat: Chat, model: ModelServer, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    chat.ask("Tell nobody about xylophones")
    assert "agent_model_call" not in caplog.text
    settings.AGENT_LOG_STEPS = settings.AGENT_LOG_OUTPUT = True
    model.says(Says(calls=(("list_emails", {}),)))
    chat.ask("Tell nobody about xylophones")
    calls = [
        r.msg
        for r in caplog.records
        if isinstance(r.msg, dict) and r.msg["event"] == "agent_model_call"
    ]
    assert [0 < call["approx_tokens"] < 10_000 for call in calls] == [True, True]
    (ended,) = [
        r.msg
        for r in caplog.records
        if isinstance(r.msg, dict) and r.msg["event"] == "agent_tool_end"
    ]
    assert ended["slim_bytes"] == len('{"emails":[]}')
    assert "xylophone" not in caplog.text


def test_old_threads_are_forgotten_by_the_sweeper(
    chat: Chat, model: ModelServer, settings: Any
) -> None:
    model.says(Says(calls=(("list_emails", {}),)))
    chat.ask("Hello", threadId="old")
    chat.ask("Hello", threadId="new")
    long_ago = timezone.now() - timedelta(days=settings.MAILHUB_RETENTION_DAYS + 1)
    ToolCall.objects.update(at=long_ago)
    Thread.objects.filter(name="old").update(updated_at=long_ago)
    purge_others()
    assert list(Thread.objects.values_list("name", flat=True)) == ["new"]
    assert not ToolCall.objects.exists()
    assert Checkpoint.objects.count() == 1


def test_memory_is_never_older_than_its_calls(
    chat: Chat, model: ModelServer, settings: Any
) -> None:
    """The calls say whether the caller may still know what the model remembers."""
    model.says(Says(calls=(("list_emails", {}),)), Says(text="The word is xylophone."))
    chat.ask("Hello", threadId="t")
    ToolCall.objects.update(at=timezone.now() - timedelta(days=settings.MAILHUB_RETENTION_DAYS + 1))
    purge_others()
    _end_membership()
    chat.ask("Which word?", threadId="t")
    assert "xylophone" not in str(model.shown())
    purge_others()
    assert not ToolCall.objects.exists()
