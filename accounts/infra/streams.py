"""Answers over ASGI: while a reader takes one, it holds no thread and no database connection.

asgiref keeps a thread for a request until its answer ends, and Django a database connection for the
thread. Without this, ten open answers would take all connections of a process.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar
from weakref import WeakSet

from asgiref.sync import SyncToAsync, sync_to_async
from django.db import close_old_connections
from django.http import StreamingHttpResponse
from django.utils.datastructures import CaseInsensitiveMapping

P = ParamSpec("P")
T = TypeVar("T")
Send = Callable[[Any], Awaitable[None]]

OF_PERSON = 20
OF_PROCESS = 500
PING_SECONDS = 15.0
PING = ": ping\n\n"  # a comment, which clients pass over


@dataclass(frozen=True, eq=False)
class Place:
    """The place of one stream: it is free when the stream ends or its last reference goes."""

    person_id: int


_taken: WeakSet[Place] = WeakSet()


def take_place(person_id: int) -> Place | None:
    """Return a place for one more stream of a person; None if the person or the process has no
    more.
    """
    people = [place.person_id for place in _taken]
    if len(people) >= OF_PROCESS or people.count(person_id) >= OF_PERSON:
        return None
    place = Place(person_id)
    _taken.add(place)
    return place


def stream(
    place: Place, pieces: AsyncGenerator[str, None], *, content_type: str
) -> StreamingHttpResponse:
    """Return server-sent events that are sent piece by piece, over ASGI.

    While no piece comes, pings keep proxies from ending the answer. If the reader disconnects,
    `pieces` is closed. It asks the database by `in_thread` only.
    """

    async def send() -> AsyncGenerator[str, None]:
        try:
            async with aclosing(_add_pings(pieces)) as pinged:
                async for piece in pinged:
                    yield piece
        finally:
            _taken.discard(place)

    headers = {"X-Accel-Buffering": "no", "Content-Encoding": "identity"}
    return StreamingHttpResponse(send(), content_type=content_type, headers=headers)


async def _add_pings(pieces: AsyncGenerator[str, None]) -> AsyncGenerator[str, None]:
    ready: asyncio.Queue[str | None] = asyncio.Queue()

    # One task asks for all pieces, as a time limit within them needs it.
    async def read() -> None:
        async with aclosing(pieces):
            async for piece in pieces:
                ready.put_nowait(piece)
                await ready.join()  # until the reader has taken it

    reading = asyncio.create_task(read())
    reading.add_done_callback(lambda _: ready.put_nowait(None))
    try:
        while True:
            try:
                piece = await asyncio.wait_for(ready.get(), PING_SECONDS)
            except TimeoutError:
                yield PING
                continue
            if piece is None:
                break
            yield piece
            ready.task_done()
        if not reading.cancelled():  # a time limit ended it while the reader took nothing
            await reading
    finally:
        reading.cancel()
        await asyncio.wait([reading])


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function that may ask the database, then give back its thread and connection."""
    try:
        return await sync_to_async(function)(*args, **kwargs)
    finally:
        release_thread()


def release_before_answer(send: Send) -> Send:
    """Return a `send` that calls `release_thread` before each answer: its reader may be slow, also
    with a short one behind others.
    """

    async def send_released(message: Any) -> None:
        if message["type"] == "http.response.start":
            release_thread()
        await send(message)

    return send_released


def read_headers(scope: Any) -> Mapping[str, str]:
    """Return the headers of an ASGI request, one text for each name in any case."""
    values = defaultdict[str, list[str]](list)
    for name, value in scope["headers"]:
        values[name.decode("latin-1")].append(value.decode("latin-1"))
    return CaseInsensitiveMapping({name: ",".join(several) for name, several in values.items()})


def add_headers(send: Send, headers_of: Callable[[int], Iterable[tuple[bytes, bytes]]]) -> Send:
    """Return a `send` that adds the headers for the status of the answer."""

    async def send_with_headers(message: Any) -> None:
        if message["type"] == "http.response.start":
            more = headers_of(message["status"])
            message = {**message, "headers": [*message.get("headers", ()), *more]}
        await send(message)

    return send_with_headers


def release_thread() -> None:
    """End the thread that asgiref keeps for this request, and let it return its database connection.

    The next call of `sync_to_async` begins another one. Nothing is awaited here: a reader who hangs up
    cancels what is awaited, and the pool would never get the connection of an ended thread back.
    """
    context = SyncToAsync.thread_sensitive_context.get(None)
    executor = SyncToAsync.context_to_thread_executor.pop(context, None) if context else None
    if executor is not None:
        executor.submit(close_old_connections)
        executor.shutdown(wait=False)
