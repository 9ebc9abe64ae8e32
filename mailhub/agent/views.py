"""The chat: two streams for programs and people, and the page.

Heavy modules are imported at the first question.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from importlib import import_module
from typing import Any
from uuid import UUID, uuid4

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.middleware.csrf import CsrfViewMiddleware
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.csrf import csrf_exempt
from pydantic import BaseModel, Field, ValidationError

from accounts.access import rate_limits
from accounts.access.auth import caller_of_bearer, caller_of_session
from accounts.access.caller import Caller
from accounts.access.roles import get_mailbox
from accounts.access.signed_in import AuthenticatedRequest, signed_in_action, signed_in_page
from accounts.infra import streams
from accounts.infra.foreign_text import Line
from accounts.infra.json_bodies import read_json
from accounts.infra.problems import Problem, invalid
from accounts.models import Role, User
from accounts.people.sessions import stored_key
from approvals.gate import find
from mailhub.agent import stream, threads
from mailhub.agent.models import Message, Thread, ToolCall
from mailhub.agent.policy import MODES, Mode, check_may_chat
from tools.surfaces.api_answers import problem_response

PROMPT_CHARS = 20_000
SHOWN_THREADS = 30
SHOWN_MESSAGES = 200
SHOWN_CALLS = 100
EMPTY = "⚠️ The prompt is empty. Write what you would like to know."
LONG = f"⚠️ The prompt has more than {PROMPT_CHARS:,} characters. Shorten it, or point to a mail or a file instead."
OFF = "⚠️ The agent is switched off on this server (AGENT_ENABLE=0)."


class Asked(BaseModel):
    prompt: str
    threadId: Line | None = Field(None, max_length=100)  # the contract's name
    mode: Mode | None = None


# Exempt because of bearer tokens, which no browser sends by itself; `_caller` checks sessions.
@csrf_exempt
async def agent_stream(request: HttpRequest) -> HttpResponseBase:
    """Answer POST /ai/agent/stream."""
    try:
        caller = await sync_to_async(_caller)(request)
        asked = _parse_request(request)
        place = _take_place(caller)
        await sync_to_async(rate_limits.count_chat)(caller)
        if text := _refusal_of(asked):
            return _stream(caller, place, _stream_text(text))
        name = (asked.threadId or "").strip()  # it goes into a header
        thread = await sync_to_async(threads.open_thread)(caller, name)
    except Problem as problem:
        return problem_response(request, problem)
    answering = await _load_answering()
    mode = asked.mode or settings.AGENT_DEFAULT_MODE
    answer = answering.agent_answer(caller=caller, thread=thread, prompt=asked.prompt, mode=mode)
    response = _stream(caller, place, answer)
    response["X-Thread-Id"] = thread.name
    return response


@csrf_exempt
async def plain_stream(request: HttpRequest) -> HttpResponseBase:
    """Answer POST /ai/stream."""
    try:
        caller = await sync_to_async(_caller)(request)
        asked = _parse_request(request)
        place = _take_place(caller)
        await sync_to_async(rate_limits.count_chat)(caller)
    except Problem as problem:
        return problem_response(request, problem)
    if text := _refusal_of(asked):
        return _stream(caller, place, _stream_text(text))
    return _stream(caller, place, (await _load_answering()).plain_answer(asked.prompt))


async def _load_answering() -> Any:
    # The libraries take 56 MB and two seconds. They are loaded in a thread, so that other requests
    # continue.
    return await asyncio.to_thread(import_module, "mailhub.agent.answering")


def _stream(
    caller: Caller, place: streams.Place, pieces: AsyncGenerator[str, None]
) -> StreamingHttpResponse:
    async def add_end() -> AsyncGenerator[str, None]:
        async with aclosing(pieces):  # the run stops when the reader disconnects
            async for piece in pieces:
                yield piece
            yield stream.END

    response = streams.stream(place, add_end(), content_type=stream.CONTENT_TYPE)
    for name, value in rate_limits.rate_limit_headers(caller).items():
        response[name] = value
    return response


def _take_place(caller: Caller) -> streams.Place:
    place = streams.take_place(caller.user.pk)
    if place is None:
        raise Problem(
            "rate_limited", "Too many answers are open. Close one, then ask again.", retry_after=10
        )
    return place


async def _stream_text(text: str) -> AsyncGenerator[str, None]:
    yield stream.text(text)


def _refusal_of(asked: Asked) -> str:
    if not settings.AGENT_ENABLE:
        return OFF
    if not asked.prompt.strip():
        return EMPTY
    return LONG if len(asked.prompt) > PROMPT_CHARS else ""


def _caller(request: HttpRequest) -> Caller:
    """Return the caller by bearer token, or by session with its CSRF token; raise Problem."""
    if request.method != "POST":
        raise Problem("method_not_allowed", "Use POST.", headers={"Allow": "POST"})
    if "Authorization" in request.headers or "X-API-Key" in request.headers:
        caller = caller_of_bearer(request, surface="agent")
        check_may_chat(caller)
        return caller
    refusal = CsrfViewMiddleware(lambda _: HttpResponse()).process_view(
        request, _not_exempt, (), {}
    )
    if not request.user.is_authenticated:
        raise Problem("unauthenticated", "Sign in, or send a token.")
    if refusal is not None:
        raise Problem("forbidden", "The CSRF token is missing or wrong.")
    return Caller.chat_of(request.user, session=stored_key(request.session.session_key or ""))


def _not_exempt(request: HttpRequest) -> HttpResponse:
    raise NotImplementedError


def _parse_request(request: HttpRequest) -> Asked:
    try:
        return Asked.model_validate(read_json(request))
    except ValidationError as error:
        raise invalid(error, Asked) from None


@signed_in_page
def page(request: AuthenticatedRequest, thread_id: UUID | None = None) -> HttpResponse:
    """Return the chat, with one thread open or a new one."""
    person = request.user
    mine = threads.of_caller(Caller.chat_of(request.user))
    thread = get_object_or_404(mine, pk=thread_id) if thread_id else None
    return render(
        request,
        "agent/chat.html",
        {
            "thread": thread,
            "thread_name": thread.name if thread else str(uuid4()),
            "threads": mine.exclude(title="")[:SHOWN_THREADS],
            "messages_shown": _messages(thread) if thread else [],
            "actions": _actions(person, thread) if thread else [],
            "modes": MODES,
            "mode": settings.AGENT_DEFAULT_MODE,
            "enabled": settings.AGENT_ENABLE,
            "has_model": bool(
                settings.AGENT_MODEL or settings.AI_DESTINATION_NAME or settings.AI_MODEL_NAME
            ),
            "prompt_chars": PROMPT_CHARS,
        },
    )


@signed_in_page
def talk(request: AuthenticatedRequest, name: str) -> HttpResponse:
    """Return the thread's messages and the list of threads, as two parts of the page."""
    mine = threads.of_caller(Caller.chat_of(request.user))
    thread = get_object_or_404(mine, name=name)
    context = {
        "thread": thread,
        "threads": mine.exclude(title="")[:SHOWN_THREADS],
        "messages_shown": _messages(thread),
    }
    return render(request, "agent/parts.html", context)


@signed_in_page
def cards(request: AuthenticatedRequest, name: str) -> HttpResponse:
    """Return the thread's pending actions in their present state, as a part of the page."""
    thread = get_object_or_404(threads.of_caller(Caller.chat_of(request.user)), name=name)
    return render(request, "agent/cards.html", {"actions": _actions(request.user, thread)})


@signed_in_action
def forget(request: AuthenticatedRequest, thread_id: UUID) -> HttpResponse:
    """Delete a thread and its content; its proposals and the record of its calls stay."""
    get_object_or_404(threads.of_caller(Caller.chat_of(request.user)), pk=thread_id).delete()
    return redirect("agent")


@signed_in_page
def calls(request: AuthenticatedRequest, mailbox_id: UUID) -> HttpResponse:
    """Return the calls of everybody's chat on a mailbox, for its managers."""
    try:
        mailbox = get_mailbox(caller_of_session(request), str(mailbox_id), need=Role.MANAGER)
    except Problem as problem:
        if problem.code == "not_found":
            raise Http404 from None
        return render(request, "tools/refused.html", {"problem": problem}, status=problem.status)
    found = ToolCall.objects.filter(mailbox=mailbox).select_related("user").order_by("-at", "-id")
    page = Paginator(found, SHOWN_CALLS).get_page(request.GET.get("page"))
    return render(request, "agent/calls.html", {"mailbox": mailbox, "page": page})


def _messages(thread: Thread) -> list[Message]:
    return list(reversed(thread.messages.order_by("-id")[:SHOWN_MESSAGES]))


def _actions(person: User, thread: Thread) -> list[Any]:
    ids = thread.messages.exclude(action_id=None).values_list("action_id", flat=True)
    return list(
        find.with_preview(find.visible_to(person).filter(pk__in=list(ids))).order_by("created_at")
    )
