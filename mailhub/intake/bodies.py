"""The ASGI middleware: it reads a body within its limits and passes it on complete.

Django's own handler reads every body before it looks at the address, without a limit and without a
deadline.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from http import HTTPStatus
from typing import Any

from asgiref.sync import ThreadSensitiveContext

from accounts.access.auth import ADMITTED
from accounts.infra.json_bodies import READ_BODY
from accounts.infra.problems import Problem
from accounts.infra.streams import add_headers, in_thread, read_headers
from mailhub.intake import rules
from mailhub.intake.admission import admit, needs_database
from mailhub.intake.answers import Refusal, refuse, report_fault
from mailhub.intake.rules import BODIES, Asked, too_large, too_slow

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Any, Any, Any], Awaitable[None]]


def limit_bodies(app: App) -> App:
    """Wrap an ASGI application: a body is admitted, limited and read before the application."""

    async def door(scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        try:
            asked = Asked.of(scope["path"], read_headers(scope))
            if not asked.has_body:
                await app(scope, receive, send)
                return
        except Problem as problem:
            await _answer(refuse(scope["path"], problem), receive, send)
            return
        # The thread that admits the caller is of this request.
        async with ThreadSensitiveContext(), AsyncExitStack() as stack:
            await _with_body(app, asked, scope, receive, send, stack)

    return door


async def _with_body(
    app: App, asked: Asked, scope: Any, receive: Receive, send: Send, stack: AsyncExitStack
) -> None:
    try:
        # The sender may be slow, so thread and database connection are given back.
        admitted = await in_thread(admit, asked) if needs_database(asked) else admit(asked)
        read = partial(_body, admitted.limit, receive, stack)
        if is_asked_by_app(asked):
            scope, send = {**scope, READ_BODY: read}, add_headers(send, _close_after_refusal)
        else:
            receive = await read(admitted.person_id)
    except Exception as error:
        problem = error if isinstance(error, Problem) else report_fault(error)
        await _answer(refuse(asked.path, problem, asked.origin), receive, send)
        return
    await app({**scope, ADMITTED: admitted.caller}, receive, send)


async def _body(
    limit: int, receive: Receive, stack: AsyncExitStack, person_id: int | None
) -> Receive:
    """Read a person's body within the limits; return a `receive` that passes it on complete.

    Raises Problem.
    """
    note = stack.enter_context(BODIES.hold(person_id))
    return _replay(await _read(receive, limit, note), receive)


def _close_after_refusal(status: int) -> list[tuple[bytes, bytes]]:
    """Return the header that closes a connection after a refusal: an unread body holds no resources."""
    return [(b"connection", b"close")] if status >= HTTPStatus.BAD_REQUEST else []


def is_asked_by_app(asked: Asked) -> bool:
    """Return True if the application admits the caller itself, and then requests the body."""
    return asked.path.rstrip("/") == "/mcp"


async def _read(receive: Receive, limit: int, note: Callable[[int], None]) -> bytes:
    """Return the whole body; raise Problem 400, 408, 413 or 503."""
    clock = asyncio.get_running_loop()
    began, received, pieces, more = clock.time(), 0, list[bytes](), True
    while more:
        try:
            async with asyncio.timeout_at(began + rules.seconds_for(received)):
                message = await receive()
        except TimeoutError:
            raise too_slow() from None
        if message["type"] == "http.disconnect":
            raise Problem(
                "invalid_input", "The request body ended before it was complete.", status=400
            )
        piece, more = message.get("body", b""), message.get("more_body", False)
        received += len(piece)
        if received > limit:
            raise too_large(limit)
        note(received)
        pieces.append(piece)
    return b"".join(pieces)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives the body as one message, and then the client's disconnect."""
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay


async def _answer(refusal: Refusal, receive: Receive, send: Send) -> None:
    """Send the answer, then read on for a moment: otherwise a client that is still sending would
    lose it to a reset.
    """
    headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in refusal.headers]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": refusal.content, "more_body": True})
    dropped = 0
    try:
        async with asyncio.timeout(rules.LINGER_SECONDS):
            while dropped < rules.LINGER_BYTES:
                async with asyncio.timeout(rules.LINGER_SILENCE_SECONDS):
                    message = await receive()
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    break
                dropped += len(message.get("body", b""))
    except TimeoutError:
        pass
    await send({"type": "http.response.body", "body": b"", "more_body": False})
