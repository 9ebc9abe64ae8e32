"""The language of pages, and of texts that are stored in English."""

import json
from typing import Any

import pytest
from django.conf import settings
from django.core import mail
from django.template import Context, Template
from django.test import Client
from django.utils import translation

from accounts.infra.texts import (
    dump_texts,
    join,
    load_texts,
    ntranslatable,
    translatable,
    without_sources,
)
from accounts.models import User
from accounts.people.recovery import mail_rights
from approvals.core.types import PreviewWarning
from tests.conftest import HELLO, Api, Reviewer

# Texts that Django itself translates, so that these tests do not follow our words.
REQUIRED, GERMAN = "This field is required.", "Dieses Feld ist zwingend erforderlich."


def language_of(answer: Any) -> str:
    return str(answer.content.decode().split('<html lang="', 1)[1].split('"', 1)[0])


def rendered(value: Any) -> str:
    return Template("{{ value }}").render(Context({"value": value}))


def test_text_is_english_for_programs_and_translated_in_html() -> None:
    text = translatable(REQUIRED)
    with translation.override("de"):
        assert json.dumps(text) == json.dumps(REQUIRED)
        assert (str(text), rendered(text)) == (REQUIRED, GERMAN)
    assert rendered(text) == REQUIRED


def test_values_are_escaped_in_html() -> None:
    text = translatable("Hello %(name)s.", name="<b>")
    assert (text, rendered(text)) == ("Hello <b>.", "Hello &lt;b&gt;.")


def test_percent_sign_without_values_is_kept() -> None:
    assert rendered(translatable("100% sure")) == translatable("100% sure") == "100% sure"


@pytest.mark.parametrize(("count", "english"), [(1, "1 byte."), (2, "2 bytes.")])
def test_stored_text_is_translated_when_it_is_read(count: int, english: str) -> None:
    text = join(ntranslatable("%(count)s byte.", "%(count)s bytes.", count), translatable(REQUIRED))
    kept = json.loads(json.dumps({"code": "size", **dump_texts(detail=text, title="")}))
    assert without_sources(kept) == {"code": "size", "detail": f"{english} {REQUIRED}", "title": ""}
    with translation.override("de"):
        assert rendered(load_texts(kept)["detail"]) == f"{english} {GERMAN}"


def test_row_without_sources_is_shown_in_english_or_translated() -> None:
    old = {"code": "x", "detail": "An older sentence."}
    with translation.override("de"):
        assert rendered(load_texts(old)["detail"]) == "An older sentence."
        assert rendered(load_texts({"detail": REQUIRED})["detail"]) == GERMAN
        assert rendered(load_texts({"detail": ""})["detail"]) == ""


def test_text_without_values_stores_nothing_more() -> None:
    warning = PreviewWarning(code="x", title=translatable("Look."), text=translatable("Now."))
    assert warning.as_json() == {
        "code": "x", "title": "Look.", "text": "Now.", "severity": "notice", "mark": "",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "shown"),
    [("de-AT,de;q=0.9", "de"), ("zh-CN", "zh-hans"), ("zh-TW", "zh-hans"), ("fr,en;q=0.5", "en")],
)
@pytest.mark.django_db
def test_page_follows_the_browser(asked: str, shown: str) -> None:
    answer = Client().get("/sign-in/", headers={"Accept-Language": asked})
    assert (language_of(answer), answer["Content-Language"]) == (shown, shown)
    assert "Accept-Language" in answer["Vary"]


@pytest.mark.parametrize("code", [code for code, _ in settings.LANGUAGES])
@pytest.mark.django_db
def test_account_prevails_over_the_browser(code: str, reviewer: Reviewer) -> None:
    page = reviewer.client.get("/account/").content.decode()
    assert 'action="/account/language/"' in page
    token = reviewer.client.cookies["csrftoken"].value
    form = {"language": code, "csrfmiddlewaretoken": token}
    answer = reviewer.client.post("/account/language/", form, headers={"Accept-Language": "fr"})
    assert answer.status_code == 302
    answer = reviewer.client.get("/account/", headers={"Accept-Language": "de"})
    assert language_of(answer) == code
    assert f'value="{code}" selected' in answer.content.decode()


@pytest.mark.django_db
def test_unknown_language_is_refused(reviewer: Reviewer, alice: User) -> None:
    reviewer.client.get("/account/")
    token = reviewer.client.cookies["csrftoken"].value
    form = {"language": "xx", "csrfmiddlewaretoken": token}
    reviewer.client.post("/account/language/", form)
    alice.refresh_from_db()
    assert alice.language == ""


@pytest.mark.django_db
def test_programs_get_english(api: Api, alice: User) -> None:
    alice.language = "de"
    alice.save()
    answer = api.get("/actions/00000000-0000-0000-0000-000000000000", **{"Accept-Language": "de"})
    assert (answer.status_code, answer["Content-Language"]) == (404, "en")


@pytest.mark.django_db
def test_mail_is_in_the_language_of_its_reader(alice: User, settings: Any) -> None:
    settings.SENDS_MAIL = True
    subjects = set()
    for code in ("", "de", "zh-hans"):
        alice.language = code
        with translation.override("fr"):
            assert mail_rights(alice)
        subjects.add(mail.outbox[-1].subject)
    assert len(subjects) == 3


@pytest.mark.parametrize("body", ["short", "long " * 20_000])
@pytest.mark.django_db(transaction=True)
def test_warning_of_any_mail_is_shown_in_the_readers_language(
    api: Api, reviewer: Reviewer, body: str
) -> None:
    answer = api.tool("send_email", **{**HELLO, "body": body, "confirm": True}).json()
    action_id = answer["action"]["id"]
    assert "northwind.example is not one of your domains" in answer["warnings"][-1]["text"]
    page = reviewer.client.get(f"/actions/{action_id}/", headers={"Accept-Language": "de"})
    assert "northwind.example ist keine Ihrer Domains" in page.content.decode()
