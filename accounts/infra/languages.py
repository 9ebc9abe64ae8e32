"""The language in which a person reads the pages.

A person chooses one in their account; without a choice it is the language of the browser, which
Django's LocaleMiddleware has found before. Answers for programs are English.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import iscoroutinefunction
from typing import Any, Protocol

from asgiref.sync import sync_to_async
from django.conf import settings
from django.http import HttpRequest
from django.utils import translation
from django.utils.decorators import sync_and_async_middleware

FOR_PROGRAMS = ("/api/", "/mcp")
FOR_PEOPLE = ("/api/v1/docs",)


class Reader(Protocol):
    """A person with a chosen language, or "" for the language of the browser."""

    language: str


@contextmanager
def in_language_of(person: Reader) -> Iterator[None]:
    """Make texts for this person, for example for a mail that another person causes."""
    with translation.override(person.language or settings.LANGUAGE_CODE):
        yield


@sync_and_async_middleware
def in_their_language(answer: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Return middleware that shows pages in the language of the signed-in person's account."""
    if iscoroutinefunction(answer):

        async def respond_async(request: HttpRequest) -> Any:
            language = _language_of_path(request) or await sync_to_async(_language_of_account)(
                request
            )
            _activate(request, language)
            return await answer(request)

        return respond_async

    def respond(request: HttpRequest) -> Any:
        _activate(request, _language_of_path(request) or _language_of_account(request))
        return answer(request)

    return respond


def _language_of_path(request: HttpRequest) -> str:
    path = request.path_info
    for_programs = path.startswith(FOR_PROGRAMS) and path not in FOR_PEOPLE
    return settings.LANGUAGE_CODE if for_programs else ""


def _language_of_account(request: HttpRequest) -> str:
    return getattr(request.user, "language", "")


def _activate(request: HttpRequest, language: str) -> None:
    if language:
        translation.activate(language)
        request.LANGUAGE_CODE = translation.get_language()
