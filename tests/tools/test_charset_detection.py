"""The share of texts without a charset that are read right, on texts that tuned nothing."""

from collections import Counter
from collections.abc import Callable
from functools import cache

from tests.tools.charset_samples import list_samples
from tools.mail.text.decoding import text_of

AT_LEAST = 0.92  # 0.934 when it was measured
LONG = 0.99  # of texts with 60 words


def test_samples_are_many_and_in_many_languages() -> None:
    assert len(list_samples()) >= 900
    assert len({sample.language for sample in list_samples()}) >= 30


def count_read(read: Callable[[bytes], str | None]) -> Counter[str]:
    """Return the number of texts that are read right, by length."""
    return Counter(
        sample.length for sample in list_samples() if read(sample.content) == sample.text
    )


@cache
def count_right() -> Counter[str]:
    return count_read(lambda content: text_of(content, ""))


def test_text_without_a_charset_is_read_right() -> None:
    right = count_right()
    assert right.total() >= AT_LEAST * len(list_samples()), right
    long = sum(sample.length == "60" for sample in list_samples())
    assert right["60"] >= LONG * long, right


def test_markup_and_english_around_a_text_change_nothing() -> None:
    def read_inside(content: bytes) -> str | None:
        page = (
            b"<html><p>Thank you for your message.</p>\r\n<p>%s</p>\r\n<p>Kind regards</p></html>"
        )
        found = text_of(page % content, "").split("<p>")[2]
        return found.removesuffix("</p>\n")

    assert count_read(read_inside) == count_right()
