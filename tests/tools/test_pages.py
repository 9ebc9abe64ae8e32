"""HTML as a person reads it: the labelled pages, and pages made to cost time or to hide words."""

import time
from itertools import islice

import pytest

from tests.security.test_corpus import message
from tests.tools.page_corpus import find_faults, pages
from tools.mail.html.nesting import TooLarge
from tools.mail.html.text import render
from tools.mail.message.page_text import make_readable, page_text

PAGES = pages()


@pytest.mark.parametrize("name", sorted(PAGES))
def test_page_is_read_as_a_person_sees_it(name: str) -> None:
    page = PAGES[name]
    read = page_text(page.html)
    assert find_faults(page, read.text) == [], read.text
    assert read.hidden_text_removed is page.hidden
    assert bool(read.notes) is page.hidden


@pytest.mark.parametrize("name", sorted(PAGES))
def test_page_that_is_cut_off_anywhere_is_read(name: str) -> None:
    html = PAGES[name].html
    for end in range(0, len(html), max(1, len(html) // 12)):
        page_text(html[:end])


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


# Each is the most that one part of the reader takes.
WORST = {
    "nested-tables": "<table><tr><td>" * 9_900 + "x",
    "spans": "<table>" + "<tr><td rowspan=9999 colspan=100>x<td>y" * 9_000,
    "rules": "<style>" + "* * * *{color:red}" * 3_000 + "</style>" + "<div><p>" * 9_000,
    "quote-marks": '<a href="' * 50_000,
}
MORE = {
    "nested-lists": "<ul><li>a" * 19_000,
    "nested-quotes": "<blockquote><p>x" * 19_000,
    "links": "<a href=https://x.example/1>a" * 19_000,
    "pictures": '<img alt="x y">' * 39_000,
    "style": "<style>" + "p{color:red}" * 3_000 + "</style>" + "<p>x" * 30_000,
    "media": "<style>" + "@media screen{" * 5_000,
    "comments": "<!-- " * 100_000,
    "lines": "<pre>" + "a\n" * 250_000,
}


def check_time(html: str) -> None:
    started = time.thread_time()
    page_text(html)
    assert time.thread_time() - started < 2.0  # one second, on a machine that is busy


@pytest.mark.parametrize("name", WORST)
def test_worst_page_is_read_in_time(name: str) -> None:
    check_time(WORST[name])


@pytest.mark.long
@pytest.mark.parametrize("name", MORE)
def test_other_bad_page_is_read_in_time(name: str) -> None:
    check_time(MORE[name])


def test_page_with_too_many_elements_is_refused_at_once() -> None:
    started = time.thread_time()
    with pytest.raises(TooLarge):
        page_text("<font color=red><p>" * 25_000)
    assert time.thread_time() - started < 1.0


def test_same_address_is_written_once_in_a_row() -> None:
    links = "".join(f'<a href="https://x.example/{n // 3}">{n}</a> ' for n in islice(range(9), 6))
    assert render(links) == "0 <https://x.example/0> 1 2 3 <https://x.example/1> 4 5"
