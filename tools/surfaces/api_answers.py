"""Answers of `/api`: every error is a problem document, and every answer names quotas and request.

Views raise `Problem`. The middleware here covers what no view of ours answers: unknown addresses,
wrong methods, and errors of Django, of the router and of other middleware.
"""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase

from accounts.access.auth import caller_on
from accounts.access.rate_limits import rate_limit_headers
from accounts.access.request_log import request_id
from accounts.infra.problems import Problem, fault, unavailable

PROBLEM = "application/problem+json"
API = "/api/"
OF_THE_BODY = {"Content-Type", "Content-Length", "Content-Language", "ETag", "Location"}


def problem_response(request: HttpRequest, problem: Problem) -> HttpResponse:
    """Return the problem document for a refusal, with the headers that belong to it."""
    response = JsonResponse(
        problem.as_dict(request.path), status=problem.status, content_type=PROBLEM
    )
    if problem.retry_after is not None:
        response["Retry-After"] = str(problem.retry_after)
    for name, value in problem.headers.items():
        response[name] = value
    if problem.code == "unauthenticated" and "WWW-Authenticate" not in response:
        response["WWW-Authenticate"] = "Bearer"
    _add_headers(request, response)
    return response


def answer_with_problems(answer: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Return middleware that turns each error under `/api` into a problem document."""

    def respond(request: HttpRequest) -> Any:
        return _finish(request, answer(request))

    return respond


def _finish(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    path = request.path_info
    if not path.startswith(API) and path != API.rstrip("/"):
        return response
    # Django redirects an address without its last slash; the API has no address with one.
    moved = response.status_code == HTTPStatus.MOVED_PERMANENTLY
    if moved or (response.status_code >= 400 and response.get("Content-Type") != PROBLEM):
        found = problem_response(request, _problem_of(HTTPStatus.NOT_FOUND if moved else response))
        for name in response.headers.keys() - OF_THE_BODY:  # the others protect a browser
            found.headers.setdefault(name, response[name])
        return found
    _add_headers(request, response)
    return response


def _problem_of(response: HttpResponseBase | HTTPStatus) -> Problem:
    """Return the problem for an answer that no view of ours gave."""
    status = response if isinstance(response, HTTPStatus) else response.status_code
    if status == HTTPStatus.NOT_FOUND:
        return Problem(
            "not_found",
            "There is nothing at this address. See /api/v1/openapi.json for all of them.",
        )
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        return Problem("method_not_allowed", "Use one of the methods that the header Allow names.")
    if status == HTTPStatus.FORBIDDEN:
        return Problem("forbidden", "The server does not allow this request.")
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        return unavailable()
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return fault()
    return Problem("invalid_input", "The server cannot read this request.", status=status)


def _add_headers(request: HttpRequest, response: HttpResponseBase) -> None:
    """Add the remaining quotas that this request has counted for, and the id in the logs."""
    caller = caller_on(request)
    for name, value in rate_limit_headers(caller).items() if caller else ():
        response.headers.setdefault(name, value)
    if found := request_id():
        response["X-Request-ID"] = found
