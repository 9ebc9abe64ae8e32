"""All text of the pages goes through gettext."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytestmark = pytest.mark.static
TEMPLATES = Path(__file__).parent.parent.parent / "templates"
TRANSLATED = re.compile(r"{% *blocktrans(?:late)?\b.*?{% *endblocktrans(?:late)? *%}", re.DOTALL)
# Blocks with which a page puts attributes into the tags of its base.
NOT_TEXT = re.compile(
    r"{% *block (?:at_\w+|\w+_data) *%}.*?{% *endblock *%}|{% *comment.*?endcomment *%}|{#.*?#}|{%.*?%}|{{.*?}}|&\w+;",
    re.DOTALL,
)
SAID = ("title", "placeholder", "aria-label", "alt")
# Names of the product, of files, keys, units, digests and outcomes: the same in every language.
NAMES = {
    "mailhub",
    "openapi",
    "json",
    "sha",
    "s",
    "ms",
    "m",
    "ctrl",
    "enter",
    *"jkaecrxzu",
    "ok",
    "forbidden",
}
# Commands to type.
NOT_FOR_READERS = {
    "approvals/invitation_command.html",
}


class Words(HTMLParser):
    """The words of a page that people read; code is for machines."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self._code = 0
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._code += tag in ("style", "script", "pre", "code")
        for name, value in attrs:
            if name in SAID:
                self.handle_data(value or "")

    def handle_endtag(self, tag: str) -> None:
        self._code -= tag in ("style", "script", "pre", "code")

    def handle_data(self, data: str) -> None:
        if not self._code:
            self.found += [
                word for word in re.findall(r"[^\W\d_]+", data) if word.lower() not in NAMES
            ]


def bare(template: str) -> list[str]:
    return Words(NOT_TEXT.sub(" ", TRANSLATED.sub(" ", template))).found


def test_untranslated_word_is_found() -> None:
    page = '<p title="{% translate "Fine" %}">{{ name }} {% blocktranslate %}Fine{% endblocktranslate %}'
    assert bare(page) == []
    assert bare(f"{page} Bare") == ["Bare"]
    assert bare('<input placeholder="Bare">') == ["Bare"]


def test_templates_have_no_untranslated_words() -> None:
    pages = {
        str(path.relative_to(TEMPLATES)): path.read_text() for path in TEMPLATES.rglob("*.html")
    }
    found = {name: bare(page) for name, page in pages.items() if name not in NOT_FOR_READERS}
    assert len(found) > 50
    assert {name: words for name, words in found.items() if words} == {}
