"""Answers of the chat as a stream: from the agent, or from the model without tools, always with the
same end.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import structlog
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, HumanMessage, SystemMessage

from accounts.access.caller import Caller
from accounts.infra.streams import in_thread
from mailhub.agent import stream, threads
from mailhub.agent.chat_models import NoModel, chat_model
from mailhub.agent.checkpoints import UnreadableConversation
from mailhub.agent.graph import Turn, make_agent, offered_tools, superstep_limit
from mailhub.agent.models import Thread
from mailhub.agent.policy import Mode
from tools.mail.text.redaction import make_storable

log = structlog.get_logger(__name__)
# These libraries log the address of every request.
for _name in ("httpx", "httpx2", "openai", "anthropic", "langchain", "langgraph"):
    logging.getLogger(_name).setLevel(logging.WARNING)

PLAIN = "You are a helpful assistant. You have no tools here and cannot look anything up or send anything."
WITHOUT_TOOLS = "⚠️ The agent failed; this answer comes from the model without tools.\n\n"
BROKEN = "⚠️ The answer broke off: the model gave an error ({error}). Nothing was sent by it."
UNREADABLE = (
    "⚠️ This conversation cannot be read: what was stored of it has been changed, or its key is no longer configured. "
    "Start a new conversation."
)
TOO_LONG = f"⚠️ The answer took longer than {threads.RUN_SECONDS} seconds and was stopped."


async def agent_answer(
    *, caller: Caller, thread: Thread, prompt: str, mode: Mode
) -> AsyncGenerator[str, None]:
    """Yield the answer in a thread, with tools. The text is stored when the answer ends, also after
    an error.

    The pieces are those of `stream`, without the end. If the reader disconnects, the run stops.
    """
    reason = await in_thread(threads.claim, thread)
    if reason:
        yield stream.text(f"⚠️ {reason}")
        return
    said: list[str] = []
    try:
        await in_thread(threads.forget_lost, caller, thread)
        await in_thread(threads.store_prompt, thread, prompt)
        async with asyncio.timeout(threads.RUN_SECONDS):
            async with aclosing(
                _pieces(Turn(caller=caller, thread=thread, mode=mode), prompt, said)
            ) as pieces:
                async for piece in pieces:
                    yield piece
    except TimeoutError:
        said.append(TOO_LONG)
        yield stream.text(TOO_LONG)
    finally:
        await in_thread(_store_answer, thread, "".join(said))


async def plain_answer(prompt: str) -> AsyncGenerator[str, None]:
    """Yield an answer without tools and without memory."""
    said: list[str] = []
    try:
        model = chat_model()
    except NoModel as missing:
        yield stream.text(f"⚠️ {missing}")
        return
    try:
        async with asyncio.timeout(threads.RUN_SECONDS):
            async with aclosing(_plain(model, prompt, said)) as pieces:
                async for piece in pieces:
                    yield piece
    except TimeoutError:
        yield stream.text(TOO_LONG)


async def _pieces(turn: Turn, prompt: str, said: list[str]) -> AsyncGenerator[str, None]:
    """Yield the agent's pieces; the plain model's if the agent fails before its first text."""
    try:
        model = chat_model()
    except NoModel as missing:
        said.append(f"⚠️ {missing}")
        yield stream.text(said[-1])
        return
    try:
        async with aclosing(_agent(model, turn, prompt, said)) as pieces:
            async for piece in pieces:
                yield piece
    except UnreadableConversation:
        log.exception("conversation_unreadable", thread=str(turn.thread.pk))
        said.append(UNREADABLE)
        yield stream.text(UNREADABLE)
        return
    except Exception as error:
        log.exception("agent_failed", thread=str(turn.thread.pk))
        if said:
            said.append("\n\n" + BROKEN.format(error=type(error).__name__))
            yield stream.text(said[-1])
            return
    else:
        return
    said.append(WITHOUT_TOOLS)
    yield stream.text(WITHOUT_TOOLS)
    async with aclosing(_plain(model, prompt, said)) as pieces:
        async for piece in pieces:
            yield piece


async def _agent(
    model: BaseChatModel, turn: Turn, prompt: str, said: list[str]
) -> AsyncGenerator[str, None]:
    agent = make_agent(model, turn, await in_thread(offered_tools, turn))
    run: Any = agent.astream(
        {"messages": [HumanMessage(prompt)]},
        {"configurable": {"thread_id": str(turn.thread.pk)}, "recursion_limit": superstep_limit()},
        stream_mode=["messages", "custom"],
        durability="sync",
    )
    async with aclosing(run) as events:
        async for kind, event in events:
            if kind == "custom" and "event" in event:
                yield event["event"]
                continue
            text = event["text"] if kind == "custom" else _text_of(*event)
            if text:
                said.append(text)
                yield stream.text(text)


def _text_of(message: Any, metadata: Any) -> str:
    """Return the model's new text; earlier messages and results of tools pass here too."""
    return make_storable(message.text) if isinstance(message, AIMessageChunk) else ""


async def _plain(model: BaseChatModel, prompt: str, said: list[str]) -> AsyncGenerator[str, None]:
    try:
        async with aclosing(model.astream([SystemMessage(PLAIN), HumanMessage(prompt)])) as chunks:  # type: ignore[type-var]  # it is a generator
            async for chunk in chunks:
                if text := make_storable(chunk.text):
                    said.append(text)
                    yield stream.text(text)
    except Exception as error:  # each provider has its own exceptions; the reader gets one text
        log.exception("model_failed")
        said.append(BROKEN.format(error=type(error).__name__))
        yield stream.text(said[-1])


def _store_answer(thread: Thread, text: str) -> None:
    threads.store_answer(thread, text)
    threads.release(thread)
