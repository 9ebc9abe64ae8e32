"""Broken markup costs a page no words, and no guard."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.security.corpus import HTML
from tests.support.growth import check_growth
from tools.mail.html.parser import HtmlParser
from tools.mail.message.page_text import page_text


@pytest.mark.parametrize("word", ["<![x]>", "<![if !mso]>", "<![CDATA[", "<![=", "<![]]>"])
def test_marked_section_hides_nothing_and_reveals_nothing(word: str) -> None:
    found = page_text(f"<p>seen</p>{word}><p style='display:none'>secret</p><p>too</p>")
    assert found.text.split() == ["seen", "too"] or found.text.split() == ["seen", ">", "too"]
    assert found.hidden_text_removed


@given(st.lists(st.sampled_from([*HTML, "]>", "x"]), max_size=12).map("".join))
def test_no_markup_makes_the_parser_raise(html: str) -> None:
    reader = HtmlParser()
    reader.feed(html)
    reader.close()


def test_unclosed_sections_are_read_in_linear_time() -> None:
    def read(number: int) -> None:
        reader = HtmlParser()
        reader.feed("<![" * number)
        reader.close()

    check_growth(read, 150_000)
