"""Every form of the product is classified: it needs a fresh sign-in, or says why not."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from django.urls.resolvers import RoutePattern

from accounts.models import User
from mailhub.middleware import step_up
from tests.support.people.browser import browser, with_cookies

pytestmark = pytest.mark.django_db(transaction=True)
OLD, NEW = "a long and quiet word", "quite another long password"
SAMPLES = {
    "uuid": "6f2d7d4e-1b7f-4c0e-9d55-7a4a5f6e2b10",
    "int": "7",
    "str": "sample",
    "path": "sample",
    "slug": "sample",
}
REGEX_SAMPLES = {
    r"^account/password/reset/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>.+)/$": "account/password/reset/1-sample/",
    r"^(?P<provider_id>[^/]+)/": "sso/",
}


def _path(pattern: Any) -> str | None:
    """Return an address that this part of a URL accepts, or None for a regular expression without a
    known sample.
    """
    if isinstance(pattern, RoutePattern):
        route = str(pattern)
        for name, converter in pattern.converters.items():
            kind = (
                type(converter).__name__.removesuffix("Converter").lower().replace("string", "str")
            )
            route = route.replace(f"<{kind}:{name}>", SAMPLES[kind]).replace(
                f"<{name}>", SAMPLES[kind]
            )
        return route
    return REGEX_SAMPLES.get(str(pattern), "" if str(pattern) in ("", "^") else None)


def walk(
    patterns: list[Any], path: str = "/", spaces: tuple[str, ...] = ()
) -> Iterator[tuple[str, str, Any]]:
    """Yield each URL name with an address of it and its view; URLs without a name, and catch-alls,
    are no forms.
    """
    for each in patterns:
        part = _path(each.pattern)
        if isinstance(each, URLResolver):
            inner = (*spaces, each.namespace) if each.namespace else spaces
            assert part is not None, f"no sample address for {each.pattern}"
            yield from walk(each.url_patterns, path + part, inner)
        elif (
            isinstance(each, URLPattern)
            and each.name
            and not str(each.pattern).startswith("^(?P<app_label>")
        ):
            assert part is not None, f"no sample address for {each.pattern}"
            yield ":".join((*spaces, each.name)), path + part, each.callback


ALL = {name: path for name, path, _ in walk(get_resolver().url_patterns)}


def takes_a_form(window: Client, path: str) -> bool:
    window.raise_request_exception = False
    return window.post(path).status_code != 405


@pytest.fixture
def operator(alice: User) -> User:
    User.objects.filter(pk=alice.pk).update(is_staff=True, is_superuser=True)
    return alice


def classified(name: str) -> bool:
    spaces = {*name.split(":")[:-1]}
    return bool(
        name in step_up.STEP_UP
        or name in step_up.HARMLESS
        or spaces & step_up.STEP_UP_NAMESPACES.keys()
        or spaces & step_up.HARMLESS_NAMESPACES.keys()
    )


def test_every_url_that_takes_a_form_is_classified(operator: User) -> None:
    missing = {
        name
        for name, path in ALL.items()
        if not classified(name) and takes_a_form(browser(operator), path)
    }
    assert not missing, (
        "put each into STEP_UP of mailhub/middleware/step_up.py, or into HARMLESS with the reason"
    )


def test_tables_name_only_existing_urls_once() -> None:
    named = [*step_up.STEP_UP, *step_up.HARMLESS]
    assert set(named) <= ALL.keys()
    assert len(named) == len(set(named))
    spaces = {space for name in ALL for space in name.split(":")[:-1]}
    assert step_up.STEP_UP_NAMESPACES.keys() | step_up.HARMLESS_NAMESPACES.keys() <= spaces
    assert all(
        reason.endswith(".")
        for reason in (*step_up.HARMLESS.values(), *step_up.HARMLESS_NAMESPACES.values())
    )


@pytest.mark.parametrize("name", sorted(step_up.STEP_UP))
def test_old_session_must_step_up_and_a_stranger_sign_in(name: str, operator: User) -> None:
    path, ask = ALL[name], step_up.STEP_UP[name]
    stale = browser(operator, fresh=False)
    answers: list[Any] = [stale.post(path), *([stale.get(path)] if ask.looking else [])]
    assert all(answer["Location"].startswith("/sign-in/again/?next=") for answer in answers)
    anonymous = Client().post(path, follow=True)
    assert anonymous.status_code >= 400 or anonymous.request["PATH_INFO"] == "/sign-in/"


def test_every_admin_form_asks_an_old_session(operator: User) -> None:
    stale = browser(operator, fresh=False)
    forms = {
        name: path
        for name, path in ALL.items()
        if name.startswith("admin:") and name not in step_up.HARMLESS
    }
    assert len(forms) > 20
    for name, path in forms.items():
        assert stale.post(path)["Location"].startswith("/sign-in/again/?next="), name


def test_unclassified_form_asks_for_a_sign_in(
    operator: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that a view which is added without a line in the tables fails closed."""
    monkeypatch.delitem(step_up.HARMLESS, "save_view")
    assert browser(operator, fresh=False).post("/views/")["Location"].startswith("/sign-in/again/")
    assert browser(operator).post("/views/")["Location"].startswith("/?")


def test_only_the_librarys_pages_change_a_password_or_a_session(operator: User) -> None:
    """Post the words of each password form that is known, to every address."""
    operator.refresh_from_db()
    operator.set_password(OLD)
    operator.save()
    old = dict.fromkeys(("oldpassword", "old_password", "password"), OLD)
    new = dict.fromkeys(("password1", "password2", "new_password1", "new_password2"), NEW)
    changing, signed_in = set(), browser(operator).cookies
    for name, path in ALL.items():
        if name.startswith("admin:"):
            path = path.replace("sample", str(operator.pk))
        window = with_cookies(signed_in)
        window.raise_request_exception = False
        with transaction.atomic():
            before = window.cookies["sessionid"].value
            window.post(path, old | new | {"is_active": "on", "login": operator.email})
            now = User.objects.get(pk=operator.pk)
            if now.password != operator.password or window.cookies["sessionid"].value != before:
                changing.add(name)
            transaction.set_rollback(True)
    signs_out = {"sign_out", "account_logout", "admin:logout"}
    assert changing == {"account_change_password"} | signs_out
