"""The check of a request's address, query, cookies and form, before any other code reads them.

Bodies in JSON are checked by `accounts.infra.json_bodies`.
"""

from collections.abc import Callable, Iterable
from typing import Any

from django.core.exceptions import BadRequest
from django.http import HttpRequest, QueryDict

from accounts.infra.foreign_text import is_broken, parse_url
from accounts.infra.json_bodies import parse_json
from accounts.infra.problems import Problem

PROGRAMS = ("/api/", "/ai/")  # their bodies are JSON, whatever type a program declares
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
# Django reads a form by any codec of Python that it names: `punycode` takes minutes for a megabyte,
# and some are for no text.
CHARSETS = ("utf-8", "utf8", "us-ascii", "iso-8859-1")
# Fields that the library parses without a guard: a passkey's JSON, and the address to return to.
CREDENTIAL, BACK = "credential", "next"


def refuse_broken_text(answer: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Return middleware that answers 400 to text that no database can hold."""

    def respond(request: HttpRequest) -> Any:
        check_head(request)
        if has_form(request):
            check_form(request)
        return answer(request)

    return respond


def has_form(request: HttpRequest) -> bool:
    return (
        request.method == "POST"
        and request.content_type in FORMS
        and not request.path_info.startswith(PROGRAMS)
    )


def check_head(request: HttpRequest) -> None:
    """Raise BadRequest for a broken address, query or cookie, or a form in an unusual charset."""
    if request.content_type in FORMS and (request.encoding or "utf-8").lower() not in CHARSETS:
        raise BadRequest("The charset of a form must be UTF-8.")
    _check([request.path_info, *request.COOKIES.values()])
    _check_fields(request.GET)


def check_form(request: HttpRequest) -> None:
    """Raise BadRequest if a field or the name of a file has a broken text."""
    _check(each.name or "" for _, several in request.FILES.lists() for each in several)
    _check_fields(request.POST)


def _check_fields(fields: QueryDict) -> None:
    for name, several in fields.lists():
        _check([name, *several])
    try:
        for text in filter(
            None, fields.getlist(CREDENTIAL)
        ):  # a page without a passkey leaves it empty
            parse_json(text.encode())
        for text in fields.getlist(BACK):
            parse_url(text)
    except (Problem, ValueError):
        raise BadRequest("A passkey or an address in the request cannot be read.") from None


def _check(texts: Iterable[str]) -> None:
    if any(map(is_broken, texts)):
        raise BadRequest("A text in the request has a NUL or an unpaired surrogate.")
