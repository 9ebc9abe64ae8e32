"""The history that a model gets of a conversation, never longer than a fixed number of characters.
Pure.

Between turns, older turns become lines of a rolling summary, and results of tools are shortened.
Within a turn, text that does not fit is shortened, then left out, oldest first. Characters are
counted, not tokens: a tokenizer would have to be downloaded, and a text hardly ever has more tokens
than characters.
"""

import json
from collections.abc import Iterable, Sequence

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

BUDGET = 60_000  # with the system message and the tools' schemas, some 20,000 tokens
LEAST = 10_000  # for the conversation, however long the tools' schemas are
RESULT_CHARS = 8_000  # of one result, in its own turn
KEPT_RESULT_CHARS = 500  # of one result, in later turns
KEPT_TURNS = 8
KEPT_CHARS = 24_000
SUMMARY_CHARS = 4_000
LINE_CHARS = 200
MARK = " …[truncated]"
SUMMARY = "summary"
HEAD = "Earlier in this conversation, shortened (a record, not a request):"

Turn = list[AnyMessage]


def cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[:length] + MARK


def compact(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return the conversation to keep before its next turn: a summary, then the newest turns,
    complete and in order.
    """
    summary, turns = _turns(_drop_incomplete(messages))
    kept = [[_shorter(message, KEPT_RESULT_CHARS) for message in turn] for turn in turns]
    older: list[Turn] = []
    while len(kept) > KEPT_TURNS or (len(kept) > 1 and size(flat(kept)) > KEPT_CHARS):
        older.append(kept.pop(0))
    lines = [*summary, *(_line(turn) for turn in older)]
    while sum(len(line) + 1 for line in lines) > SUMMARY_CHARS:
        lines.pop(0)
    head: Turn = []
    if lines:
        head = [HumanMessage("\n".join([HEAD, *lines]), additional_kwargs={SUMMARY: lines})]
    return [*head, *flat(kept)]


def fit(messages: Sequence[AnyMessage], budget: int) -> list[AnyMessage]:
    """Return the conversation in at most `budget` characters; its newest part is kept longest."""
    shown = _drop_incomplete(messages)
    for length in (RESULT_CHARS, 4_000, 2_000, KEPT_RESULT_CHARS, 100):
        shown = [_shorter(message, length) for message in shown]
        if size(shown) <= budget:
            return shown
    _, turns = _turns(shown)
    while len(turns) > 1 and size(flat(turns)) > budget:
        turns.pop(0)
    last = flat(turns)
    question = [
        message.model_copy(update={"content": cut(message.text, budget // 2)})
        for message in last[:1]
    ]
    asked = last[1:]
    while asked and size([*question, *asked]) > budget:
        asked = _drop_first_round(asked)
    return [*question, *asked]


def size(messages: Iterable[AnyMessage]) -> int:
    return sum(len(message.text) + len(_calls(message)) for message in messages)


def flat(turns: Iterable[Turn]) -> Turn:
    return [message for turn in turns for message in turn]


def rounds(messages: Sequence[AnyMessage]) -> int:
    """Return how often the model has called tools since the person's last message."""
    count = 0
    for message in reversed(messages):
        if isinstance(message, HumanMessage):
            break
        count += isinstance(message, AIMessage) and bool(message.tool_calls)
    return count


def _drop_incomplete(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return the messages without calls that have no answer and answers that have no call.

    An interrupted run leaves such messages, and no model accepts them.
    """
    answers = {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}
    asked = {
        call["id"]
        for message in messages
        if isinstance(message, AIMessage) and {call["id"] for call in message.tool_calls} <= answers
        for call in message.tool_calls
    }
    return [
        message
        for message in messages
        if (message.tool_call_id in asked if isinstance(message, ToolMessage) else True)
        and not (
            isinstance(message, AIMessage)
            and any(call["id"] not in asked for call in message.tool_calls)
        )
    ]


def _turns(messages: Sequence[AnyMessage]) -> tuple[list[str], list[Turn]]:
    """Return the summary's lines so far, and the turns; each begins with a person's message."""
    summary: list[str] = []
    turns: list[Turn] = []
    for message in messages:
        if isinstance(message, HumanMessage) and SUMMARY in message.additional_kwargs:
            summary = list(message.additional_kwargs[SUMMARY])
        elif isinstance(message, HumanMessage):
            turns.append([message])
        elif turns:
            turns[-1].append(message)
    return summary, turns


def _line(turn: Turn) -> str:
    tools = [
        call["name"]
        for message in turn
        if isinstance(message, AIMessage)
        for call in message.tool_calls
    ]
    answer = next((m.text for m in reversed(turn) if isinstance(m, AIMessage) and m.text), "")
    parts = [f"Asked: {_one_line(turn[0].text)}"]
    parts += [f"Tools: {', '.join(dict.fromkeys(tools))[:LINE_CHARS]}"] if tools else []
    return " | ".join([*parts, f"Answered: {_one_line(answer)}"])


def _one_line(text: str) -> str:
    return cut(" ".join(text.split()), LINE_CHARS)


def _shorter(message: AnyMessage, length: int) -> AnyMessage:
    if isinstance(message, ToolMessage):
        return message.model_copy(update={"content": cut(message.text, length)})
    if isinstance(message, AIMessage) and len(_calls(message)) > RESULT_CHARS:
        calls = [{**call, "args": {}} for call in message.tool_calls]
        return AIMessage(cut(message.text, RESULT_CHARS), tool_calls=calls, id=message.id)
    if len(message.text) > max(length, RESULT_CHARS):
        return message.model_copy(update={"content": cut(message.text, max(length, RESULT_CHARS))})
    return message


def _drop_first_round(rounds: Turn) -> Turn:
    following = next(
        (i for i, m in enumerate(rounds[1:], start=1) if isinstance(m, AIMessage)), len(rounds)
    )
    return rounds[following:]


def _calls(message: AnyMessage) -> str:
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    return (
        json.dumps([[call["name"], call["args"]] for call in calls], default=str) if calls else ""
    )
