"""The worst time over a corpus of hostile inputs for each parser.

Each parser may raise only refusals.
"""

import random
import time
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from typing import Any

import pytest

from accounts.infra.problems import Problem
from tests.security import corpus
from tests.support.growth import is_expensive
from tools import warnings
from tools.mail.message import lenient
from tools.mail.message.compose import ComposeError, Request, new_message, reply_subject
from tools.mail.message.content import Content
from tools.mail.message.draft_source import read_draft
from tools.mail.message.extract import CannotExtract, text_from
from tools.mail.message.markup import answer_content, author_content, page_for_reader
from tools.mail.message.page_text import make_readable
from tools.mail.parsers import run
from tools.mail.text.decoding import text_of
from tools.providers.base import Message, SearchQuery
from tools.providers.errors import Refused
from tools.providers.imap.search import criteria
from tools.reading.originals import as_original
from tools.sending.preview import of_message

QUICK, FULL = 6, 300
OWN = warnings.Context(own_domains=frozenset({"lovelace.example"}))


def message(text: str | None, html: str | None) -> Message:
    return Message(
        id="1",
        from_address="m@x.example",
        from_name="",
        to=(),
        cc=(),
        reply_to=(),
        subject="x",
        date=None,
        message_id="<a@b>",
        references=(),
        text=text,
        html=html,
        attachments=(),
    )


def read_html(html: str) -> None:
    assert make_readable(message(None, html)).text is not None


def show_html(html: str) -> None:
    page_for_reader(html, with_hidden=True)


def quote_html(html: str) -> None:
    original = as_original(message(None, html))
    answer_content(Content(body="Hi", text="Hi"), original)


def read_headers(block: bytes) -> None:
    found = lenient.headers(block)
    for name in ("From", "To", "Cc", "Reply-To"):
        lenient.addresses(found, name)
    for name in ("Subject", "Message-ID"):
        lenient.decode_text(found[name])
    lenient.references(found)
    lenient.date_of(found, None)
    lenient.parameter(found, "charset")
    reply_subject(lenient.decode_text(found["Subject"]))


def read_mime(source: bytes) -> None:
    run(read_draft, source, "ada@lovelace.example", "Ada")


def read_charset(given: tuple[bytes, str]) -> None:
    text_of(*given)
    text_of(*given, is_page=True)


def read_file(given: tuple[bytes, str]) -> None:
    content, name = given
    text_from(content, media_type="", name=name)


def propose(text: str, html: str | None) -> None:
    content = author_content(html if html is not None else text, "text" if html is None else "html")
    request = Request(
        from_address="ada@lovelace.example", to=("m@x.example",), subject="x", content=content
    )
    of_message(new_message(request), OWN, conditions={})


def propose_text(text: str) -> None:
    propose(text, None)


def propose_html(html: str) -> None:
    propose("", html[:100_000])


def search(text: str) -> None:
    criteria(SearchQuery(raw=text, text=text, subject=text), today=date(2026, 11, 22))


# The maximum seconds of each. A document is parsed in its own processes, and may take longer than a
# mail.
PARSERS: dict[
    str, tuple[Callable[[random.Random, int], Iterator[Any]], Callable[[Any], None], float]
] = {
    "HTML, read": (corpus.html, read_html, 2.0),
    "HTML, shown as HTML": (corpus.html, show_html, 2.0),
    "HTML, answered": (corpus.html, quote_html, 2.0),
    "HTML of an agent, proposed": (corpus.html, propose_html, 2.0),
    "text of an agent, proposed": (corpus.plain, propose_text, 2.0),
    "headers": (corpus.header_blocks, read_headers, 2.0),
    "MIME of a draft": (corpus.messages, read_mime, 2.0),
    "character sets": (corpus.encoded, read_charset, 2.0),
    "attachments as text": (corpus.files, read_file, 20.0),
    "search terms": (corpus.short, search, 2.0),
}
REPEATS = 3
MILLIONS = 100  # steps of Python for one input: about two seconds
SLACK = 3.0  # for the start of a process that replaces a killed one, on a busy machine


@pytest.mark.parametrize("parser", PARSERS)
def test_sample_of_the_corpus_is_read_at_little_cost(parser: str) -> None:
    generate, use, _ = PARSERS[parser]
    for each in generate(random.Random(corpus.SEED), QUICK):
        assert not is_expensive(partial(timed, use, each), millions=MILLIONS), each


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("parser", PARSERS)
def test_corpus_is_read_in_time(parser: str, capsys: pytest.CaptureFixture[str]) -> None:
    slowest, count, refused = worst(parser, FULL)
    with capsys.disabled():
        print(f"\n| {parser} | {count} | {slowest * 1000:.0f} | {refused} |", end="", flush=True)  # noqa: T201
    assert slowest < PARSERS[parser][2] + SLACK


def worst(parser: str, count: int) -> tuple[float, int, int]:
    """Return the worst seconds, the number of inputs, and how many of them were refused."""
    generate, use, limit = PARSERS[parser]
    slowest, given, refused = 0.0, 0, 0
    for each in generate(random.Random(corpus.SEED), count):
        took, is_refused = timed(use, each)
        for _ in range(REPEATS):  # what is slow only once, waited for the machine
            if took >= limit + SLACK:
                took = min(took, timed(use, each)[0])
        slowest, given, refused = max(slowest, took), given + 1, refused + is_refused
    assert given == count
    return slowest, given, refused


def timed(use: Callable[[Any], None], given: Any) -> tuple[float, bool]:
    """Return the seconds, and True if the input was refused."""
    started = time.monotonic()
    try:
        use(given)
    except (Problem, ComposeError, CannotExtract, Refused):
        return time.monotonic() - started, True
    return time.monotonic() - started, False
