"""Every text that people read exists in every language of the settings."""

import gettext
import shutil
import subprocess
from contextlib import chdir
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as project
from django.core.management import call_command
from django.test import override_settings
from django.utils import timezone
from django.utils.translation import override, to_locale

from approvals.templatetags.moments import since, until

pytestmark = pytest.mark.static
ROOT = Path(__file__).parent.parent.parent
CATALOGS = ROOT / "mailhub" / "locale"
LOCALES = [to_locale(code) for code, _ in project.LANGUAGES if code != project.LANGUAGE_CODE]
# "locale": otherwise the copied files would be written, not those of the test.
IGNORED = (".*", "__pycache__", "var", "tests", "node_modules", "test-output", "locale")
NO_FINDINGS = ""


def run(*command: str | Path) -> str:
    """Return what a program of GNU gettext prints; it prints its findings to both streams."""
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, text=True
    )
    return done.stdout


def catalog(locale: str, suffix: str = "po") -> Path:
    return CATALOGS / locale / "LC_MESSAGES" / f"django.{suffix}"


def texts_of(compiled: Path) -> dict[Any, str]:
    with compiled.open("rb") as file:
        return gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined,no-any-return]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of all texts in the source, collected as `make messages` does.

    It is collected from a copy: Django writes a `.html.py` beside each template for a moment, and
    tests that read the source would find it.
    """
    folder = tmp_path_factory.mktemp("texts")
    copy = folder / "source"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*IGNORED))
    with chdir(copy), override_settings(LOCALE_PATHS=[folder]):
        call_command("makemessages", locale=["xx"], keep_pot=True, verbosity=0)
    return folder / "django.pot"


def test_every_text_is_translated_and_none_is_left_over(template: Path) -> None:
    assert len(LOCALES) == 2
    found = {}
    for locale in LOCALES:
        missing = run("msgcmp", catalog(locale), template)
        unfinished = run("msgattrib", "--untranslated", "--no-fuzzy", catalog(locale))
        fuzzy = run("msgattrib", "--only-fuzzy", catalog(locale))
        obsolete = run("msgattrib", "--only-obsolete", catalog(locale))
        found[locale] = missing + unfinished + fuzzy + obsolete
    assert found == dict.fromkeys(LOCALES, NO_FINDINGS), "run `make messages`"


def test_placeholders_are_the_same_in_every_language(tmp_path: Path) -> None:
    for locale in LOCALES:
        assert run("msgfmt", "--check", "-o", tmp_path / "out.mo", catalog(locale)) == NO_FINDINGS


def test_compiled_files_are_up_to_date(tmp_path: Path) -> None:
    for locale in LOCALES:
        run("msgfmt", "-o", tmp_path / "fresh.mo", catalog(locale))
        fresh = texts_of(tmp_path / "fresh.mo")
        assert fresh == texts_of(catalog(locale, "mo")), "run `make messages`"


def test_no_source_holds_a_python_expression(template: Path) -> None:
    """An f-string is collected with its braces, and is never found again when it is shown."""
    assert "python-brace-format" not in template.read_text()


def test_unfinished_translation_is_noticed(template: Path, tmp_path: Path) -> None:
    unfinished = shutil.copy(template, tmp_path / "unfinished.po")
    assert "untranslated" in run("msgcmp", unfinished, template)


@pytest.mark.parametrize(
    ("language", "ahead", "past"),
    [
        ("en", "2 months", "2 days"),
        ("de", "2 Monaten", "2 Tagen"),
        ("zh-hans", "2 个月", "2 天"),
    ],
)
def test_time_spans_fit_after_a_preposition(language: str, ahead: str, past: str) -> None:
    now = timezone.now()
    with override(language):
        found = (until(now + timedelta(days=70)), since(now - timedelta(days=2, minutes=1)))
    assert [each.replace("\xa0", " ") for each in found] == [ahead, past]
