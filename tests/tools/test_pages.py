"""HTML as a person reads it: the labelled pages, and pages made to cost time or to hide words."""

from collections.abc import Callable
from itertools import islice

import pytest

from tests.security.test_corpus import message
from tests.support.growth import check_growth, cpu_seconds
from tests.tools.page_corpus import find_faults, pages
from tools.mail.html.nesting import TooLarge
from tools.mail.html.text import render
from tools.mail.message.page_text import make_readable, page_text

PAGES = pages()


def test_page_is_read_as_a_person_sees_it() -> None:
    wrong = {}
    for name, page in PAGES.items():
        read = page_text(page.html)
        faults = find_faults(page, read.text)
        if faults or {read.hidden_text_removed, bool(read.notes)} != {page.hidden}:
            wrong[name] = (faults, read)
    assert wrong == {}


def test_page_that_is_cut_off_anywhere_is_read() -> None:
    for page in PAGES.values():
        for end in range(0, len(page.html), max(1, len(page.html) // 12)):
            page_text(page.html[:end])


def test_hidden_characters_are_counted() -> None:
    read = page_text("<p>Seen</p><p hidden>two words</p><i style='opacity:0'>more</i>")
    assert read.text == "Seen"
    assert read.notes == ("Hidden text was left out: 13 characters.",)


def test_text_behind_megabytes_of_pictures_is_read() -> None:
    picture = f'<img alt="Map" src="data:image/png;base64,{"iVBORw0KGgo" * 200_000}">'
    read = make_readable(message(None, f"<p>Before</p>{picture}<p>After</p>"))
    assert read.text == "Before\n\n[image: Map]\n\nAfter"
    assert read.notes == ()


def test_page_that_is_too_long_says_how_much_was_read() -> None:
    read = make_readable(message(None, f"<p>First</p>{'word ' * 200_000}<p>Last</p>"))
    assert read.text.startswith("First")
    assert "Last" not in read.text
    assert read.notes == ("The HTML is too long. Its first 1,000,000 characters were read.",)


def test_style_sheet_is_followed_up_to_the_rules_at_its_end() -> None:
    rules = "".join(f".c{n} > td.x a:hover {{color:#{n % 1000:03}}}\n" for n in range(2_000))
    html = f"<style>{rules}.last{{display:none}}</style><p>Seen</p><p class=last>SECRET</p>"
    assert page_text(html).text == "Seen"


# Each is the most that one part of the reader takes: the page for a size, and the largest size.
WORST: dict[str, tuple[Callable[[int], str], int]] = {
    "nested-tables": (lambda n: "<table><tr><td>" * n + "x", 9_900),
    "spans": (lambda n: "<table>" + "<tr><td rowspan=9999 colspan=100>x<td>y" * n, 9_000),
    "rules": (
        lambda n: f"<style>{'* * * *{color:red}' * n}</style>{'<div><p>' * (3 * n)}",
        3_000,
    ),
    "quote-marks": (lambda n: '<a href="' * n, 50_000),
}
MORE: dict[str, tuple[Callable[[int], str], int]] = {
    "nested-lists": (lambda n: "<ul><li>a" * n, 19_000),
    "nested-quotes": (lambda n: "<blockquote><p>x" * n, 19_000),
    "links": (lambda n: "<a href=https://x.example/1>a" * n, 19_000),
    "pictures": (lambda n: '<img alt="x y">' * n, 39_000),
    "style": (lambda n: f"<style>{'p{color:red}' * n}</style>{'<p>x' * (10 * n)}", 3_000),
    "media": (lambda n: "<style>" + "@media screen{" * n, 5_000),
    "comments": (lambda n: "<!-- " * n, 100_000),
    "lines": (lambda n: "<pre>" + "a\n" * n, 250_000),
}


@pytest.mark.parametrize(
    "name", [*WORST, *(pytest.param(name, marks=pytest.mark.long) for name in MORE)]
)
def test_bad_page_is_read_in_linear_time(name: str) -> None:
    page, size = (WORST | MORE)[name]
    check_growth(lambda n: page_text(page(n)), size)


def test_page_with_too_many_elements_is_refused_at_once() -> None:
    def refuse() -> None:
        with pytest.raises(TooLarge):
            page_text("<font color=red><p>" * 25_000)

    def read() -> None:
        page_text("<font color=red><p>" * 6_000)

    assert min(map(cpu_seconds, [refuse] * 3)) < min(map(cpu_seconds, [read] * 3))


def test_same_address_is_written_once_in_a_row() -> None:
    links = "".join(f'<a href="https://x.example/{n // 3}">{n}</a> ' for n in islice(range(9), 6))
    assert render(links) == "0 <https://x.example/0> 1 2 3 <https://x.example/1> 4 5"
