"""The quoted original is folded, and nothing else: the figures on a corpus, and what never happens."""

import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.growth import check_growth
from tests.tools.quotes.corpus import Letter, list_letters
from tests.tools.quotes.figures import failures, measure, read_folded
from tools.mail.html.quotes import mark_quotes
from tools.mail.message.page_text import folded_text, page_text
from tools.mail.text.quotes import fold

PAGE = Path(__file__).parent.parent.parent.parent / "docs" / "dev" / "quotes.md"
LETTERS = list_letters()
ANSWER = "Re: Visit"


@pytest.mark.parametrize("held_out", [False, True])
def test_corpus_is_folded_and_no_answer_is_lost(held_out: bool) -> None:
    chosen = [letter for letter in LETTERS if letter.held_out is held_out]
    found = measure(chosen, read_folded)

    name = "held out" if held_out else "in sample"
    row = (
        f"| mailhub, {name} | {found.mails} | {found.perfect} | {found.precision:.1%}"
        f" | {found.recall:.1%} | {found.own_lost:,} of {found.own:,} |"
    )
    assert row in PAGE.read_text()
    wrong = {letter.name: failures(letter, read_folded(letter)) for letter in chosen}
    assert found.own_lost == 0, [name for name, errors in wrong.items() if "lost" in errors]
    assert found.precision == 1
    assert found.recall >= 0.99
    assert found.signature_recall >= 0.99


def test_corpus_has_many_programs_and_a_held_out_third() -> None:
    assert len(LETTERS) >= 500
    assert len({letter.name for letter in LETTERS}) == len(LETTERS)
    assert 0.3 <= sum(letter.held_out for letter in LETTERS) / len(LETTERS) <= 0.4


def test_whole_text_has_every_sentence_of_the_corpus() -> None:
    for letter in LETTERS:
        text = letter.text if letter.text is not None else page_text(letter.html or "").text
        bare = "".join(text.split())
        missing = [
            row
            for row in (*letter.own, *letter.quoted, *letter.signature)
            if "".join(row.split()) not in bare
        ]
        assert missing == [], letter.name


@pytest.mark.parametrize("seed", range(8))
def test_no_line_between_quoted_lines_is_lost(seed: int) -> None:
    chance = random.Random(seed)
    quoted = ("> Which day suits you?", ">> Who comes?", ">", "> Bring the key.", "")
    own = (
        "Tuesday.",
        "All of us.",
        "On Friday, at 9:30, we meet:",
        "From: the gate",
        "Fine.",
        "--x",
    )
    for _ in range(60):
        rows = ["On 3/3/2025 09:12, Jonas Reed <j.reed@contoso.example> wrote:"]
        for number in range(chance.randint(1, 12)):
            answer = f"{number} {chance.choice(own)}"
            rows.append(chance.choice((chance.choice(quoted), chance.choice(quoted), answer)))
        kept = fold("\n".join(rows), subject=chance.choice((ANSWER, "Visit"))).text.split("\n")
        answers = [row for row in rows if row[0:1].isdigit()]
        assert [row for row in kept if row[0:1].isdigit()] == answers


def test_question_above_an_answer_stays() -> None:
    text = "On 3/3/2025 09:12, Jonas wrote:\n> Which day?\n\nTuesday.\n\n> Who comes?\n\nI do.\n"
    assert fold(text, subject=ANSWER).text == text


def test_answer_below_an_attribution_stays() -> None:
    text = "On 3/3/2025 09:12, Jonas wrote:\nYes, and as Sam wrote:\n> Which day?\n\nTuesday.\n"
    assert "Yes, and as Sam wrote:" in fold(text, subject=ANSWER).text


def test_quoted_forward_stays() -> None:
    text = "Please read.\n\nOn 3/3/2025 09:12, Jonas wrote:\n> Which day?\n> Who comes?\n"
    assert fold(text, subject="Fwd: Visit").text == text
    assert fold(text, subject="Re: Fwd: Visit").text.strip() == "Please read."


@pytest.mark.parametrize(
    "text",
    [
        "> only\n> a quote\n> of a mail\n",
        "On 3/3/2025 09:12, Jonas Reed wrote:\n> Which day?\n",
        "-- \nMira Holm\nNorthwind\n",
        "Sent from my iPhone\n",
        "-----Original Message-----\nFrom: J\nSent: 3/3/2025 9:12\nSubject: x\n\nHello\n",
        "",
        "\n\n",
    ],
)
def test_nothing_is_folded_if_nothing_would_be_left(text: str) -> None:
    found = fold(text, subject=ANSWER)
    assert (found.text, found.quoted, found.signature) == (text, 0, 0)


@pytest.mark.parametrize("mark", ["\ufdd0", "&#xFDD0;", "&#64976;", "&#x0fdd0"])
def test_sender_cannot_write_marks(mark: str) -> None:
    html = f"<p>Pay Ola, not Sam.</p><p>{mark}Sam has left.</p><p>Mira</p>"
    read = folded_text(html, ANSWER, ())
    assert "Sam has left." in read.text
    assert read.folded == {}
    assert not fold(mark_quotes(f"<p>{mark}</p>").replace("<p>", ""), subject=ANSWER).quoted


OUTLOOK = next(x for x in LETTERS if x.name == "Outlook for Windows, html, en, top")
COLOURED = next(x for x in LETTERS if x.name.startswith("Answers in a colour, without"))


@pytest.mark.parametrize(("page", "folds"), [(OUTLOOK, True), (COLOURED, False)])
def test_text_of_a_mail_is_folded_if_its_page_agrees(page: Letter, folds: bool) -> None:
    text = page_text(page.html or "").text.replace("\n---\n", "\n")
    both = replace(page, text=text)
    assert (failures(both, read_folded(both)) == {}) is True
    assert (len(read_folded(both)) < len(text) / 2) is folds


def test_recipients_show_that_a_mail_is_an_answer() -> None:
    text = (
        "Two, please.\n\nFrom: Jonas <j.reed@contoso.example>\nSent: 3 March 2025 9:12\n"
        "To: Mira\nSubject: Sensors\n\nHow many?\n"
    )
    assert "How many?" in fold(text, subject="Sensors").text
    answered = fold(text, subject="Sensors", people=("J.Reed@contoso.example",))
    assert answered.text.strip() == "Two, please."


HOSTILE = {
    "quoted lines": "> a\n",
    "quotes and answers": "> a\nb\n",
    "attributions": "On 3 Mar 2025 at 09:12, a <a@b.example> wrote:\n",
    "colons": "On 3 Mar 2025:\n",
    "labels": "From: a\nSent: 3\nSubject: b\n",
    "half labels": "From: a\n",
    "rules": "-----Original Message-----\n",
    "dashes": "-" * 300 + "\n",
    "delimiters": "-- \n",
    "devices": "Sent from my iPhone\n",
    "empty lines": "\n",
    "marks": "\ufdd0a\ufdd1\ufdd8b\ufdd9",
    "containers": "\ufdd6\n",
    "one line": "From: On 3 at 09:12 wrote ",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_folding_is_linear(name: str) -> None:
    def read(size: int) -> None:
        text = (HOSTILE[name] * (size // len(HOSTILE[name]) + 1))[:size]
        fold(f"Hello\n{text}", subject=ANSWER)

    check_growth(read, 40_000)


def test_folding_is_linear_in_originals_above_a_quote() -> None:
    attribution = "On 3 Mar 2025 at 09:12, a <a@b.example> wrote:\n\n"
    check_growth(
        lambda number: fold(f"Hello\n\n{attribution * number}> x\n", subject=ANSWER), 9_000
    )


def test_mail_of_very_many_lines_stays_whole() -> None:
    def read(number: int) -> None:
        text = "Hello\n" + "> \n" * number
        assert fold(text, subject=ANSWER).text == text

    check_growth(read, 300_000)


@pytest.mark.parametrize("form", ["text", "html"])
def test_ordinary_mail_costs_little(form: str) -> None:
    """Count what folding adds: the reading of HTML has its own tests."""
    chosen = [each for each in LETTERS if (each.html is not None) == (form == "html")][:40]
    for letter in chosen:
        text = letter.text or page_text(letter.html or "").text
        with Calls() as calls:
            if letter.html is not None:
                mark_quotes(letter.html)
            fold(text, subject=letter.subject)
        assert calls.number < 4_000, letter.name  # the dearest needs half of them


class Calls:
    """The number of function calls in a block."""

    def __init__(self) -> None:
        self.number = 0

    def __enter__(self) -> "Calls":
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _count(self, _frame: object, event: str, _argument: Any) -> None:
        self.number += event in ("call", "c_call")
