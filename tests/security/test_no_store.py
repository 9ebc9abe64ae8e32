"""No response may be cached: the test requests every URL, so it covers a new one by itself."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.admindocs.views import simplify_regex
from django.contrib.auth import SESSION_KEY
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from accounts.models import Mailbox, User
from mailhub.middleware.no_store import CACHEABLE
from tests.conftest import Api
from tests.support.people.browser import browser

pytestmark = pytest.mark.django_db(transaction=True)
SAMPLES = {
    "uuid": "00000000-0000-0000-0000-000000000001",
    "int": "1",
    "str": "x",
    "slug": "x",
    "path": "x",
}


def every_path(resolver: Any = None, before: str = "") -> Iterator[tuple[str, str]]:
    """Yield the name and a path of each view in the URL configuration."""
    for each in (resolver or get_resolver()).url_patterns:
        route = before + simplify_regex(str(each.pattern)).removeprefix("/")
        if isinstance(each, URLResolver):
            yield from every_path(each, route)
        elif isinstance(each, URLPattern):
            for name, converter in each.pattern.converters.items():
                sample = SAMPLES.get(
                    type(converter).__name__.removesuffix("Converter").lower(), "x"
                )
                route = re.sub(rf"<(\w+:)?{name}>", sample, route)
            yield each.name or "", "/" + re.sub(r"<[^>]+>", "1", route)


def test_no_response_to_a_person_or_program_is_stored(
    alice: User, mailbox: Mailbox, api: Api
) -> None:
    alice.is_staff = alice.is_superuser = True
    alice.save()
    paths = [(name, path) for name, path in every_path() if name not in CACHEABLE]
    assert len(paths) > 200
    stored = []
    person, stranger = browser(alice), Client()
    program = Client(
        headers={"Authorization": f"Bearer {api.secret}"}, raise_request_exception=False
    )
    for _, path in paths:
        if SESSION_KEY not in person.session:  # one of the paths signs out
            person = browser(alice)
        for client in (person, program, stranger):
            answer = client.get(path)
            if "no-store" not in answer.get("Cache-Control", ""):
                stored.append((path, answer.status_code))
    assert stored == []


def test_page_with_a_rotated_token_is_not_stored(alice: User, mailbox: Mailbox, api: Api) -> None:
    token = alice.tokens.get()
    answer = browser(alice).post(f"/tokens/{token.pk}/rotate/")
    assert answer.context["secret"]
    assert "no-store" in answer["Cache-Control"]
