"""Requests that wait until something happens to an action, over ASGI.

The wait comes before the answer: a short query finds out whether there is something to wait for,
and then the request costs only a small object in the event loop. The live hub wakes it up, and the
usual code answers, which checks the caller again.
"""

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

import structlog
from asgiref.sync import sync_to_async
from django.db import close_old_connections

from accounts.access.auth import ADMITTED, caller_of_token, secret_of
from accounts.access.caller import Caller
from accounts.infra.foreign_text import parse_number
from accounts.infra.json_bodies import parse_json
from accounts.infra.problems import Problem
from accounts.infra.streams import add_headers, read_headers
from approvals.audit.feed import last_event, last_event_of
from approvals.gate import find
from approvals.live.hub import HUB, Waiter
from approvals.reports.steps import has_news
from tools.catalog.arguments import rename
from tools.catalog.entries import TOOLS

log = structlog.get_logger(__name__)

MOST_SECONDS = 60
TOOL = TOOLS["get_action"]
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Any, Any, Any], Awaitable[None]]
_ADDRESS = re.compile(r"/api/v1/actions/([0-9A-Fa-f-]{32,36})")
_ADDRESS_OF_TOOL = f"/api/v1/tools/{TOOL.name}"
_LONGEST_BODY = 1000  # of a question for an action; this runs on the event loop
_PREFERRED = re.compile(r'(?:\A|[,;])\s*wait\s*=\s*"?([0-9]{1,9})"?\s*(?=[,;]|\Z)', re.IGNORECASE)
# Few threads, and so few database connections, for the questions of all waiting requests.
_questions = ThreadPoolExecutor(4, thread_name_prefix="waiting")


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The wait that a request asks for; `preferred` if it asks by `Prefer` (RFC 7240)."""

    action_id: str
    seconds: int
    preferred: bool


def wait_for_news(app: App) -> App:
    """Wrap an ASGI application: `GET /api/v1/actions/{id}?wait=` and the tool `get_action` wait."""

    async def door(scope: Any, receive: Receive, send: Send) -> None:
        wanted = _wanted(scope)
        if wanted is None and _calls_tool(scope):
            body = await receive()  # one message: `limit_bodies` has read it
            wanted, receive = _wanted_in(body), _put_before(body, receive)
        if wanted is None:
            await app(scope, receive, send)
            return
        secret = secret_of(read_headers(scope))
        waiter = await _in_few_threads(_begin_with_token, secret, wanted.action_id)
        if wanted.preferred:
            applied = (b"preference-applied", f"wait={wanted.seconds}".encode())
            send = add_headers(send, lambda status: [applied])
        if waiter is None:
            await app(scope, receive, send)
            return
        first, gone = await receive(), asyncio.ensure_future(receive())
        try:
            await _wait_or_leave(waiter, wanted.seconds, gone)
            # The caller of before the wait, found for a request with a body, does not count now.
            await app({**scope, ADMITTED: None}, _replay(first, gone), send)
        finally:
            gone.cancel()

    return door


def begin(caller: Caller, action_id: str, loop: asyncio.AbstractEventLoop) -> Waiter | None:
    """Register a wait for the next event of the caller's action.

    Return None if the answer is given at once: there is no such action, nothing to wait for, or too
    many wait already.
    """
    if not caller.may(TOOL.scope):
        return None
    action = find.find(find.of_caller(caller), action_id)
    if action is None:
        return None
    after = last_event_of(action.pk)
    waiter = Waiter(
        person_id=caller.user.pk,
        action_id=action.pk,
        after=after,
        loop=loop,
        happened=asyncio.Event(),
    )
    if not HUB.add_waiter(waiter, floor=last_event()):
        return None
    if has_news(action.pk):
        HUB.remove_waiter(waiter)
        return None
    return waiter


async def wait(waiter: Waiter, seconds: float) -> None:
    """Return at the next event of the action, or after these seconds."""
    try:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(waiter.happened.wait(), seconds)
    finally:
        HUB.remove_waiter(waiter)


def _wanted(scope: Any) -> Wanted | None:
    if scope["type"] != "http" or scope["method"] != "GET":
        return None
    address = _ADDRESS.fullmatch(scope["path"])
    if address is None:
        return None
    asked = parse_qs(scope["query_string"].decode("latin-1")).get("wait")
    if asked is not None:
        # A wrong value is refused by the tool, and a parameter has the last word over a header.
        seconds = parse_number(asked[-1], digits=2) or 0
        found = Wanted(action_id=address[1], seconds=seconds, preferred=False)
        return found if 0 < seconds <= MOST_SECONDS else None
    preferred = _PREFERRED.search(read_headers(scope).get("Prefer", ""))
    if preferred is None or int(preferred[1]) == 0:
        return None
    seconds = min(int(preferred[1]), MOST_SECONDS)
    return Wanted(action_id=address[1], seconds=seconds, preferred=True)


def _calls_tool(scope: Any) -> bool:
    asked = (scope["type"], scope.get("method"), scope.get("path"))
    return asked == ("http", "POST", _ADDRESS_OF_TOOL)


def _wanted_in(body: Message) -> Wanted | None:
    """Return the wait that the tool's arguments ask for. The tool refuses wrong arguments."""
    content = body.get("body", b"")
    try:
        given = parse_json(content) if len(content) <= _LONGEST_BODY else None
    except Problem:
        return None
    arguments = rename(TOOL.parameters, given) if isinstance(given, dict) else {}
    action_id, seconds = arguments.get("action_id"), arguments.get("wait")
    if not isinstance(action_id, str) or type(seconds) is not int:
        return None
    wanted = Wanted(action_id=action_id, seconds=seconds, preferred=False)
    return wanted if 0 < seconds <= MOST_SECONDS else None


async def _in_few_threads(
    function: Callable[[str, str, asyncio.AbstractEventLoop], Waiter | None],
    secret: str,
    action_id: str,
) -> Waiter | None:
    """Call the function in one of a few shared threads, not in a thread of this request."""
    return await sync_to_async(function, thread_sensitive=False, executor=_questions)(
        secret, action_id, asyncio.get_running_loop()
    )


def _begin_with_token(
    secret: str, action_id: str, loop: asyncio.AbstractEventLoop
) -> Waiter | None:
    close_old_connections()
    try:
        return begin(caller_of_token(secret, surface="rest"), action_id, loop)
    except Problem:  # the answer says so
        return None
    except Exception:  # the database is away: nobody waits, and the answer says so
        log.exception("wait_failed")
        return None
    finally:
        close_old_connections()


async def _wait_or_leave(waiter: Waiter, seconds: float, gone: asyncio.Future[Message]) -> None:
    """Wait, and end early if the client hangs up."""
    news = asyncio.ensure_future(wait(waiter, seconds))
    both: set[asyncio.Future[Any]] = {gone, news}
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    finally:
        news.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await news


def _replay(first: Message, gone: asyncio.Future[Message]) -> Receive:
    """Return a `receive` that gives the request, and then the client's disconnect."""
    return _put_before(first, lambda: asyncio.shield(gone))


def _put_before(first: Message, receive: Receive) -> Receive:
    waiting = [first]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay
