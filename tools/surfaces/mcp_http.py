"""MCP over streamable HTTP: one POST, one JSON answer; the caller and the body are checked first."""

import json
from uuid import uuid4

import structlog
from asgiref.sync import ThreadSensitiveContext
from django.conf import settings
from django.http.request import split_domain_port, validate_host
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from accounts.access.audience import lacks_scope
from accounts.access.auth import caller_of_token, secret_of
from accounts.access.caller import Caller
from accounts.access.rate_limits import rate_limit_headers
from accounts.infra.foreign_text import load_json, parse_url
from accounts.infra.json_bodies import READ_BODY, check_json
from accounts.infra.problems import Problem
from accounts.infra.streams import add_headers, in_thread, release_thread
from tools.catalog.entries import TOOLS
from tools.surfaces.mcp import Context, Visit, make_server, report_fault, toolsets_of

log = structlog.get_logger(__name__)

PATH = "/mcp"


def _visit_of(context: Context) -> Visit:
    request: Request = context.request  # type: ignore[assignment]  # there is always one on HTTP
    visit: Visit = request.state.visit
    return visit


_http_server = make_server(_visit_of)


async def http_app(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve `/mcp`, an ASGI application: one POST, one JSON answer; cookies are ignored."""
    # One thread, and so one database connection, from the body to the answer, like Django's
    # requests.
    async with ThreadSensitiveContext():
        try:
            with structlog.contextvars.bound_contextvars(request_id=str(uuid4())):
                await _serve(scope, receive, send)
        finally:
            release_thread()


async def _serve(scope: Scope, receive: Receive, send: Send) -> None:
    request = Request(scope)
    try:
        visit = await _admit(request)
        receive = await _check_body(scope, receive, visit.caller())
    except Problem as problem:
        log.info(
            "request_refused",
            surface="mcp",
            method=request.method,
            status=problem.status,
            code=problem.code,
        )
        await _refusal(problem)(scope, receive, send)
        return
    except Exception as error:
        await _refusal(report_fault(error))(scope, receive, send)
        return
    # A manager is for sessions, which we do not have. One for each request needs no startup or
    # shutdown hook of the process, which Django does not have. Host and Origin have been checked
    # already.
    manager = StreamableHTTPSessionManager(
        _http_server,
        stateless=True,
        json_response=True,
        max_request_body_size=settings.DATA_UPLOAD_MAX_MEMORY_SIZE,
    )
    async with manager.run():
        await manager.handle_request(
            _pass_on(scope, visit),
            receive,
            add_headers(send, lambda _: _list_limits(visit.caller())),
        )


async def _check_body(scope: Scope, receive: Receive, caller: Caller) -> Receive:
    """Read the body within the admission limits and check its shape and the scope it needs; raise
    Problem.
    """
    read_body = scope.get(READ_BODY)
    if read_body is None:
        return receive
    replay: Receive = await read_body(caller.user.pk)
    message = await replay()
    body = message.get("body", b"")
    check_json(body)
    _check_scope(caller, body)
    waiting = [message]

    async def receive_again() -> Message:
        return waiting.pop() if waiting else await replay()

    return receive_again


def _check_scope(caller: Caller, body: bytes) -> None:
    """Refuse a call whose scope a connected program lacks; raise Problem `forbidden`.

    Its client asks the person for more when the HTTP status is 403 (step-up authorization), which a
    result inside the protocol cannot tell. A person's own token has no such way: it gets a result.
    """
    if caller.token is None or caller.token.client_id is None:
        return
    try:
        asked = load_json(body)
        name = asked["params"]["name"] if asked["method"] == "tools/call" else ""
        tool = TOOLS.get(name)
    except (ValueError, KeyError, TypeError):
        return  # the library answers what is no request
    if tool is not None and not caller.may(tool.scope):
        raise lacks_scope(caller.surface, held=caller.scopes, needed=tool.scope)


def _list_limits(caller: Caller) -> list[tuple[bytes, bytes]]:
    fields = rate_limit_headers(caller)
    return [(name.lower().encode(), value.encode()) for name, value in fields.items()]


def _pass_on(scope: Scope, visit: Visit) -> Scope:
    # RFC 9110, 5.5: white space around a value is not part of it. The library compares unstripped
    # values.
    headers = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
    if all(name != b"accept" for name, _ in headers):
        headers.append((b"accept", b"*/*"))  # RFC 9110, 12.5.1: no Accept means any type
    return {**scope, "headers": headers, "state": {"visit": visit}}


async def _admit(request: Request) -> Visit:
    _check_site(request)
    if request.method != "POST":  # there is no stream to read and no session to end
        raise Problem("method_not_allowed", "Send MCP requests by POST.")
    toolsets = toolsets_of(request.query_params.get("toolsets"))
    secret = secret_of(request.headers)
    # The body may be slow: it is awaited without a thread and a database connection.
    caller = await in_thread(caller_of_token, secret, surface="mcp")
    return Visit(
        caller=lambda: caller,
        again=lambda: caller_of_token(secret, surface="mcp"),
        toolsets=toolsets,
    )


def _check_site(request: Request) -> None:
    """Refuse foreign hosts and origins; raise Problem.

    A foreign page whose name resolves to our address (DNS rebinding) is recognised by Host or
    Origin. The allowed names are Django's, with any port, so that both entrances have the same
    rule.
    """
    host, _ = split_domain_port(request.headers.get("Host", ""))
    if not host or not validate_host(host, settings.ALLOWED_HOSTS):
        raise Problem("forbidden", "This server does not answer to that host name.")
    origin = request.headers.get("Origin")
    if origin is not None and not validate_host(_host_of(origin), settings.ALLOWED_HOSTS):
        raise Problem("forbidden", "Requests from this origin are not allowed.")


def _host_of(origin: str) -> str:
    try:
        return split_domain_port(parse_url(origin).netloc)[0]
    except ValueError:
        return ""


def _refusal(problem: Problem) -> Response:
    headers = {405: {"Allow": "POST"}, 401: {"WWW-Authenticate": "Bearer"}}.get(
        problem.status, {}
    ) | problem.headers
    if problem.retry_after is not None:
        headers["Retry-After"] = str(problem.retry_after)
    body = json.dumps(problem.as_dict(PATH))
    return Response(
        body, status_code=problem.status, headers=headers, media_type="application/problem+json"
    )
