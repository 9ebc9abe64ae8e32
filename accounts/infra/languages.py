"""The language in which a person reads the pages.

A person chooses one in their account; without a choice it is the language of the browser, which
Django's LocaleMiddleware has found before. Answers for programs are English.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from django.conf import settings
from django.http import HttpRequest
from django.utils import translation

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


def in_their_language(answer: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Return middleware that shows pages in the language of the signed-in person's account."""

    def respond(request: HttpRequest) -> Any:
        if language := _language_of_path(request) or getattr(request.user, "language", ""):
            translation.activate(language)
            request.LANGUAGE_CODE = translation.get_language()
        return answer(request)

    return respond


def _language_of_path(request: HttpRequest) -> str:
    path = request.path_info
    for_programs = path.startswith(FOR_PROGRAMS) and path not in FOR_PEOPLE
    return settings.LANGUAGE_CODE if for_programs else ""
