"""Precision and recall of the warnings about content, over the mails of tests/corpus/warnings."""

from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from tests.tools.warnings import corpus
from tools.warnings import CHECKS

PAGE = Path(__file__).parent.parent.parent.parent / "docs" / "dev" / "warnings.md"
AT_MOST = 0.02  # of the ordinary mails
MISSED = 0.02  # of the traps
# The other warnings tell facts about recipients, history and parts that no text can make false.
CONTENT = sorted(name for name, check in CHECKS.items() if check.of_text)
HEAD = """# Warnings: false alarms and misses

Written by `tests/tools/warnings/test_precision.py`. The mails are in `tests/corpus/warnings/`. The own domain is
`lovelace.example`, and the mailbox knows `northwind.example`. Precision is the share of traps among the flagged mails.
Recall is the share of traps that are named.
"""
PARTS = {
    "Held out": """
Mails about logistics, medicine, law, schools, shops, construction, IT and travel, in English, German, French, Spanish,
Chinese and Japanese. The ordinary ones changed no pattern; their author knew the English, German and Chinese patterns.
When they were measured first, none of 151 ordinary mails was flagged, and 29 of 40 traps were named. The other traps
announced a file in French, Spanish or Japanese, or named a password in German or French. Words for these were added
afterwards. Then 12 more ordinary mails and 11 more traps in these languages were written, and all were judged right.
The author of `model_artifact`, `payment_details` and `unfilled_placeholder` wrote some traps of these three before the
patterns. Three others, who saw no pattern and none of each other's mails, then wrote for the same six languages:

| set | traps named when it was measured first | ordinary mails flagged | and then |
| --- | --- | --- | --- |
| first | 27 of 126 | 2 of 83 | made the patterns better; it is in sample |
| second | 63 of 108 | 9 of 120, all near the matter | made the patterns better; it is in sample |
| third | 59 of 72 | 2 of 72 | held out; words for what was missed were added afterwards |

These ordinary mails hid that everyday sentences were flagged ("Could you send it instead?", "your prompt reply"): a
reader of the patterns wrote 35 such sentences, and 26 were. They are in sample now, and a word about an account counts
only near one about money. So of slips that nobody here has seen, about one in five passes. A plain account number
without a word about a change is not named, because a company prints its own on every invoice. Of a long text these
three look at the first 12,000 and the last 3,000 characters.
""",
    "In sample": """
These mails made the patterns better, so their figures say less. {hand_written} ordinary ones are written by hand, and
those of the first two sets by their authors; the others come from templates with a fixed seed.
""",
}
IN_SAMPLE = pytest.param("In sample", marks=pytest.mark.long)
TITLES = "| warning | ordinary mails flagged | traps | precision | recall |"
LINE = "| {} | {} | {} | {:.3f} | {:.3f} |"


def list_part(part: str) -> tuple[Sequence[corpus.Mail], Sequence[corpus.Mail]]:
    """Return the ordinary mails and the traps of a part."""
    if part == "Held out":
        return corpus.list_held_out(), corpus.list_held_out_traps()
    return corpus.list_ordinary(), corpus.list_traps()


@cache
def codes_of(mail: corpus.Mail) -> frozenset[str]:
    """Return the codes of the warnings about a mail; several tests ask for them."""
    return mail.codes()


@cache
def list_alarms(part: str) -> dict[corpus.Mail, frozenset[str]]:
    """Return the ordinary mails that are flagged, with their warnings about content."""
    found = {mail: codes_of(mail) & set(CONTENT) for mail in list_part(part)[0]}
    return {mail: codes for mail, codes in found.items() if codes}


def list_named(part: str) -> Counter[str]:
    """Return the number of named traps by warning."""
    traps = list_part(part)[1]
    return Counter(trap.warning for trap in traps if trap.warning in codes_of(trap))


def make_page() -> str:
    return HEAD + "".join(make_part(part) for part in PARTS)


def make_part(part: str) -> str:
    ordinary, traps = list_part(part)
    alarms = Counter(code for codes in list_alarms(part).values() for code in codes)
    named, given = list_named(part), Counter(trap.warning for trap in traps)
    rows = [
        LINE.format(
            f"`{code}`",
            alarms[code],
            given[code],
            named[code] / max(named[code] + alarms[code], 1),
            named[code] / given[code],
        )
        for code in CONTENT
    ]
    text = PARTS[part].format(hand_written=len(corpus.list_hand_written()))
    total = f"Ordinary mails with a false alarm: {len(list_alarms(part))} of {len(ordinary)}. Traps: {len(traps)}.\n"
    table = "\n".join([TITLES, "| --- | --- | --- | --- | --- |", *rows, ""])
    return f"\n## {part}\n{text}\n{table}\n{total}"


def test_corpus_is_large_and_without_repetition() -> None:
    assert len(corpus.list_hand_written()) >= 60
    for part, least in {"Held out": (150, 40), "In sample": (400, 100)}.items():
        ordinary, traps = list_part(part)
        assert len(ordinary) == len(set(ordinary)) >= least[0]
        assert len(traps) == len(set(traps)) >= least[1]
        assert {trap.warning for trap in traps} == set(CONTENT)
    assert not {*list_part("Held out")[0]} & {*list_part("In sample")[0]}


@pytest.mark.parametrize("part", ["Held out", IN_SAMPLE])
def test_hardly_a_trap_is_missed(part: str) -> None:
    traps = list_part(part)[1]
    missed = [trap for trap in traps if trap.warning not in codes_of(trap)]
    assert len(missed) <= MISSED * len(traps), missed


@pytest.mark.parametrize("part", ["Held out", IN_SAMPLE])
def test_false_alarms_on_ordinary_mail_are_rare(part: str) -> None:
    alarms = list_alarms(part)
    assert len(alarms) <= AT_MOST * len(list_part(part)[0]), alarms


@pytest.mark.long
def test_published_table_is_the_measured_one() -> None:
    """The message of a failure is the page to publish."""
    assert PAGE.read_text() == make_page()
