"""Precision and recall of the warnings about content, over the mails of tests/corpus/warnings."""

from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.tools.warnings import corpus

PAGE = Path(__file__).parent.parent.parent.parent / "docs" / "dev" / "warnings.md"
AT_MOST = 0.02  # of the ordinary mails
# The other warnings tell facts about recipients, history and parts that no text can make false.
CONTENT = (
    "attachment_missing",
    "bidi",
    "hidden_text",
    "injection",
    "link_mismatch",
    "long_query",
    "lookalike_domain",
    "remote_content",
    "secret",
)
HEAD = """# Warnings: false alarms and misses

Written by `tests/tools/warnings/test_precision.py`. The mails are in `tests/corpus/warnings/`: {ordinary} ordinary ones
({hand_written} written by hand, the others from templates with a fixed seed) and {traps} traps. The own domain is
`lovelace.example`, and the mailbox knows `northwind.example`. Precision is the share of traps among the flagged mails.
Recall is the share of traps that are named.

"""
LINE = "| {} | {} | {} | {:.3f} | {:.3f} |"


@cache
def count_flagged() -> tuple[Counter[str], int]:
    """Return the number of ordinary mails by warning, and that of flagged ordinary mails."""
    found = [mail.codes() & set(CONTENT) for mail in corpus.list_ordinary()]
    return Counter(code for codes in found for code in codes), sum(map(bool, found))


@cache
def count_named() -> tuple[Counter[str], Counter[str]]:
    """Return the numbers of traps and of named traps by warning."""
    traps = corpus.list_traps()
    return (
        Counter(trap.warning for trap in traps),
        Counter(trap.warning for trap in traps if trap.warning in trap.codes()),
    )


def make_page() -> str:
    alarms, (all_traps, found) = count_flagged()[0], count_named()
    rows = [
        LINE.format(
            f"`{code}`",
            alarms[code],
            all_traps[code],
            found[code] / max(found[code] + alarms[code], 1),
            found[code] / all_traps[code],
        )
        for code in CONTENT
    ]
    head = HEAD.format(
        ordinary=len(corpus.list_ordinary()),
        hand_written=len(corpus.list_hand_written()),
        traps=len(corpus.list_traps()),
    )
    titles = "| warning | ordinary mails flagged | traps | precision | recall |"
    total = f"\nOrdinary mails with a false alarm: {count_flagged()[1]} of {len(corpus.list_ordinary())}.\n"
    return head + "\n".join([titles, "| --- | --- | --- | --- | --- |", *rows, ""]) + total


def test_corpus_is_large_and_without_repetition() -> None:
    ordinary, traps = corpus.list_ordinary(), corpus.list_traps()
    assert len(ordinary) == len(set(ordinary)) >= 400
    assert len(corpus.list_hand_written()) >= 60
    assert len(traps) == len(set(traps)) >= 100
    assert {trap.warning for trap in traps} == set(CONTENT)


@pytest.mark.parametrize(
    "trap", corpus.list_traps(), ids=lambda trap: f"{trap.warning}-{trap.text[:30]}"
)
def test_trap_is_named(trap: corpus.Mail) -> None:
    assert trap.warning in trap.codes()


def test_false_alarms_on_ordinary_mail_are_rare() -> None:
    alarms = {
        mail.text: codes
        for mail in corpus.list_ordinary()
        if (codes := mail.codes() & set(CONTENT))
    }
    assert len(alarms) <= AT_MOST * len(corpus.list_ordinary()), alarms


def test_published_table_is_the_measured_one() -> None:
    """The message of a failure is the page to publish."""
    assert PAGE.read_text() == make_page()
