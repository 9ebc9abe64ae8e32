"""The answer to a refused body: problem details for programs, a page for people."""

import json
from dataclasses import dataclass
from http import HTTPStatus
from uuid import uuid4

import structlog
from corsheaders.middleware import CorsMiddleware
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string

from accounts.infra.problems import Problem, fault

log = structlog.get_logger(__name__)
POLICY = "default-src 'none'; style-src 'self'; img-src 'self' data:; frame-ancestors 'none'"
PROGRAMS = ("/api/", "/ai/", "/mcp")


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A complete answer. The connection ends with it, because the body was not read."""

    status: int
    reason: str
    headers: list[tuple[str, str]]
    content: bytes


def refuse(path: str, problem: Problem, origin: str = "") -> Refusal:
    """Return the answer for a problem, and log it.

    `origin` is the origin of the script that asks, if a browser does.
    """
    request_id = str(uuid4())
    log.info(
        "request_refused",
        request_id=request_id,
        surface="door",
        status=problem.status,
        code=problem.code,
    )
    reason = HTTPStatus(problem.status).phrase
    if path.startswith(PROGRAMS):
        kind, text = "application/problem+json", json.dumps(problem.as_dict(path))
    else:
        kind, text = (
            "text/html; charset=utf-8",
            render_to_string("refused.html", {"reason": problem.detail}),
        )
    content = text.encode()
    headers = [
        ("Content-Type", kind),
        ("Content-Length", str(len(content))),
        ("Connection", "close"),
        ("Cache-Control", "no-store"),
        ("X-Content-Type-Options", "nosniff"),
        (
            "Content-Security-Policy",
            POLICY,
        ),
        ("X-Request-ID", request_id),
        *problem.headers.items(),
        *_for_origin(path, origin),
    ]
    if problem.retry_after is not None:
        headers.append(("Retry-After", str(problem.retry_after)))
    if problem.status == HTTPStatus.UNAUTHORIZED and "WWW-Authenticate" not in problem.headers:
        headers.append(("WWW-Authenticate", "Bearer"))
    return Refusal(status=problem.status, reason=reason, headers=headers, content=content)


def _for_origin(path: str, origin: str) -> list[tuple[str, str]]:
    """Return the headers that let a script of an allowed origin read the answer."""
    if not settings.CORS_ALLOWED_ORIGINS:
        return []
    request, response = HttpRequest(), HttpResponse()
    request.path_info, request.META["HTTP_ORIGIN"] = path, origin
    CorsMiddleware(lambda _: response)(request)
    return [pair for pair in response.items() if pair[0] != "Content-Type"]


def report_fault(error: Exception) -> Problem:
    log.error("request_failed", exc_info=error)
    return fault(error)
